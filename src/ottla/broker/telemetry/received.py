"""The numbers of one client, as it pushed them last.

1. A gauge is what the last push said. A sum counts on: what was pushed as a difference is added, what was pushed as a
   total replaces what was there. So both kinds of clients show the same.
2. SERIES_LIMIT series of one client are kept, and as many new ones as there is `room` for; the rest is left out and
   counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.protocol.otlp.points import Attributes, Counts, Point

SERIES_LIMIT: Final = 1_000


class ReceivedMetrics:
    def __init__(self) -> None:
        self._values: dict[tuple[str, Attributes], float] = {}
        self.left_out_count = 0

    def __len__(self) -> int:
        return len(self._values)

    def take_in(self, points: Iterable[Point], room: int) -> None:
        """`room` is how many new series may be added."""
        for point in points:
            key = point.name, point.attributes
            before = self._values.get(key)
            if before is None:
                if room <= 0 or len(self._values) >= SERIES_LIMIT:
                    self.left_out_count += 1
                    continue
                room -= 1
            adds = point.counts is Counts.SINCE_LAST_PUSH
            self._values[key] = point.value + (before or 0.0) * adds

    def forget(self) -> None:
        self._values.clear()

    def series(self) -> Iterator[tuple[str, Attributes, float]]:
        """Names, what they are about, and how much, in order."""
        for (name, attributes), value in sorted(self._values.items()):
            yield name, attributes, value
