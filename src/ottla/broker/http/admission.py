"""Who may stay connected to the HTTP door when there are too many: plain decisions on who is there and who is busy.

1. At most `limit` connections. One that comes to a full door takes the place of one that asks for nothing: of the
   address that has most of them, so that one machine with a thousand connections displaces its own and no others'.
2. When all are busy, `spare` more are let in, and only health and metrics are answered on them: what starts and stops
   brokers must hear that this one lives, whatever else is full.
3. Beyond that the oldest goes, busy or not: its client reads or sends nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

CONNECTIONS_LIMIT: Final = 128
SPARE: Final = 32


class Guest(Protocol):
    """A connection."""

    @property
    def address(self) -> str: ...

    @property
    def is_busy(self) -> bool:
        """A request of it is being answered."""

    def give_way(self) -> None:
        """Close."""


class Admission:
    def __init__(self, limit: int = CONNECTIONS_LIMIT, spare: int = SPARE) -> None:
        self._limit = limit
        self._spare = spare
        self._open: dict[Guest, None] = {}  # in the order in which they came

    @property
    def is_full(self) -> bool:
        """More are there than may be: all of them are busy, and only who watches is answered."""
        return len(self._open) > self._limit

    def came(self, guest: Guest) -> None:
        others = list(self._open)
        self._open[guest] = None
        if len(self._open) > self._limit and (leaving := self._who_leaves(others)) is not None:
            del self._open[leaving]
            leaving.give_way()

    def left(self, guest: Guest) -> None:
        self._open.pop(guest, None)

    def _who_leaves(self, others: list[Guest]) -> Guest | None:
        idle = [guest for guest in others if not guest.is_busy]
        if idle:
            count = Counter(guest.address for guest in self._open)
            return max(idle, key=lambda guest: count[guest.address])  # the first of them, so the oldest
        return others[0] if len(self._open) > self._limit + self._spare else None
