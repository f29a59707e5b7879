"""The segments of a log as it uses them: with indexes that are in order, and a memory of where readers must stop.

1. A wrong index is built again and asked again (`sound`); the caller never notices. What was built is synced
   with the next flush, unless the segment still grows.
2. Where a reader must stop before an offset is remembered, because every fetch asks for the same few: the high
   watermark and the last stable offset. Cutting, replacing or removing segments clears it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.storage.log.partition_directory import PartitionDirectory
from ottla.storage.producers.replay import reindex, with_sound_indexes
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments

T = TypeVar("T")
POSITIONS_LIMIT: Final = 2
TAILS_LIMIT: Final = 8


class LogSegments(Segments[Segment]):
    """The segments of one log."""

    def __init__(
        self,
        segments: Iterable[Segment],
        directory: PartitionDirectory,
        start_and_time: Callable[[], tuple[int, int]],
    ) -> None:
        """`start_and_time` returns where the log starts and the last time it knows of, in ms."""
        super().__init__(segments)
        self._directory = directory
        self._start_and_time = start_and_time
        self._positions: dict[int, tuple[Segment, int]] = {}
        self._tails: dict[int, tuple[Segment, int]] = {}

    def sound(self, segment: Segment, question: Callable[[Segment], T]) -> T:
        """The answer of a segment whose indexes are in order, after rebuilding them if they are not."""
        return with_sound_indexes(segment, self._reindex, question)

    def _reindex(self, segment: Segment) -> None:
        log_start_offset, now_ms = self._start_and_time()
        reindex(
            segment,
            self,
            files=self._directory.files,
            directory=self._directory.path,
            log_start_offset=log_start_offset,
            now_ms=now_ms,
        )
        self.forget_positions()
        if segment is not self.last:
            self._directory.note_segment(segment)

    def position_of(self, offset: int) -> tuple[Segment, int]:
        """Segment and position where a reader must stop before `offset`."""
        known = self._positions.get(offset)
        if known is None:
            segment = self.floor(offset) or self.last
            assert segment is not None, "a log that is read has segments"
            known = segment, self.sound(segment, lambda each: _position_in(each, offset))
            if len(self._positions) >= POSITIONS_LIMIT:
                self._positions.clear()
            # The end of the last segment moves with the next append.
            if known[1] < segment.size_bytes:
                self._positions[offset] = known
        return known

    def tail_at(self, offset: int) -> tuple[Segment, int] | None:
        """Segment and position where the batch of `offset` begins, when a reader has just come that far."""
        return self._tails.get(offset)

    def note_tail(self, offset: int, segment: Segment, position: int) -> None:
        """A reader got all before `offset`, which ends at this position of the last segment: it will go on there."""
        if segment is self.last:
            if len(self._tails) >= TAILS_LIMIT:
                del self._tails[next(iter(self._tails))]
            self._tails[offset] = segment, position

    def forget_positions(self) -> None:
        """Segments were cut, replaced or removed."""
        self._positions.clear()
        self._tails.clear()


def _position_in(segment: Segment, offset: int) -> int:
    found = segment.translate(offset)
    return segment.size_bytes if found is None else found.position
