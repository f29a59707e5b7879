"""The segments of one log, in the order of their base offsets.

1. Base offsets are unique. Only the last segment, the active one, grows.
2. Every question by offset is a bisection; the bytes of all segments are summed when asked, because only the segments
   know how they grow.
3. A log is never without a segment for its readers: `replace` adds the new ones and removes the old ones in one
   step, and only a log that is being closed or deleted removes its last.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Generic, Protocol, TypeVar


class HasBaseOffset(Protocol):
    """What is asked of a segment here."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...


S = TypeVar("S", bound=HasBaseOffset)

_base_offset = attrgetter("base_offset")


class Segments(Generic[S]):
    """Segments by base offset."""

    def __init__(self, segments: Iterable[S] = ()) -> None:
        self._segments: list[S] = []
        for segment in segments:
            self.add(segment)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[S]:
        """All of them as they are now; adding and removing on the way disturbs nobody."""
        return iter(self._segments.copy())

    @property
    def first(self) -> S | None:
        return self._segments[0] if self._segments else None

    @property
    def last(self) -> S | None:
        """The active segment."""
        return self._segments[-1] if self._segments else None

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self._segments]

    def get(self, base_offset: int) -> S | None:
        """The segment with exactly this base offset."""
        found = self.floor(base_offset)
        return found if found is not None and found.base_offset == base_offset else None

    def floor(self, offset: int) -> S | None:
        """The segment an offset belongs to: the last whose base offset is at most `offset`."""
        number = bisect_right(self._segments, offset, key=_base_offset)
        return self._segments[number - 1] if number else None

    def lower(self, offset: int) -> S | None:
        """The last segment whose base offset is below `offset`."""
        number = bisect_left(self._segments, offset, key=_base_offset)
        return self._segments[number - 1] if number else None

    def higher(self, offset: int) -> S | None:
        """The first segment whose base offset is above `offset`."""
        number = bisect_right(self._segments, offset, key=_base_offset)
        return self._segments[number] if number < len(self._segments) else None

    def values(self, start_offset: int, end_offset: int | None = None) -> list[S]:
        """The segments that may hold offsets of [start_offset, end_offset), oldest first."""
        if end_offset is not None and end_offset < start_offset:
            raise ValueError(f"offsets end at {end_offset}, before they begin at {start_offset}")
        if end_offset == start_offset:
            return []
        start = max(0, bisect_right(self._segments, start_offset, key=_base_offset) - 1)
        end = len(self._segments)
        if end_offset is not None:
            end = bisect_left(self._segments, end_offset, key=_base_offset)
        return self._segments[start:end]

    def above(self, offset: int) -> list[S]:
        """The segments whose base offset is above `offset`."""
        return self._segments[bisect_right(self._segments, offset, key=_base_offset) :]

    def without_active(self) -> list[S]:
        """All but the last."""
        return self._segments[:-1]

    def add(self, segment: S) -> S | None:
        """Put a segment in its place; returns the segment that was there."""
        replaced = self.get(segment.base_offset)
        if replaced is not None:
            self._segments.remove(replaced)
        insort(self._segments, segment, key=_base_offset)
        return replaced

    def remove(self, base_offset: int) -> S:
        """Take a segment out; KeyError if there is none."""
        found = self.get(base_offset)
        if found is None:
            raise KeyError(base_offset)
        self._segments.remove(found)
        return found

    def replace(self, old: Iterable[S], new: Iterable[S]) -> None:
        """Remove the old segments and add the new ones, in one step for all readers."""
        gone = {segment.base_offset for segment in old}
        kept = [segment for segment in self._segments if segment.base_offset not in gone]
        self._segments = Segments([*kept, *new])._segments

    def clear(self) -> list[S]:
        """Take all of them out."""
        removed, self._segments = self._segments, []
        return removed
