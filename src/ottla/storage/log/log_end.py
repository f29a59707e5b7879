"""LogEnd: where a log grows. It owns the active segment and the offsets that describe the log.

    log start <= last stable <= high watermark <= log end
    recovery point <= flushed <= log end

1. Everything before `flushed_offset` is on the disk. `recovery_point` is what may be written down for the next start:
   a recovery that begins there finds everything. The two differ while the last segment grows, because its indexes are
   not synced with every flush: a recovery point inside it makes recovery build them again.
2. The offsets are plain attributes, because every append, commit and fetch reads them; only methods of this class
   change them. The log start is among them because none of the others may be before it.
3. `active` is the last of the segments, None when the log is closed. Segments are added and removed here, so that it
   is true at all times.
4. A roll completes the indexes of the old segment, writes the producers down as <base offset>.snapshot and makes the
   files of the new one. A roll that fails leaves the old segment active; at most a snapshot more is there, and it is
   true. Nothing is synced, because appends wait: old segment, snapshot and names go with the next flush. A snapshot
   that a crash tore is found by its sum, and the one before it is used.
5. An empty segment is not rolled: the new one would have its name.
6. What is flushed is described in flush.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from ottla.errors import DiskFull, IllegalMove
from ottla.records import BatchInfo
from ottla.records.checks import PlacedBatch
from ottla.storage.directory.checksums import CHECKSUMS, checksum_of, checksums_bytes, read_checksums
from ottla.storage.files import Buffer
from ottla.storage.index.aborted_index import AbortedIndex
from ottla.storage.index.sparse_index import INT32_MAX, CorruptIndex
from ottla.storage.log.flush import FlushJob
from ottla.storage.log.log_segments import LogSegments
from ottla.storage.log.partition_directory import PartitionDirectory
from ottla.storage.log.segment_limits import bytes_before_full_index, create_segment, limits_of
from ottla.storage.producers.snapshot import encode_snapshot, snapshot_path
from ottla.storage.producers.state import ProducerState
from ottla.storage.segment.segment import Segment
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

NO_LIMIT: Final = 2**63 - 1


class LogEnd:
    """The end of one log."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        settings: TopicSettings,
        *,
        directory: PartitionDirectory,
        segments: LogSegments,
        producers: ProducerState,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.segments = segments
        self.producers = producers
        self.active = segments.last
        self.log_start_offset = self.high_watermark = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = self.flushed_offset = recovery_point
        self.last_flush_ms = now_ms
        # A flush that was begun before a truncation says nothing about what was appended after it.
        self.truncations = 0
        self._bytes_before_full_index = NO_LIMIT
        self.apply_settings(settings)

    def apply_settings(self, settings: TopicSettings) -> None:
        """Segments to come and the next append go by these."""
        self._settings = settings
        self.limits = limits_of(settings)
        # The active segment has the settings it was made with: the smallest of all since then is true for it too.
        self._bytes_before_full_index = min(self._bytes_before_full_index, bytes_before_full_index(self.limits))

    # --- offsets ------------------------------------------------------------------------------------------------------

    @property
    def first_unstable_offset(self) -> int | None:
        """The first record of the oldest transaction that is open, or ended above the high watermark."""
        unstable = self.producers.first_unstable_offset
        return None if unstable is None else max(unstable, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """Up to where a reader of committed records may read."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    def update_high_watermark(self, offset: int) -> int:
        """Move the high watermark, within the log; returns where it is then."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            offset = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.high_watermark = offset
        self.producers.move_high_watermark(offset)
        return offset

    def start_at(self, offset: int) -> None:
        """Records before `offset` are not part of the log any more."""
        self.log_start_offset = offset

    def begin_truncation(self) -> None:
        """Flushes that were begun before do not count."""
        self.truncations += 1

    def end_at(self, offset: int) -> None:
        """The log was cut at `offset`; a log that starts later is empty and starts there."""
        self.log_start_offset = min(self.log_start_offset, offset)
        self.log_end_offset = offset
        self.flushed_offset = min(self.flushed_offset, offset)
        self.recovery_point = min(self.recovery_point, self._safe_recovery_point(offset))
        self.update_high_watermark(self.high_watermark)
        self.segments.forget_positions()

    def restart_at(self, offset: int) -> None:
        """All records were removed: the log starts and ends at `offset`."""
        self.log_start_offset = self.high_watermark = offset
        self.end_at(offset)

    # --- segments -----------------------------------------------------------------------------------------------------

    def open_active(self) -> Segment:
        """The segment that grows; ValueError when the log is closed."""
        if self.active is None:
            raise ValueError(f"{self.topic_partition} is closed")
        return self.active

    def new_segment(self, base_offset: int, now_ms: int) -> Segment:
        """Make a segment and add it; if its files cannot be made, none of them is left."""
        made = create_segment(
            self.directory.files, self.directory.path, base_offset, self._settings, self.topic_partition, now_ms=now_ms
        )
        self.directory.note_names()
        self.segments.add(made)
        self.active = self.segments.last
        return made

    def remove_segment(self, segment: Segment) -> None:
        """Take a segment out of the log."""
        self.segments.remove(segment.base_offset)
        self.active = self.segments.last

    def close(self) -> list[Segment]:
        """Nothing can be appended any more; returns the segments, which are to be closed."""
        self.active = None
        return self.segments.clear()

    def roll(self, now_ms: int, first_offset: int = 0) -> Segment:
        """Let the next append begin a new segment, at `first_offset` if the log ends before it; returns the new one."""
        base_offset = max(self.log_end_offset, first_offset)
        active = self.open_active()
        if active.base_offset == base_offset:
            if active.size_bytes:
                raise IllegalMove(f"{self.topic_partition} cannot roll at {base_offset}, where {active.path} begins")
            return active
        self._complete(active, base_offset)
        made = self.new_segment(base_offset, now_ms)
        self.directory.note_segment(active)
        return made

    def _complete(self, active: Segment, end_offset: int) -> None:
        """Bring a segment that ends at `end_offset` into the state in which nobody must read its records."""
        active.on_roll()
        if self._settings.preallocate:
            active.records.file.truncate(active.size_bytes)
        self.producers.move_end(end_offset)
        self._write_snapshot()
        self._write_checksum(active.aborted_index)

    def _write_checksum(self, aborted_index: AbortedIndex) -> None:
        """Write down the sum of an index that has grown and will not grow any more; the next flush syncs it."""
        if not aborted_index.was_written or not len(aborted_index):
            return
        files, path = self.directory.files, self.directory.path
        known = read_checksums(files, path)
        names = {segment.aborted_index.path.name for segment in self.segments}
        sums = {name: checksum for name, checksum in known.items() if name in names}
        sums[aborted_index.path.name] = checksum_of(files, aborted_index.path, aborted_index.content)
        if sums != known:
            with suppress(DiskFull):  # without its sum the index is trusted, as it is in Kafka
                self.directory.replace_unsynced(CHECKSUMS, checksums_bytes(sums))

    def _write_snapshot(self) -> None:
        """Write down the producers as they are at the end of the log, unless that was done; the next flush syncs it."""
        producers, files = self.producers, self.directory.files
        if producers.end_offset <= producers.snapshot_offset:
            return
        path = snapshot_path(self.directory.path, producers.end_offset)
        try:
            file = files.open(path, create=True)
            try:
                file.truncate(0)
                file.write_at(0, [encode_snapshot(producers.entries.values())])
            finally:
                file.close()
        except DiskFull:
            files.remove(path, missing_ok=True)
            raise
        producers.snapshot_offset = producers.end_offset
        self.directory.note_file(path)

    # --- writing ------------------------------------------------------------------------------------------------------

    def fits_active(self, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> bool:
        """Whether the active segment takes it without a doubt. What nearly every append finds, in few steps."""
        active, limits = self.active, self.limits
        if active is None:
            return False
        end, first_ms = active.records.size_bytes + size_bytes, active.first_timestamp_ms
        return (
            end <= limits.segment_bytes
            and end <= self._bytes_before_full_index
            and last_offset - active.base_offset <= INT32_MAX
            and first_ms >= 0
            and max_timestamp_ms - first_ms <= limits.segment_ms - active.jitter_ms
        )

    def roll_if_needed(
        self, first_offset: int, last_offset: int, size_bytes: int, max_timestamp_ms: int, now_ms: int
    ) -> None:
        """Let what does not fit the active segment begin a new one."""
        must_roll = self.segments.sound(
            self.open_active(),
            lambda segment: segment.should_roll(
                self.limits,
                now_ms=now_ms,
                incoming_bytes=size_bytes,
                incoming_timestamp_ms=max_timestamp_ms,
                incoming_last_offset=last_offset,
            ),
        )
        if must_roll:
            self.roll(now_ms, first_offset)

    def write(
        self,
        segment: Segment,
        buffers: Sequence[Buffer],
        batches: Sequence[BatchInfo | PlacedBatch],
        next_offset: int,
    ) -> None:
        """Write batches that have their place to the active segment; the log ends at `next_offset` then."""
        try:
            segment.append(next_offset - 1, batches, buffers)
        except CorruptIndex:
            self.segments.sound(segment, lambda doubtful: doubtful.make_ready(batches[0].last_offset))
            segment.append(next_offset - 1, batches, buffers)
        self.log_end_offset = next_offset

    # --- flushing -----------------------------------------------------------------------------------------------------

    def flush_job(self) -> FlushJob:
        """Everything up to the end of the log as it is now."""
        active = self.open_active()
        syncs: list[Callable[[], None]] = []
        if self.flushed_offset < self.log_end_offset or self.directory.has_new_names:
            syncs.append(active.records.file.sync)
        return self._job(syncs, self._safe_recovery_point(self.log_end_offset))

    def closing_job(self) -> FlushJob:
        """Everything, in the state in which it can be opened without reading the records."""
        active = self.open_active()
        self._complete(active, self.log_end_offset)
        is_synced = self.recovery_point == self.log_end_offset and not self.directory.has_new_names
        return self._job([] if is_synced else active.pending_syncs(), self.log_end_offset)

    def _job(self, active: list[Callable[[], None]], recovery_point: int) -> FlushJob:
        unsynced = self.directory.unsynced
        syncs = self.directory.syncs(unsynced, active)
        return FlushJob(tuple(syncs), self.log_end_offset, recovery_point, unsynced, self.truncations)

    def _safe_recovery_point(self, offset: int) -> int:
        """From where a recovery must begin when only records, not indexes, are known to be on the disk up to `offset`:
        inside the active segment, unless that has nothing before `offset`."""
        return offset if offset <= self.open_active().base_offset else offset - 1

    def flushed(self, job: FlushJob, now_ms: int) -> None:
        """The job was run."""
        if job.truncations != self.truncations:
            return
        self.flushed_offset = max(self.flushed_offset, job.up_to_offset)
        self.recovery_point = max(self.recovery_point, job.recovery_point)
        self.last_flush_ms = now_ms
        self.directory.forget_synced(job.unsynced)
