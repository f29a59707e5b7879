"""One base offset: a records file, its two sparse indexes, and its index of aborted transactions.

1. `append` writes whole batches and feeds the indexes. Whatever can fail is done before or by the write of the records;
   after it only memory changes. So an append that raises has not happened. The first one proves the ends of the
   indexes: an entry that rotted since the segment was closed must not be followed.
2. `read` returns a slice of the file, whole as to its first batch; the last batch may be cut off, as in Kafka.
3. Nothing is read at `open`: a clean start of many partitions touches no content. An index is read with the first
   question; an entry that is wrong is CorruptIndex (segment_lookup.py), and `rebuild_indexes` makes a new one.
4. `recover` finds the longest sound prefix, cuts the rest and builds all indexes again (segment_recovery.py).
5. `pending_syncs` returns what must be synced; only those calls may run on another thread. All else belongs to the
   owner of the log. Time comes in as `now_ms`.
6. A segment has at most 2 GiB of records and offsets of at most 2^31 - 1 above its base offset; `should_roll` says so
   in time, and `append` refuses what does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn, Protocol

from ottla.errors import CorruptMessage
from ottla.records import BatchInfo
from ottla.records.layout import HEADER_BYTES
from ottla.storage.files import Buffer, Files
from ottla.storage.index.aborted_index import AbortedIndex
from ottla.storage.index.sparse_index import INT32_MAX, CorruptIndex
from ottla.storage.index.time_index import NO_TIMESTAMP, TimestampOffset
from ottla.storage.segment.damage import Damage, SegmentVerification
from ottla.storage.segment.indexes import AppendedBatch, SegmentIndexes
from ottla.storage.segment.lookup import BatchPosition, FoundOffset, SegmentLookup
from ottla.storage.segment.names import ABORTED_INDEX_SUFFIX, RECORDS_SUFFIX, segment_path
from ottla.storage.segment.records_file import FileSlice, RecordsFile
from ottla.storage.segment.recovery import SegmentRecovery, rebuild_indexes

__all__ = ["BatchPosition", "CorruptIndex", "FileSlice", "FoundOffset", "Segment", "SegmentSettings", "should_roll"]


class SegmentSettings(Protocol):
    """The topic settings a segment goes by."""

    @property
    def segment_bytes(self) -> int: ...
    @property
    def segment_ms(self) -> int: ...
    @property
    def segment_index_bytes(self) -> int: ...
    @property
    def index_interval_bytes(self) -> int: ...


def should_roll(
    settings: SegmentSettings,
    *,
    size_bytes: int,
    incoming_bytes: int,
    waited_ms: int,
    jitter_ms: int,
    index_is_full: bool,
    offset_fits: bool,
) -> bool:
    """Whether the next batches must begin a new segment: size, age, a full index, offsets beyond 31 bits."""
    return (
        size_bytes > settings.segment_bytes - incoming_bytes
        or (size_bytes > 0 and waited_ms > settings.segment_ms - jitter_ms)
        or index_is_full
        or not offset_fits
    )


class Segment:
    """The files of one base offset."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        base_offset: int,
        settings: SegmentSettings,
        *,
        now_ms: int,
        jitter_ms: int = 0,
        suffix: str = "",
        create: bool = False,
    ) -> None:
        """Use `create` or `open`."""
        self.base_offset = base_offset
        self.directory = directory
        self.suffix = suffix
        self.jitter_ms = jitter_ms
        self.created_ms = now_ms
        self._files = files
        limit_bytes, interval_bytes = settings.segment_index_bytes, settings.index_interval_bytes
        file = files.open(self.path, create=create)
        self.records = RecordsFile(file, file.size())
        self.indexes = SegmentIndexes(
            files, directory, base_offset, suffix, limit_bytes=limit_bytes, interval_bytes=interval_bytes
        )
        self.aborted_index = AbortedIndex(files, self._path_of(ABORTED_INDEX_SUFFIX), base_offset)
        self._lookup = SegmentLookup(self.records, self.indexes.offsets, self.indexes.times, interval_bytes)
        self.damages: tuple[Damage, ...] = ()  # as far as somebody has found out
        self._first_timestamp_ms: int | None = None
        self._names_are_new = create
        self._ends_are_proved = create  # the last entries of the indexes, which the next ones must follow

    @classmethod
    def create(
        cls,
        files: Files,
        directory: Path,
        base_offset: int,
        settings: SegmentSettings,
        *,
        now_ms: int,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> Segment:
        """A new, empty segment; files of that name that are there already are emptied."""
        made = cls(
            files, directory, base_offset, settings, now_ms=now_ms, jitter_ms=jitter_ms, suffix=suffix, create=True
        )
        made.records.truncate(0)
        made.indexes.create()
        made.aborted_index.reset()
        return made

    @classmethod
    def open(
        cls,
        files: Files,
        directory: Path,
        base_offset: int,
        settings: SegmentSettings,
        *,
        now_ms: int,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> Segment:
        """A segment that exists. Nothing is read and nothing is checked until somebody asks."""
        return cls(files, directory, base_offset, settings, now_ms=now_ms, jitter_ms=jitter_ms, suffix=suffix)

    # --- facts --------------------------------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        return self.records.size_bytes

    @property
    def path(self) -> Path:
        """Where the records file is now."""
        return self._path_of(RECORDS_SUFFIX)

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The latest timestamp in the segment and the last offset of its batch; (-1, base offset) if it has none."""
        return self.indexes.max_timestamp

    @property
    def first_timestamp_ms(self) -> int:
        """The latest timestamp of the first batch, which is the age of a segment; -1 if it has none."""
        if self._first_timestamp_ms is None:
            try:
                first = next(self.records.headers(0, HEADER_BYTES), None)
            except CorruptMessage:
                return NO_TIMESTAMP  # it is as old as its file
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp_ms = first[1].max_timestamp_ms
        return self._first_timestamp_ms

    def largest_timestamp_ms(self) -> int:
        """The latest timestamp, or when the file was last written if records have none: what retention goes by."""
        timestamp_ms = self.max_timestamp.timestamp_ms
        return timestamp_ms if timestamp_ms >= 0 else self._files.modified_ms(self.path)

    def proved_timestamp_ms(self) -> int:
        """The same, when records confirm it: for who deletes because of it. CorruptIndex when none does."""
        try:
            self._lookup.prove_latest()
        except CorruptMessage:  # records there are damaged, and nobody can tell
            return max(self.largest_timestamp_ms(), self._files.modified_ms(self.path))
        return self.largest_timestamp_ms()

    def waited_ms(self, now_ms: int, incoming_timestamp_ms: int) -> int:
        """How old the segment is: in record time if its first batch has one, else since it was made."""
        first_ms = self.first_timestamp_ms
        return incoming_timestamp_ms - first_ms if first_ms >= 0 else now_ms - self.created_ms

    def should_roll(
        self,
        settings: SegmentSettings,
        *,
        now_ms: int,
        incoming_bytes: int,
        incoming_timestamp_ms: int,
        incoming_last_offset: int,
    ) -> bool:
        """Whether batches of that size, latest timestamp and last offset must go to a new segment."""
        return should_roll(
            settings,
            size_bytes=self.records.size_bytes,
            incoming_bytes=incoming_bytes,
            waited_ms=self.waited_ms(now_ms, incoming_timestamp_ms),
            jitter_ms=self.jitter_ms,
            index_is_full=self.indexes.is_full,
            offset_fits=0 <= incoming_last_offset - self.base_offset <= INT32_MAX,
        )

    # --- write --------------------------------------------------------------------------------------------------------

    def append(self, largest_offset: int, batches: Sequence[AppendedBatch], buffers: Sequence[Buffer]) -> int:
        """Write the batches, whose bytes are the buffers; returns the position of the first."""
        records, indexes = self.records, self.indexes
        size_bytes = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        if not (0 <= largest_offset - self.base_offset <= INT32_MAX and records.size_bytes + size_bytes <= INT32_MAX):
            self._refuse_append(largest_offset, size_bytes)
        for batch in batches:
            size_bytes -= batch.size_bytes
        if size_bytes:
            raise ValueError(f"the batches for {self.path} and their buffers differ by {size_bytes} bytes")
        if not indexes.is_ready:
            self.make_ready(batches[0].last_offset)
        start = records.append(buffers)
        indexes.note(batches, start)
        return start

    def make_ready(self, next_offset: int) -> None:
        """All that could fail when batches from `next_offset` on get their entries."""
        self.indexes.make_ready()
        if not self._ends_are_proved:
            self.indexes.is_ready = False  # until it is proved that they may be followed
            self._prove_ends(next_offset)
            self.indexes.make_ready()
            self._ends_are_proved = True

    def _prove_ends(self, next_offset: int) -> None:
        """Entries of what is not written yet go; the last ones that are left must be of batches that are there."""
        is_cut = self.indexes.drop_from(next_offset)
        with suppress(CorruptMessage):  # records there are damaged, and nobody can tell
            self._lookup.prove_ends()
            if is_cut:
                self.indexes.found_latest(self._lookup.latest_timestamp())

    def _refuse_append(self, largest_offset: int, size_bytes: int) -> NoReturn:
        if not 0 <= largest_offset - self.base_offset <= INT32_MAX:
            raise ValueError(f"offset {largest_offset} does not fit {self.path}; roll the segment first")
        raise ValueError(f"{size_bytes} bytes more do not fit {self.path}; roll the segment first")

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Cut every batch that holds `offset` or a later one; returns how many bytes are gone."""
        found = self.translate(offset)
        self.indexes.truncate_to(offset)
        self.aborted_index.truncate_to(offset)
        cut_bytes = 0 if found is None else self.records.truncate(found.position)
        if not self.records.size_bytes:
            self.created_ms = now_ms
            self._first_timestamp_ms = None
        self.indexes.found_latest(self._lookup.latest_timestamp())
        return cut_bytes

    # --- read ---------------------------------------------------------------------------------------------------------

    def translate(self, offset: int) -> BatchPosition | None:
        """The first batch that ends at `offset` or later; None if the segment ends before."""
        for damage in reversed(self.damages):
            if offset >= damage.next_offset:
                return self._lookup.batch_with(offset, damage.end_position)
        return self._lookup.batch_with(offset)

    def _before_damage(self, start_offset: int, max_position: int | None) -> int | None:
        """Where a reader must stop so that it gets nothing damaged; CorruptMessage when it would begin there."""
        for damage in self.damages:
            if start_offset < damage.first_offset:
                return damage.position if max_position is None else min(damage.position, max_position)
            if start_offset < damage.next_offset:
                raise CorruptMessage(f"{self.path} is damaged, {damage}")
        return max_position

    def read(
        self, start_offset: int, max_bytes: int, max_position: int | None = None, *, at_least_one_batch: bool = True
    ) -> FileSlice | None:
        """What a fetch from `start_offset` may have, from the batch that holds it; None if the segment ends before.

        The first batch is there as a whole, even if it is bigger than `max_bytes`; unless `at_least_one_batch` is
        False, then the slice is empty instead. Nothing at `max_position` or behind it is returned.
        """
        if max_bytes < 0:
            raise ValueError(f"cannot read {max_bytes} bytes")
        if self.damages:
            max_position = self._before_damage(start_offset, max_position)
        found = self.translate(start_offset)
        if found is None:
            return None
        if max_bytes < found.size_bytes:
            max_bytes = found.size_bytes if at_least_one_batch else 0
        end = self.records.size_bytes if max_position is None else min(max_position, self.records.size_bytes)
        return FileSlice(self.records.file, found.position, max(0, min(end - found.position, max_bytes)))

    def upper_bound_offset(self, end_position: int) -> int | None:
        """An offset that no batch before `end_position` reaches; None if the index does not know one."""
        return self._lookup.upper_bound_offset(end_position)

    def headers_before(self, offset: int) -> list[BatchInfo]:
        """Headers of some batches before `offset`, the last of them included; empty if the segment has none."""
        return self._lookup.headers_before(offset)

    def next_offset(self) -> int:
        """The offset after the last record, by a walk from the last index entry."""
        return self._lookup.next_offset()

    def find_offset_by_timestamp(self, timestamp_ms: int, starting_offset: int | None = None) -> FoundOffset | None:
        """The first record at or after a time, among those from `starting_offset` on."""
        return self._lookup.first_at_or_after(
            timestamp_ms, self.base_offset if starting_offset is None else starting_offset
        )

    def find_latest_timestamp(self) -> FoundOffset | None:
        """The first record that has the latest timestamp; None if no record has one."""
        return self._lookup.first_with_latest(self.max_timestamp)

    # --- recovery -----------------------------------------------------------------------------------------------------

    def sanity_check(self) -> None:
        """CorruptIndex if an index cannot be trusted. It reads all three: for doubtful segments, not at every start."""
        self.indexes.sanity_check()
        self.aborted_index.sanity_check()
        position = self.indexes.offsets.last_entry.position
        if position and position >= self.records.size_bytes:
            raise CorruptIndex(f"{self.indexes.offsets.path} points to {position}, beyond the end of the records")

    def recover(self, *, synced_up_to: int = 0, end_offset: int = 0, has_gaps: bool = True) -> SegmentRecovery:
        """Prove every batch, cut what is not sound and was not synced, build the indexes again. `end_offset` is where
        the log goes on when nothing sound follows what rotted. Nothing happens until it is iterated."""
        self._first_timestamp_ms = None
        return SegmentRecovery(
            self.records,
            self.indexes,
            self.aborted_index,
            self.base_offset,
            synced_up_to=synced_up_to,
            end_offset=end_offset,
            has_gaps=has_gaps,
        )

    def verification(self, *, end_offset: int, has_gaps: bool) -> SegmentVerification:
        """Prove every batch that is there now and change nothing; any thread may iterate it. What follows them begins
        at `end_offset`."""
        entries = self.indexes.offsets.entries()
        records = RecordsFile(self.records.file, self.records.size_bytes)
        return SegmentVerification(records, entries, self.base_offset, end_offset=end_offset, has_gaps=has_gaps)

    def rebuild_indexes(self) -> Iterator[int]:
        """Rebuild the offset and the time index, in steps; returns the position reached."""
        return rebuild_indexes(self.records, self.indexes)

    # --- the files ----------------------------------------------------------------------------------------------------

    def on_roll(self) -> None:
        """The segment will not grow any more: its latest timestamp gets its entry, and the files are cut to size."""
        self.indexes.complete()
        self.records.trim()

    def pending_syncs(self) -> list[Callable[[], None]]:
        """Write what is only in memory, and give the calls that put all of it on the disk; any thread may make them."""
        self.indexes.write_pending()
        syncs: list[Callable[[], None]] = [self.records.file.sync]
        syncs += self.indexes.pending_syncs()
        syncs += self.aborted_index.pending_syncs()
        if self._names_are_new:
            syncs.append(partial(self._files.sync_directory, self.directory))
            self._names_are_new = False
        return syncs

    def flush(self) -> None:
        """Return when everything is on the disk, names included."""
        for sync in self.pending_syncs():
            sync()

    def rename(self, suffix: str) -> None:
        """Change the suffix of all files; the caller syncs the directory if the change must survive a crash."""
        self._files.rename(self.path, segment_path(self.directory, self.base_offset, RECORDS_SUFFIX + suffix))
        self.suffix = suffix
        self.indexes.rename(self.directory, suffix)
        self.aborted_index.rename(self._path_of(ABORTED_INDEX_SUFFIX))

    def moved(self, directory: Path) -> None:
        """The directory was renamed with everything in it."""
        self.directory = directory
        self.indexes.moved(directory)
        self.aborted_index.path = self._path_of(ABORTED_INDEX_SUFFIX)

    def close(self) -> None:
        """Complete the indexes if the segment has grown, and let all files go."""
        self.indexes.close()
        self.aborted_index.close()
        self.records.file.close()

    def abandon(self) -> None:
        """Let all files go without writing anything: for a directory that has failed."""
        self.indexes.abandon()
        self.aborted_index.close()
        self.records.file.close()

    def delete(self) -> None:
        """Close and remove all files; fine if some are gone."""
        self.records.file.close()
        self._files.remove(self.path, missing_ok=True)
        self.indexes.delete()
        self.aborted_index.delete()

    def _path_of(self, kind: str) -> Path:
        return segment_path(self.directory, self.base_offset, kind + self.suffix)
