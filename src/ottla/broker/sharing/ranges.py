"""Offsets in a row that have the same state, as one object: the in-flight records of a share partition.

OffsetRanges covers `start` up to `end` (not included) without gaps. `cut(first, last)` returns the ranges of exactly
these offsets, and makes a border where there was none; `join(first, last)` puts equal neighbours together again.

1. There is no object per record: a thousand records that were acquired together are one range until somebody treats one
   of them differently.
2. A change that is not kept yet stands in `next_state` and `ticket`; the state is the one before until then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from ottla.broker.sharing.states import AVAILABLE, TERMINAL, RecordState

NO_TICKET = 0
_first = attrgetter("first")


class Range:
    """Offsets `first` to `last`, both included."""

    __slots__ = ("deliveries", "first", "last", "lock_until_ms", "member_id", "next_state", "state", "ticket")

    def __init__(self, first: int, last: int, state: RecordState = AVAILABLE, deliveries: int = 0) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries  # how often it was delivered
        self.member_id = ""
        self.lock_until_ms = 0
        self.next_state: RecordState | None = None
        self.ticket = NO_TICKET

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        pending = "" if self.next_state is None else f" to {self.next_state.name}"
        return f"<{self.first}-{self.last} {self.state.name}{pending} {self.deliveries}x {self.member_id}>"

    def is_like(self, other: Range) -> bool:
        return (
            self.state is other.state
            and self.deliveries == other.deliveries
            and self.member_id == other.member_id
            and self.lock_until_ms == other.lock_until_ms
            and self.next_state is other.next_state
            and self.ticket == other.ticket
        )

    def split(self, offset: int) -> Range:
        """Keep what is before `offset`; returns the rest."""
        rest = Range(offset, self.last, self.state, self.deliveries)
        rest.member_id, rest.lock_until_ms = self.member_id, self.lock_until_ms
        rest.next_state, rest.ticket = self.next_state, self.ticket
        self.last = offset - 1
        return rest

    @property
    def is_available(self) -> bool:
        return self.state is AVAILABLE and self.next_state is None

    @property
    def is_terminal(self) -> bool:
        """Nothing will happen to it any more."""
        return self.state in TERMINAL


class OffsetRanges:
    def __init__(self, start: int) -> None:
        self.start = start
        self._ranges: list[Range] = []

    @property
    def end(self) -> int:
        """The first offset that has no state yet."""
        return self._ranges[-1].last + 1 if self._ranges else self.start

    def __iter__(self) -> Iterator[Range]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def extend(self, end: int, state: RecordState = AVAILABLE, deliveries: int = 0) -> None:
        """Give every offset before `end` a state that has none."""
        if end > self.end:
            added = Range(self.end, end - 1, state, deliveries)
            if self._ranges and self._ranges[-1].is_like(added):
                self._ranges[-1].last = added.last
            else:
                self._ranges.append(added)

    def overlapping(self, first: int, last: int) -> list[Range]:
        """The ranges that have some of these offsets, as they are."""
        if first > last:
            return []
        lo = max(bisect_right(self._ranges, first, key=_first) - 1, 0)
        hi = bisect_right(self._ranges, last, key=_first)
        return [each for each in self._ranges[lo:hi] if each.last >= first]

    def cut(self, first: int, last: int) -> list[Range]:
        """The ranges of exactly those of these offsets that have a state."""
        self._border(first)
        self._border(last + 1)
        return self.overlapping(first, last)

    def _border(self, offset: int) -> None:
        at = bisect_right(self._ranges, offset, key=_first) - 1
        if at >= 0 and self._ranges[at].first < offset <= self._ranges[at].last:
            self._ranges.insert(at + 1, self._ranges[at].split(offset))

    def join(self, first: int, last: int) -> None:
        """Put equal neighbours together again around these offsets."""
        lo = max(bisect_right(self._ranges, first, key=_first) - 2, 0)
        hi = min(bisect_right(self._ranges, last, key=_first) + 1, len(self._ranges))
        joined: list[Range] = []
        for each in self._ranges[lo:hi]:
            if joined and joined[-1].is_like(each):
                joined[-1].last = each.last
            else:
                joined.append(each)
        self._ranges[lo:hi] = joined

    def join_all(self) -> None:
        if self._ranges:
            self.join(self._ranges[0].first, self._ranges[-1].last)

    def drop_before(self, offset: int) -> None:
        """Forget everything before `offset`, and begin there."""
        self._border(offset)
        keep = next((at for at, each in enumerate(self._ranges) if each.first >= offset), len(self._ranges))
        del self._ranges[:keep]
        self.start = offset
