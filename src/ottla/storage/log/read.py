"""What a fetch gets: a piece of one file, and what its reader must know to use it.

1. Nothing at or behind the limit is returned: the end of the log for followers, the high watermark for consumers, the
   last stable offset for those that read committed records. The limit falls between batches.
2. Below the start or beyond the end of the log is OffsetOutOfRange; between the limit and the end there is nothing yet.
3. A piece never crosses segments. Where a segment has nothing from the offset on (compaction may have removed it), the
   next one is asked.
4. A reader of committed records also gets the aborted transactions that reach into what it gets.
5. Who reads on where a reader has just come to the limit (followers, and consumers that keep up) is not looked up in
   the index: where he stopped is remembered.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeAlias

from ottla.errors import OffsetOutOfRange
from ottla.light_tuples import NamedTuple
from ottla.storage.index.aborted_index import AbortedTransaction
from ottla.storage.log.log_end import LogEnd
from ottla.storage.segment.records_file import FileSlice
from ottla.storage.segment.segment import Segment

UpTo: TypeAlias = Literal["log_end", "high_watermark", "last_stable"]


class ReadResult(NamedTuple):
    """A piece of the log. `aborted` is None unless only committed records were asked for."""

    slice: FileSlice
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None = None


class LogReader:
    """Reads one log."""

    def __init__(self, end: LogEnd) -> None:
        self._end = end
        self._segments = end.segments

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        up_to: UpTo = "high_watermark",
        at_least_one_batch: bool = True,
    ) -> ReadResult:
        """The batches from the one that holds `offset` on, `max_bytes` at most; the last one may be cut off."""
        end = self._end
        if not end.log_start_offset <= offset <= end.log_end_offset:
            raise OffsetOutOfRange(
                f"{end.topic_partition} has offsets {end.log_start_offset} to {end.log_end_offset}, not {offset}"
            )
        last_stable_offset = end.last_stable_offset
        limit = {"log_end": end.log_end_offset, "high_watermark": end.high_watermark}.get(up_to, last_stable_offset)
        aborted: list[AbortedTransaction] | None = [] if up_to == "last_stable" else None
        found = self._find(offset, max_bytes, limit, at_least_one_batch=at_least_one_batch) if offset < limit else None
        if found is None:
            active = end.open_active()
            piece = FileSlice(active.records.file, active.size_bytes, 0)
        else:
            segment, piece = found
            if aborted is not None and len(piece):
                aborted = self.aborted_transactions(offset, self._upper_bound(segment, piece))
        return ReadResult(piece, end.high_watermark, last_stable_offset, end.log_start_offset, aborted)

    def _find(
        self, offset: int, max_bytes: int, limit: int, *, at_least_one_batch: bool
    ) -> tuple[Segment, FileSlice] | None:
        if (tail := self._read_tail(offset, max_bytes, limit)) is not None:
            return tail
        segment = self._segments.floor(offset) or self._segments.first
        while segment is not None and segment.base_offset < limit:
            max_position = self._max_position(segment, limit)
            ask = partial(
                Segment.read,
                start_offset=offset,
                max_bytes=max_bytes,
                max_position=max_position,
                at_least_one_batch=at_least_one_batch,
            )
            piece = self._segments.sound(segment, ask)
            if piece is not None:
                if piece.position + piece.size_bytes == max_position:
                    self._segments.note_tail(limit, segment, max_position)
                return segment, piece
            segment = self._segments.higher(segment.base_offset)
        return None

    def _read_tail(self, offset: int, max_bytes: int, limit: int) -> tuple[Segment, FileSlice] | None:
        """All from `offset` to the limit, when it is known where that begins and the reader wants it all."""
        tail = self._segments.tail_at(offset)
        if tail is None:
            return None
        segment, position = tail
        stop = self._max_position(segment, limit)
        if not position < stop <= position + max_bytes:
            return None
        self._segments.note_tail(limit, segment, stop)
        return segment, FileSlice(segment.records.file, position, stop - position)

    def _max_position(self, segment: Segment, limit: int) -> int:
        """Where in this segment a reader must stop."""
        if limit == self._end.log_end_offset:
            return segment.size_bytes
        last, position = self._segments.position_of(limit)
        return position if segment is last else segment.size_bytes

    def _upper_bound(self, segment: Segment, piece: FileSlice) -> int:
        """An offset that nothing in the piece goes beyond."""
        bound = self._segments.sound(segment, lambda each: each.upper_bound_offset(piece.position + piece.size_bytes))
        if bound is not None:
            return bound
        following = self._segments.higher(segment.base_offset)
        return self._end.log_end_offset if following is None else following.base_offset

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that reach into [start_offset, end_offset)."""
        found: list[AbortedTransaction] = []
        for segment in self._segments.values(start_offset):
            search = self._segments.sound(segment, lambda each: each.aborted_index.collect(start_offset, end_offset))
            found += search.transactions
            if search.is_complete:
                break
        return found
