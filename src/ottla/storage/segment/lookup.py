"""How an offset or a time is found in a segment: the index entry below it, and a walk over the headers from there.

1. The walk is over at most index.interval.bytes and one batch when the index is as it should be; no record is decoded
   but those of the one batch that a question by time ends in.
2. An entry of the offset index must point to a batch that begins at or below the entry's offset, and an entry of the
   time index to a batch that has its timestamp. An index that lies is CorruptIndex, never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from ottla.errors import CorruptMessage
from ottla.light_tuples import NamedTuple
from ottla.records import BatchInfo
from ottla.records.layout import HEADER_BYTES
from ottla.storage.index.offset_index import OffsetIndex, OffsetPosition
from ottla.storage.index.sparse_index import CorruptIndex
from ottla.storage.index.time_index import TimeIndex, TimestampOffset
from ottla.storage.segment.records_file import HEADERS_READ_BYTES_MAX, RecordsFile

WINDOW_BYTES: Final = 16 * 1024


class BatchPosition(NamedTuple):
    """A batch and where it stands in the records file."""

    base_offset: int
    last_offset: int
    position: int
    size_bytes: int


class FoundOffset(NamedTuple):
    """The answer to a question by time."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class SegmentLookup:
    """Questions to one segment; it changes nothing."""

    def __init__(self, records: RecordsFile, offsets: OffsetIndex, times: TimeIndex, interval_bytes: int) -> None:
        self._records = records
        self._offsets = offsets
        self._times = times
        self._read_bytes = min(interval_bytes + HEADER_BYTES, HEADERS_READ_BYTES_MAX)

    def batch_with(self, offset: int, at_least: int = 0) -> BatchPosition | None:
        """The first batch that ends at `offset` or later; None if the segment ends before. A batch begins at position
        `at_least`, and what stands before it does not matter."""
        entry = self._offsets.lookup(offset)
        headers = (
            self._headers_from(entry)
            if entry.position >= at_least
            else self._records.headers(at_least, self._read_bytes)
        )
        for position, batch in headers:
            last_offset = batch.last_offset
            if last_offset >= offset:
                return BatchPosition(batch.base_offset, last_offset, position, batch.size_bytes)
        return None

    def upper_bound_offset(self, end_position: int) -> int | None:
        """An offset that no batch before `end_position` reaches; None if the index does not know one."""
        entry = self._offsets.first_at_or_after_position(end_position)
        if entry is not None:
            next(self._headers_from(entry))  # a lie here would hide an aborted transaction from its reader
        return None if entry is None else entry.offset

    def headers_before(self, offset: int) -> list[BatchInfo]:
        """Headers of batches before `offset`, up to the last of them and from an index entry about a window before it
        on; empty when the segment has none there."""
        found = self.batch_with(offset)
        end = self._records.size_bytes if found is None else found.position
        headers = self._headers_from(self._offsets.last_before_position(end - WINDOW_BYTES))
        return [batch for position, batch in takewhile(lambda each: each[0] < end, headers)]

    def next_offset(self) -> int:
        """The offset after the last record, by a walk from the last index entry."""
        found = self._offsets.base_offset
        for _, batch in self._headers_from(self._offsets.last_entry):
            found = batch.next_offset
        return found

    def latest_timestamp(self) -> TimestampOffset:
        """The latest timestamp and its batch's last offset, by a walk from the last entry of the time index.

        That entry covers all batches up to its own, and a header that rotted is not believed: the next entry must
        follow the last one, or nothing could be appended any more.
        """
        latest = entry = self._times.last_entry
        for position, batch in self._headers_from(self._offsets.lookup(entry.offset)):
            is_behind = entry.timestamp_ms < 0 or batch.last_offset > entry.offset
            if is_behind and batch.max_timestamp_ms > latest.timestamp_ms and self._is_sound(position, batch):
                latest = TimestampOffset(batch.max_timestamp_ms, batch.last_offset)
        return latest

    def _is_sound(self, position: int, batch: BatchInfo) -> bool:
        try:
            self._records.batch(position, batch.size_bytes)
        except CorruptMessage:
            return False
        return True

    def first_at_or_after(self, timestamp_ms: int, starting_offset: int) -> FoundOffset | None:
        """The first record at or after a time, among those from `starting_offset` on."""
        entry = self._proved_time(self._times.lookup(timestamp_ms))
        for position, batch in self._headers_from(self._offsets.lookup(max(entry.offset, starting_offset))):
            if batch.max_timestamp_ms >= timestamp_ms and batch.last_offset >= starting_offset:
                found = self._record_in(position, batch, timestamp_ms, starting_offset)
                if found is not None:
                    return found
        return None

    def first_with_latest(self, latest: TimestampOffset) -> FoundOffset | None:
        """The first record that has the latest timestamp of the segment; None if no record has a timestamp."""
        if latest.timestamp_ms < 0:
            return None
        for position, batch in self._headers_from(self._offsets.lookup(latest.offset)):
            if batch.max_timestamp_ms == latest.timestamp_ms:
                return self._record_in(position, batch, latest.timestamp_ms, self._offsets.base_offset)
        raise CorruptIndex(f"{self._times.path} ends with {latest}, which no batch has")

    def prove_ends(self) -> None:
        """CorruptIndex unless the last entries of both indexes are of batches that are here."""
        next(self._headers_from(self._offsets.last_entry), None)
        self.prove_latest()

    def prove_latest(self) -> None:
        """CorruptIndex unless a batch has the timestamp with which the time index ends."""
        self._proved_time(self._times.last_entry)

    def _record_in(
        self, position: int, batch: BatchInfo, timestamp_ms: int, starting_offset: int
    ) -> FoundOffset | None:
        for record in self._records.batch(position, batch.size_bytes).records():
            if record.timestamp_ms >= timestamp_ms and record.offset >= starting_offset:
                return FoundOffset(record.timestamp_ms, record.offset, batch.leader_epoch)
        return None

    def _headers_from(self, entry: OffsetPosition) -> Iterator[tuple[int, BatchInfo]]:
        """Headers from where an entry points to, once the entry has proved true."""
        headers = self._records.headers(entry.position, self._read_bytes)
        return self._proved(entry, headers) if entry.position else headers

    def _proved(
        self, entry: OffsetPosition, headers: Iterator[tuple[int, BatchInfo]]
    ) -> Iterator[tuple[int, BatchInfo]]:
        try:
            first = next(headers, None)
        except CorruptMessage as error:
            raise CorruptIndex(f"{self._offsets.path} points to {entry}, where no batch begins") from error
        if first is None or first[1].base_offset > entry.offset:
            raise CorruptIndex(f"{self._offsets.path} points to {entry}, but there is {first and first[1]}")
        yield first
        yield from headers

    def _proved_time(self, entry: TimestampOffset) -> TimestampOffset:
        if entry.timestamp_ms >= 0:
            for _, batch in self._headers_from(self._offsets.lookup(entry.offset)):
                if batch.last_offset >= entry.offset:
                    if batch.max_timestamp_ms == entry.timestamp_ms:
                        return entry
                    break
            raise CorruptIndex(f"{self._times.path} has {entry}, which no batch there confirms")
        return entry
