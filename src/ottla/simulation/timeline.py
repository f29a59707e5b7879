"""What happened on every node of a run, in order: processes, faults, sessions, and whatever else is worth a line.

    timeline = Timeline(loop.time)
    timeline.add("broker 0", "killed", "by a fault")
    timeline.of("broker 0")                       # its moments, in order

The history (history.py) is what clients asked and heard, and what the checker judges. The timeline is for people: it
decides nothing, and adding to it changes nothing of a run. It keeps MOMENTS_LIMIT moments and counts the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.light_tuples import NamedTuple

MOMENTS_LIMIT: Final = 200_000


class Moment(NamedTuple):
    """One line of a time line."""

    time_s: float
    node: str
    kind: str
    text: str

    def line(self) -> str:
        return f"{self.time_s:12.6f}  {self.node:<12} {self.kind:<10} {self.text}"


class Timeline:
    """See the module."""

    def __init__(self, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self._now_s = now_s
        self.moments: list[Moment] = []
        self.dropped = 0

    def add(self, node: str, kind: str, text: str = "") -> None:
        if len(self.moments) >= MOMENTS_LIMIT:
            self.dropped += 1
            return
        self.moments.append(Moment(self._now_s(), node, kind, text))

    def close(self) -> None:
        """Nothing comes any more; whoever keeps it does not keep the clock of the run."""
        self._now_s = float

    def of(self, node: str) -> list[Moment]:
        return [moment for moment in self.moments if moment.node == node]

    def text(self) -> str:
        return "".join(f"{moment.line()}\n" for moment in self.moments)
