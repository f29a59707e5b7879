"""One pass of compaction over one log: learn the last offset of every key, copy what is still true, swap.

    compaction = Compaction(log, chosen, settings, now_ms)
    while (work := compaction.next_slice()) is not None:      # the owner of the log
        work.run()                                            # any thread
        compaction.done(work)                                 # the owner again
    compaction.clean_offset, compaction.take_removed()

1. The dirty part is walked first and fills the key map, as far as it goes. Then everything from the log's start up to
   there is copied, group by group, into a `.cleaned` segment, which is synced and replaces its group by the
   `.swap` protocol of swapping.py. A crash at any moment leaves the old segments of a group or the new one.
2. Offsets stay. The pass ends at `clean_offset`, which may be written down once everything is swapped: until then the
   same pass may be made again, and does nothing that was done.
3. What runs off the owner's thread touches only what belongs to the pass (key map, transactions, new segment) and
   reads the files of old segments, which do not change any more. Everything that asks the log is done by the owner,
   between slices; a slice reads one buffer, so nothing takes long.
4. When the log was truncated, closed, or lost a segment of the pass meanwhile, the pass is aborted: `stopped` says
   why, there is no `clean_offset`, and no file of it is left. What the slice under way said does not matter then.
5. Memory: the key map, two buffers of io_buffer_bytes / 2, and what the largest batch takes if it is larger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from ottla.errors import CorruptMessage, KafkaStorageError, StorageExhausted
from ottla.light_dataclasses import dataclass, field
from ottla.records import BatchInfo, scan
from ottla.records.layout import HEADER_BYTES
from ottla.storage.compaction.batch_copy import BatchCopier, CopyCounts, keep_rules, last_records
from ottla.storage.compaction.cleaned_transactions import CleanedTransactions
from ottla.storage.compaction.cleaner_plan import CleanerSettings, LogToClean, Measured, group_segments, measured
from ottla.storage.compaction.key_map import KeyMap
from ottla.storage.index.aborted_index import AbortedTransaction
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.truncate import Removed
from ottla.storage.segment.names import CLEANED_SUFFIX
from ottla.storage.segment.records_file import RecordsFile
from ottla.storage.segment.segment import Segment

logger = logging.getLogger(__name__)


class Slice:
    """A piece of work that any thread may do."""

    def __init__(self, work: Callable[[], int]) -> None:
        self.moved_bytes = 0
        self.error: Exception | None = None
        self._work = work

    def run(self) -> None:
        """Do it; an error is kept for the owner of the log."""
        try:
            self.moved_bytes = self._work()
        except Exception as error:
            self.error = error


@dataclass(slots=True)
class CleanCounts(CopyCounts):
    """What a pass did."""

    map_records: int = 0
    map_bytes: int = 0
    map_utilization: float = 0.0
    segments_before: int = 0
    segments_after: int = 0


@dataclass(slots=True)
class _Reading:
    """Where in a segment the next slice begins."""

    segment: Segment
    position: int = 0
    end: int = field(init=False)

    def __post_init__(self) -> None:
        self.end = self.segment.size_bytes

    @property
    def is_over(self) -> bool:
        return self.position >= self.end


class Compaction:
    """A pass on its way."""

    def __init__(self, log: PartitionLog, chosen: LogToClean, settings: CleanerSettings, now_ms: int) -> None:
        self.log = log
        self.chosen = chosen
        self.counts = CleanCounts()
        self.clean_offset: int | None = None
        self.is_over = False
        self.stopped: str | None = None
        self._now_ms = now_ms
        self._buffer_bytes = max(HEADER_BYTES, settings.io_buffer_bytes // 2)
        self._keys = KeyMap(
            settings.dedupe_buffer_bytes,
            load_factor=settings.load_factor,
            offsets_expected=chosen.first_uncleanable_offset - chosen.first_dirty_offset,
        )
        self._truncations = log.truncations
        self._needed = [each for each in log.segments if each.base_offset < chosen.first_uncleanable_offset]
        self._cleaned: Segment | None = None
        self._removed: list[Removed] = []
        self._slices = self._work()

    # --- for the owner ------------------------------------------------------------------------------------------------

    def next_slice(self) -> Slice | None:
        """What to run next; None when the pass is over."""
        if not self._continues():
            return None
        try:
            found = next(self._slices, None)
        except Exception as error:
            self.abort_pass(str(error))
            raise
        self.is_over = found is None
        return found

    def done(self, work: Slice) -> Exception | None:
        """A slice was run. If it failed the pass is aborted; returns the error, unless the log has changed
        meanwhile."""
        if not self._continues() or work.error is None:
            return None
        self.abort_pass(str(work.error))
        return work.error

    def _continues(self) -> bool:
        if not self.is_over and not self._is_sound():
            self.abort_pass(f"{self.log.topic_partition} was truncated, closed or lost segments meanwhile")
        return not self.is_over

    def take_removed(self) -> list[Removed]:
        """Segments that were swapped out since the last call, to be removed after file.delete.delay.ms."""
        removed, self._removed = self._removed, []
        return removed

    def abort_pass(self, reason: str) -> None:
        """Stop, and leave no file behind; no slice may be running."""
        self.is_over, self.stopped = True, reason
        cleaned, self._cleaned = self._cleaned, None
        if cleaned is None:
            return
        try:
            cleaned.delete()
        except KafkaStorageError as error:
            logger.warning("%s stays until the next start: %s", cleaned.path, error)

    def _is_sound(self) -> bool:
        """Whether the log still has what the pass was planned for."""
        segments = self.log.segments
        return self.log.truncations == self._truncations and all(
            segments.get(each.base_offset) is each for each in self._needed
        )

    # --- the pass, one slice after the other --------------------------------------------------------------------------

    def _work(self) -> Iterator[Slice]:
        yield from self._learn()
        self.counts.map_utilization = self._keys.utilization
        end_offset = self._keys.latest_offset + 1
        transactions = CleanedTransactions()
        for group in self._groups(end_offset):
            yield from self._copy(group, transactions)
        self.clean_offset = max(end_offset, self.chosen.first_dirty_offset)

    def _learn(self) -> Iterator[Slice]:
        log, keys, start = self.log, self._keys, self.chosen.first_dirty_offset
        end = self.chosen.first_uncleanable_offset
        dirty = log.segments.values(start, end)
        transactions = CleanedTransactions()
        transactions.add(log.aborted_transactions(start, end))
        ends = [segment.base_offset for segment in dirty[1:]] + [end]
        for segment, next_offset in zip(dirty, ends, strict=False):
            reading = _Reading(segment, _position_of(log, segment, start))
            while not reading.is_over:
                yield Slice(partial(self._learn_slice, reading, transactions))
                if keys.is_full:
                    return
            # Offsets that nobody has belong to what is known.
            keys.latest_offset = next_offset - 1

    def _learn_slice(self, reading: _Reading, transactions: CleanedTransactions) -> int:
        chunk = chunk_at(reading.segment.records, reading.position, self._buffer_bytes)
        read_bytes = self._keys.learn(chunk, transactions, self.chosen.first_dirty_offset)
        reading.position += read_bytes
        self.counts.map_bytes += read_bytes
        self.counts.map_records = self._keys.record_count
        return len(chunk)

    def _groups(self, end_offset: int) -> list[list[Measured]]:
        log = self.log
        self._needed = [each for each in self._needed if each.base_offset < end_offset]
        return group_segments(
            [measured(log, each) for each in self._needed],
            segment_bytes=log.limits.segment_bytes,
            index_bytes=log.limits.segment_index_bytes,
            end_offset=self.chosen.first_uncleanable_offset,
        )

    def _copy(self, group: list[Measured], transactions: CleanedTransactions) -> Iterator[Slice]:
        log = self.log
        old = [each.segment for each in group]
        cleaned = self._cleaned = Segment.create(
            log.files, log.directory, old[0].base_offset, log.limits, now_ms=self._now_ms, suffix=CLEANED_SUFFIX
        )
        transactions.keep_in(cleaned.aborted_index.append)
        copier = self._copier(transactions)
        for segment, following in zip(old, [*old[1:], None], strict=True):
            transactions.add(_aborted_in(log, segment, following))
            reading = _Reading(segment)
            while not reading.is_over:
                yield Slice(partial(self._copy_slice, reading, copier, cleaned))
        yield Slice(partial(self._seal, cleaned, old[-1]))
        self._needed = [each for each in self._needed if each not in old]
        self._cleaned = None
        self._removed.append(self._swapped(cleaned, old))
        self.counts.segments_before += len(old)
        self.counts.segments_after += 1

    def _swapped(self, cleaned: Segment, old: list[Segment]) -> Removed:
        try:
            return self.log.replace_segments([cleaned], old)
        except StorageExhausted as error:
            # Half a swap is nothing to go on from; the next start resolves it.
            raise KafkaStorageError(f"{cleaned.path} could not take its place: {error}") from error

    def _copier(self, transactions: CleanedTransactions) -> BatchCopier:
        last = last_records(self.log.producers.entries)
        rules = keep_rules(
            self._keys,
            last,
            end_offset=self.chosen.first_uncleanable_offset,
            now_ms=self._now_ms,
            delete_retention_ms=self.log.settings.delete_retention_ms,
        )
        return BatchCopier(self._keys, transactions, rules, last.marker_epochs, self.counts)

    def _copy_slice(self, reading: _Reading, copier: BatchCopier, cleaned: Segment) -> int:
        chunk = chunk_at(reading.segment.records, reading.position, self._buffer_bytes)
        read_bytes, output = copier.copy(chunk)
        reading.position += read_bytes
        if output:
            batches = scan(output, check_crc=False)
            cleaned.append(batches[-1].last_offset, batches, [output])
        return len(chunk) + len(output)

    def _seal(self, cleaned: Segment, last: Segment) -> int:
        """Put everything on the disk, here where nobody waits. Retention may go by the file's time, so that stays."""
        cleaned.on_roll()
        cleaned.flush()
        files = self.log.files
        files.set_modified_ms(cleaned.path, files.modified_ms(last.path))
        return 0


def chunk_at(records: RecordsFile, position: int, size_bytes: int) -> bytes:
    """A buffer full of batches; more if the first one is larger."""
    left_bytes = records.size_bytes - position
    chunk = records.file.read_at(position, min(size_bytes, left_bytes))
    if len(chunk) >= HEADER_BYTES:
        batch_bytes = BatchInfo(chunk).size_bytes
        if batch_bytes <= len(chunk):
            return chunk
        if batch_bytes <= left_bytes:
            return records.file.read_at(position, batch_bytes)
    raise CorruptMessage(f"no whole batch begins at position {position} of {records.path} ({records.size_bytes} bytes)")


def _position_of(log: PartitionLog, segment: Segment, offset: int) -> int:
    found = log.segments.sound(segment, lambda each: each.translate(offset))
    return segment.size_bytes if found is None else found.position


def _aborted_in(log: PartitionLog, segment: Segment, following: Segment | None) -> list[AbortedTransaction]:
    end = log.segments.sound(segment, lambda each: each.next_offset()) if following is None else following.base_offset
    return log.aborted_transactions(segment.base_offset, end) if end > segment.base_offset else []
