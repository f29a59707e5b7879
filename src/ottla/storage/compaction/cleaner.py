"""The cleaner: compacts the dirtiest log, slice by slice, and begins again.

    cleaner = Cleaner(settings, logs, read_offsets(files, directory / CLEANER_OFFSETS))
    progress = cleaner.step(now_ms)                  # or, to have the work done by another thread:

    work = cleaner.prepare(now_ms)                   # the owner of the logs
    if work is not None: work.run()                  # any thread
    progress = cleaner.complete(work, now_ms)        # the owner again

1. It waits for nothing and deletes nothing. What there is to do comes back as Progress: wait so long, remove these
   files after file.delete.delay.ms, write down these offsets, flush these logs because their rolled segments cannot be
   cleaned before.
2. Everything but Slice.run belongs to the thread that owns the logs. While a slice is running, nobody may remove or
   close the files of old segments: a caller that truncates, deletes or closes a log calls `abort` first, if no slice of
   it is running, or goes ahead and keeps the files (`Removed`) until the slice is complete; the pass is then aborted.
3. A log with a damaged batch is left alone from then on (`uncleanable`, with the reason): what it has is not copied, so
   that damage does not get a new checksum. A full disk ends the pass, which is tried again later. Other errors of
   the disk are raised: the log's directory must go offline.
4. `clean_offsets` is what belongs into the cleaner-offset-checkpoint. It lags behind what was cleaned, never ahead.
5. One log at a time; log.cleaner.io.max.bytes.per.second counts reads and writes. Cleaners that work side by side share
   what they know (`share_with`); that no two of them get the same log is up to who gives them their logs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.errors import CorruptMessage, StorageExhausted
from ottla.light_dataclasses import dataclass
from ottla.storage.compaction.cleaner_plan import CleanerSettings, LogToClean, dirty_range, log_to_clean, next_log
from ottla.storage.compaction.compaction import CleanCounts, Compaction, Slice
from ottla.storage.compaction.io_throttle import IoThrottle
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.truncate import Removed
from ottla.values import TopicPartition

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """The result of a step. `clean_offset` is set when a pass has ended, `stopped` says why one was aborted."""

    topic_partition: TopicPartition | None = None
    moved_bytes: int = 0
    wait_ms: int = 0
    removed: tuple[Removed, ...] = ()
    clean_offset: int | None = None
    counts: CleanCounts | None = None
    stopped: str | None = None
    flush_wanted: tuple[TopicPartition, ...] = ()

    @property
    def is_idle(self) -> bool:
        """There was nothing to clean."""
        return self.topic_partition is None


class Cleaner:
    """Keeps compacted logs compact. `logs` is read again at every choice."""

    def __init__(
        self,
        settings: CleanerSettings,
        logs: Mapping[TopicPartition, PartitionLog],
        clean_offsets: Mapping[TopicPartition, int],
    ) -> None:
        self.settings = settings
        self.clean_offsets = dict(clean_offsets)
        self.uncleanable: dict[TopicPartition, str] = {}
        self.max_dirty_ratio = 0.0
        self._logs = logs
        self._compaction: Compaction | None = None
        self._error: Exception | None = None
        self._throttle = IoThrottle(settings.io_max_bytes_per_second)

    def share_with(self, other: Cleaner) -> None:
        """Know what the other one knows of logs, from now on: for cleaners that work side by side."""
        self.clean_offsets, self.uncleanable, self._throttle = other.clean_offsets, other.uncleanable, other._throttle

    @property
    def current(self) -> TopicPartition | None:
        """The log whose pass is under way."""
        return None if self._compaction is None else self._compaction.log.topic_partition

    def step(self, now_ms: int) -> Progress:
        """Do one slice here and now."""
        work = self.prepare(now_ms)
        if work is not None:
            work.run()
        return self.complete(work, now_ms)

    def prepare(self, now_ms: int) -> Slice | None:
        """What to run next; None if there is nothing to run, then `complete` says why."""
        if self._compaction is None:
            self._compaction = self._choose(now_ms)
        if self._compaction is None:
            return None
        try:
            return self._compaction.next_slice()
        except Exception as error:
            self._error = error  # reported by `complete`, as those of slices are
            return None

    def complete(self, work: Slice | None, now_ms: int) -> Progress:
        """A slice was run, or there was none."""
        compaction = self._compaction
        if compaction is None:
            return Progress(wait_ms=self.settings.backoff_ms, flush_wanted=self._unflushed())
        error, self._error = self._error, None
        if work is not None:
            error = compaction.done(work)
        moved_bytes = 0 if work is None else work.moved_bytes
        wait_ms = self._throttle.spend(moved_bytes, now_ms)
        removed = tuple(compaction.take_removed())
        topic_partition = compaction.log.topic_partition
        if not compaction.is_over:
            return Progress(topic_partition, moved_bytes, wait_ms, removed)
        self._compaction = None
        if error is not None:
            wait_ms = max(wait_ms, self._waits_after(error, topic_partition))
        elif compaction.clean_offset is not None:
            self.clean_offsets[topic_partition] = compaction.clean_offset
        return Progress(
            topic_partition,
            moved_bytes,
            wait_ms,
            removed,
            compaction.clean_offset,
            compaction.counts,
            compaction.stopped,
        )

    def abort(self, topic_partition: TopicPartition) -> None:
        """Give up the pass over this log, if it is under way; no slice of it may be running."""
        if self._compaction is not None and self._compaction.log.topic_partition == topic_partition:
            self._compaction.abort_pass("it was asked for")

    def truncated(self, topic_partition: TopicPartition, offset: int) -> None:
        """The log now ends at `offset`; nothing behind it is clean."""
        if self.clean_offsets.get(topic_partition, offset) > offset:
            self.clean_offsets[topic_partition] = offset

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is gone from here."""
        self.clean_offsets.pop(topic_partition, None)
        self.uncleanable.pop(topic_partition, None)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _choose(self, now_ms: int) -> Compaction | None:
        candidates = []
        for topic_partition, log in self._logs.items():
            if not log.settings.is_compacted or topic_partition in self.uncleanable or not len(log.segments):
                continue
            try:
                candidates.append((self._measured(log, now_ms), log.settings.min_cleanable_dirty_ratio))
            except CorruptMessage as error:
                self._leave_alone(topic_partition, error)
        self.max_dirty_ratio = max((each.dirty_ratio for each, _ in candidates), default=0.0)
        chosen = next_log(candidates)
        if chosen is None:
            return None
        return Compaction(self._logs[chosen.topic_partition], chosen, self.settings, now_ms)

    def _measured(self, log: PartitionLog, now_ms: int) -> LogToClean:
        found = dirty_range(log, self.clean_offsets.get(log.topic_partition), now_ms)
        if found.is_reset:
            self.clean_offsets[log.topic_partition] = found.first_dirty_offset
        return log_to_clean(log, found, now_ms)

    def _unflushed(self) -> tuple[TopicPartition, ...]:
        return tuple(
            topic_partition
            for topic_partition, log in self._logs.items()
            if log.settings.is_compacted and len(log.segments) and log.flushed_offset < log.active.base_offset
        )

    def _waits_after(self, error: Exception, topic_partition: TopicPartition) -> int:
        """How long to wait after a pass that failed; raises what is not the cleaner's business."""
        if isinstance(error, CorruptMessage):
            self._leave_alone(topic_partition, error)
            return 0
        if isinstance(error, StorageExhausted):
            logger.warning("the compaction of %s is put off: %s", topic_partition, error)
            return self.settings.backoff_ms
        raise error

    def _leave_alone(self, topic_partition: TopicPartition, error: CorruptMessage) -> None:
        self.uncleanable[topic_partition] = str(error)
        logger.error("%s is not compacted any more: %s", topic_partition, error)
