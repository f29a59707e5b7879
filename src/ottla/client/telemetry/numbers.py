"""A client's numbers under the names that brokers ask for: org.apache.kafka.producer.record.send.total.

1. The name is made of Kafka's group and name, as Java's client makes it; the client's id is no attribute, because the
   broker knows it.
2. A total is a sum, pushed as the difference since the last push that was accepted, or as it is; all others are gauges.
   A number that is none (an average of nothing) is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.metrics import MetricKey
from ottla.protocol.otlp.points import Attributes, Counts, Point

PREFIX: Final = "org.apache.kafka."
_EVERYTHING: Final = ("*", "")
_LEFT_OUT: Final = "client-id"

Totals = dict[tuple[str, Attributes], float]


def name_of(key: MetricKey) -> str:
    return f"{PREFIX}{key.group.removesuffix('-metrics')}.{key.name}".replace("-", ".")


def is_wanted(name: str, prefixes: Sequence[str]) -> bool:
    return any(prefix in _EVERYTHING or name.startswith(prefix) for prefix in prefixes)


class Numbers:
    """What was pushed of the totals is remembered until `accepted`."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._pushed_ns = start_ns
        self._totals: Totals = {}
        self._next: tuple[int, Totals] | None = None

    def points(
        self, snapshot: Mapping[MetricKey, float], prefixes: Sequence[str], *, as_deltas: bool, now_ns: int
    ) -> list[Point]:
        found, totals = [], dict[tuple[str, Attributes], float]()
        for key, value in snapshot.items():
            name = name_of(key)
            if not math.isfinite(value) or not is_wanted(name, prefixes):
                continue
            tags = sorted((tag.replace("-", "_"), text) for tag, text in key.tags if tag != _LEFT_OUT and text)
            attributes: Attributes = tuple(tags)
            if not key.name.endswith("-total"):
                found.append(Point(name, attributes, value, Counts.NOW, now_ns))
                continue
            totals[name, attributes] = value
            found.append(self._sum(name, attributes, value, as_deltas, now_ns))
        self._next = now_ns, totals
        return found

    def _sum(self, name: str, attributes: Attributes, value: float, as_delta: bool, now_ns: int) -> Point:
        if not as_delta:
            return Point(name, attributes, value, Counts.SINCE_START, now_ns, self._start_ns)
        since = value - self._totals.get((name, attributes), 0.0)
        return Point(name, attributes, since, Counts.SINCE_LAST_PUSH, now_ns, self._pushed_ns)

    def accepted(self) -> None:
        """What was made last has arrived: differences count from there."""
        if self._next is not None:
            self._pushed_ns, self._totals = self._next
