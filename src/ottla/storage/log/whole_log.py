"""Reads a log from its start to its end, with CRCs, in chunks; what cannot be read is named and passed over.

For whoever needs all of a log, as a coordinator does that is being loaded.

1. The end is where the log ends when the reader comes there: what was appended meanwhile is read too.
2. Between two steps the log may change: grow, be compacted, be cut at its start, lie in another directory. A segment
   that was replaced is left, and the batch of the next offset is searched again.
3. Bytes that are no sound batch come as `Rotten`, and reading goes on where it can be proved that a batch begins: after
   the length that the rotten batch claims, if a sound batch (or the end of the segment) is there; else where a search
   finds one (segment/damage.py); else where the offset index points to one; else in the next segment. Nothing is
   changed on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ottla.errors import CorruptMessage
from ottla.light_tuples import NamedTuple
from ottla.records import BatchInfo, RecordBatch
from ottla.records.layout import HEADER_BYTES, MAGIC
from ottla.storage.index.sparse_index import CorruptIndex
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.segment.damage import search_sound
from ottla.storage.segment.segment import Segment

CHUNK_BYTES: Final = 256 * 1024
BATCH_BYTES_MAX: Final = 128 * 1024 * 1024
"""What claims to be larger is taken for damage: a false length must not cost so much memory."""


class Rotten(NamedTuple):
    """Bytes of a log that cannot be read: records from `offset` to before `next_offset` may have been there."""

    file: Path
    position: int
    offset: int
    next_offset: int
    error: str


def read_whole(log_of: Callable[[], PartitionLog]) -> Iterator[RecordBatch | Rotten]:
    """Every batch of the log that `log_of` returns at the time."""
    offset = log_of().log_start_offset
    segment: Segment | None = None
    position, is_searched = 0, False
    while True:
        log = log_of()
        offset = max(offset, log.log_start_offset)
        if offset >= log.log_end_offset:
            return
        if segment is None or log.segments.get(segment.base_offset) is not segment:
            segment = log.segments.floor(offset) or log.segments.first
            assert segment is not None, "a log that has records has segments"
            position, is_searched = _position(log, segment, offset), True
        if position >= segment.size_bytes:
            segment = log.segments.higher(segment.base_offset)
            position = 0
            if segment is None:
                return  # the last records were compacted away
            continue
        chunk = _Chunk(log, segment, position, offset, is_searched=is_searched)
        yield from chunk
        position, offset, is_searched = chunk.position, chunk.next_offset, chunk.is_searched


def _position(log: PartitionLog, segment: Segment, offset: int) -> int:
    """Where the batch with this offset begins, or a place before it."""
    try:
        found = log.segments.sound(segment, lambda each: each.translate(offset))
    except CorruptMessage:
        return 0
    return segment.size_bytes if found is None else found.position


class _Chunk:
    """The batches from one position of a segment on; `position` and `next_offset` say how far they were returned.

    `is_searched` is true where the position may be before the offset: until the first batch was found."""

    def __init__(self, log: PartitionLog, segment: Segment, position: int, offset: int, *, is_searched: bool) -> None:
        self._log = log
        self._segment = segment
        self.position = position
        self.next_offset = offset
        self.is_searched = is_searched

    def __iter__(self) -> Iterator[RecordBatch | Rotten]:
        segment, start = self._segment, self.position
        chunk = segment.records.file.read_at(start, min(CHUNK_BYTES, segment.size_bytes - start))
        at = 0
        while not at or at < len(chunk):
            left_bytes = segment.size_bytes - start - at
            size_bytes = _claimed_bytes(chunk, at, left_bytes)
            if size_bytes is None:
                if not at or len(chunk) - at >= min(HEADER_BYTES, left_bytes):
                    yield from self._pass_over(None, "no whole batch begins here")
                return  # or the rest of its header is in the next chunk
            if at + size_bytes > len(chunk):
                if at:
                    return
                chunk = segment.records.file.read_at(start, size_bytes)
            batch = RecordBatch(chunk, at)
            error = self._why_not(batch)
            if error is not None:
                yield from self._pass_over(size_bytes, error)
                return
            at += size_bytes
            self.position = start + at
            if batch.last_offset >= self.next_offset:
                self.is_searched = False
                self.next_offset = batch.next_offset
                yield batch

    def _why_not(self, batch: RecordBatch) -> str | None:
        """Why this batch cannot be what was written here. Its offsets are not covered by its CRC."""
        try:
            batch.check()
        except CorruptMessage as error:
            return str(error)
        base_offset, last_offset = batch.base_offset, batch.last_offset
        if base_offset < self.next_offset and not self.is_searched:
            return f"offsets {base_offset} to {last_offset} cannot follow {self.next_offset - 1}"
        if base_offset < self._segment.base_offset or last_offset >= self._upper_offset():
            return f"offsets {base_offset} to {last_offset} do not belong here"
        return None

    def _upper_offset(self) -> int:
        following = self._log.segments.higher(self._segment.base_offset)
        return self._log.log_end_offset if following is None else following.base_offset

    def _pass_over(self, size_bytes: int | None, error: str) -> Iterator[Rotten]:
        if self._log.segments.get(self._segment.base_offset) is not self._segment:
            return  # it was replaced while its chunk was read: whoever took its place is asked
        position, offset = self.position, self.next_offset
        self.position, self.next_offset = self._resume(position, size_bytes)
        yield Rotten(self._segment.path, position, offset, self.next_offset, error)

    def _resume(self, position: int, size_bytes: int | None) -> tuple[int, int]:
        """Position and offset where reading goes on."""
        segment = self._segment
        end = segment.size_bytes, self._upper_offset()
        if size_bytes is not None:
            if position + size_bytes == segment.size_bytes:
                return end
            if (batch := self._sound_batch(position + size_bytes)) is not None:
                return position + size_bytes, batch.base_offset
        entry = self._indexed_after(position)
        known = set() if entry is None else {entry}
        searched = search_sound(segment.records, position + 1, known, self.next_offset, self._upper_offset() - 1)
        if searched is not None:
            return searched
        while entry is not None:
            if (batch := self._sound_batch(entry)) is not None:
                return entry, batch.base_offset
            entry = self._indexed_after(entry)
        return end

    def _indexed_after(self, position: int) -> int | None:
        try:
            entry = self._segment.indexes.offsets.first_at_or_after_position(position + 1)
        except CorruptIndex:
            return None
        return None if entry is None or entry.position <= position else entry.position

    def _sound_batch(self, position: int) -> RecordBatch | None:
        """The batch there, when it is sound and may follow what was read so far."""
        records = self._segment.records
        left_bytes = records.size_bytes - position
        if left_bytes < HEADER_BYTES:
            return None
        size_bytes = _claimed_bytes(records.file.read_at(position, HEADER_BYTES), 0, left_bytes)
        if size_bytes is None:
            return None
        batch = RecordBatch(records.file.read_at(position, size_bytes))
        is_next = self.next_offset <= batch.base_offset
        return batch if is_next and self._why_not(batch) is None else None


def _claimed_bytes(chunk: bytes, at: int, left_bytes: int) -> int | None:
    """How long the batch there says it is; None if that cannot be."""
    if len(chunk) - at < HEADER_BYTES:
        return None
    info = BatchInfo(chunk, at)
    is_possible = info.magic == MAGIC and HEADER_BYTES <= info.size_bytes <= min(left_bytes, BATCH_BYTES_MAX)
    return info.size_bytes if is_possible else None
