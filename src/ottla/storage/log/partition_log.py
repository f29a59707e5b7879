"""PartitionLog: the log of one partition, as a broker uses it.

    log = open_log(directory, topic_partition, settings, files=DiskFiles(), now_ms=now_ms, is_clean=False)
    appended = log.append_as_leader(batch, leader_epoch=7, now_ms=now_ms)
    job = log.flush_job(); job.run(); log.flushed(job, now_ms)        # `run` may be called by another thread
    log.update_high_watermark(appended.next_offset)
    answer = log.read(0, max_bytes=1 << 20, up_to="high_watermark")
    log.close()

1. It answers with values and calls nobody back: who waits for a flush or a high watermark is not its business.
2. It has one owner, who makes all calls; only FlushJob.run and reading from slices may happen on other threads.
3. An error of the disk other than DiskFull means that the log must be closed with `is_clean=False` and its directory
   taken offline.
4. It is put together from parts that own their state, and changes nothing itself:

    PartitionDirectory  the directory's name, its small files, what waits for a sync
    LogSegments         the segments and their indexes
    ProducerState       producers and transactions
    EpochHistory        which leader wrote from which offset, and the file of that
    LogEnd              the active segment and the offsets: everything that moves with an append
    Truncation, Appender, LogReader, OffsetLookup: what is done with them

   Who calls for every request holds the part (`log.end`, `log.appender`, `log.reader`) and saves the way through here.
5. Settings may be replaced while the log is open; segments to come and the next append go by the new ones.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Final

from ottla.errors import InconsistentTopicId, RequestTimedOut
from ottla.records.checks import RecordsCheck
from ottla.storage.compaction import swap
from ottla.storage.directory.checkpoints import PARTITION_METADATA, topic_id_bytes
from ottla.storage.files import Buffer, Files
from ottla.storage.index.aborted_index import AbortedTransaction
from ottla.storage.log import recovery
from ottla.storage.log.append import Appender, AppendResult, results_of
from ottla.storage.log.flush import FlushJob, flush_is_due
from ottla.storage.log.leader_epochs import EpochEnd, EpochHistory, LeaderEpochs
from ottla.storage.log.log_end import LogEnd
from ottla.storage.log.log_segments import LogSegments
from ottla.storage.log.lookups import OffsetAndEpoch, OffsetLookup
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.partition_directory import PartitionDirectory
from ottla.storage.log.read import LogReader, ReadResult, UpTo
from ottla.storage.log.segment_limits import SegmentLimits
from ottla.storage.log.truncate import Removed, Truncation
from ottla.storage.producers.check import VerificationGuard
from ottla.storage.producers.replay import run
from ottla.storage.producers.state import ID_EXPIRATION_MS, ID_LIMIT, ProducerState
from ottla.storage.segment.segment import FoundOffset, Segment
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition, uuid_to_text

__all__ = [
    "AppendResult",
    "FlushJob",
    "PartitionLog",
    "ReadResult",
    "Removed",
    "deleted_directory_name",
    "flush_is_due",
    "open_log",
    "opened",
]

logger = logging.getLogger(__name__)

NAME_LIMIT: Final = 255


class PartitionLog:
    """The log of one partition."""

    def __init__(self, loader: recovery.LogLoader, settings: TopicSettings, *, files: Files, now_ms: int) -> None:
        """The log that a loader, whose steps were done, has found."""
        self.topic_partition = loader.topic_partition
        self.topic_id = loader.topic_id
        self.files = files
        self.partition_directory = PartitionDirectory(files, loader.directory)
        self.segments = LogSegments(loader.segments, self.partition_directory, self._start_and_time)
        self.producers = loader.producers
        self.epoch_history = EpochHistory(loader.epochs, self.partition_directory)
        self.end = LogEnd(
            loader.topic_partition,
            settings,
            directory=self.partition_directory,
            segments=self.segments,
            producers=loader.producers,
            log_start_offset=loader.log_start_offset,
            log_end_offset=loader.log_end_offset,
            recovery_point=loader.recovery_point,
            now_ms=now_ms,
        )
        self.truncation = Truncation(self.end, self.epoch_history)
        self.appender = Appender(self.end, self.epoch_history, self.truncation, settings)
        self.reader = LogReader(self.end)
        self.lookup = OffsetLookup(self.end, self.epoch_history)
        self._settings = settings

    def _start_and_time(self) -> tuple[int, int]:
        return self.end.log_start_offset, self.end.last_flush_ms

    @property
    def settings(self) -> TopicSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: TopicSettings) -> None:
        self._settings = settings
        self.end.apply_settings(settings)
        self.appender.apply_settings(settings)

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        return self.partition_directory.path

    @property
    def epochs(self) -> LeaderEpochs:
        """Which leader wrote from which offset; changed by `epoch_history` alone."""
        return self.epoch_history.epochs

    @property
    def active(self) -> Segment:
        """The segment that grows."""
        return self.end.open_active()

    @property
    def limits(self) -> SegmentLimits:
        return self.end.limits

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def log_start_offset(self) -> int:
        return self.end.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.end.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.end.high_watermark

    @property
    def first_unstable_offset(self) -> int | None:
        return self.end.first_unstable_offset

    @property
    def last_stable_offset(self) -> int:
        return self.end.last_stable_offset

    @property
    def flushed_offset(self) -> int:
        return self.end.flushed_offset

    @property
    def recovery_point(self) -> int:
        return self.end.recovery_point

    @property
    def truncations(self) -> int:
        return self.end.truncations

    # --- appending ----------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        buffer: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        transaction_version: int | None = None,
        zstd_allowed: bool = True,
        checked: RecordsCheck | None = None,
    ) -> AppendResult:
        return self.appender.append_as_leader(
            buffer,
            leader_epoch=leader_epoch,
            now_ms=now_ms,
            origin=origin,
            guard=guard,
            transaction_version=transaction_version,
            zstd_allowed=zstd_allowed,
            checked=checked,
        )

    def inspect_batch(
        self, buffer: Buffer, *, now_ms: int, zstd_allowed: bool = True
    ) -> Generator[None, None, RecordsCheck]:
        return self.appender.inspect_batch(buffer, now_ms=now_ms, zstd_allowed=zstd_allowed)

    def has_batch(self, buffer: Buffer) -> bool:
        """Whether a batch of a producer is there already, or may be: this is the same once more."""
        try:
            return self.appender.find_repeated(buffer) is not None
        except RequestTimedOut:  # it is still looked for (batch_history.py)
            return True

    def append_run(self, buffers: Sequence[Buffer], *, leader_epoch: int, now_ms: int) -> list[AppendResult] | None:
        batches = self.appender.append_run(buffers, leader_epoch=leader_epoch, now_ms=now_ms)
        return None if batches is None else results_of(batches, self.end.log_start_offset, leader_epoch)

    def append_as_follower(self, buffer: Buffer, *, leader_epoch: int, now_ms: int) -> AppendResult | None:
        return self.appender.append_as_follower(buffer, leader_epoch=leader_epoch, now_ms=now_ms)

    def begin_epoch(self, epoch: int) -> None:
        """A leader begins, with the next record; see `EpochHistory.begin`."""
        self.epoch_history.begin(epoch, self.end.log_end_offset)

    def update_high_watermark(self, offset: int) -> int:
        return self.end.update_high_watermark(offset)

    def roll(self, now_ms: int, first_offset: int = 0) -> Segment:
        return self.end.roll(now_ms, first_offset)

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, *, up_to: UpTo = "high_watermark", at_least_one_batch: bool = True
    ) -> ReadResult:
        return self.reader.read(offset, max_bytes, up_to=up_to, at_least_one_batch=at_least_one_batch)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        return self.reader.aborted_transactions(start_offset, end_offset)

    def offset_for_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        return self.lookup.offset_for_timestamp(timestamp_ms)

    def offset_of_max_timestamp(self) -> FoundOffset | None:
        return self.lookup.offset_of_max_timestamp()

    def earliest_offset(self) -> OffsetAndEpoch:
        return self.lookup.earliest_offset()

    def latest_offset(self) -> OffsetAndEpoch:
        return self.lookup.latest_offset()

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        return self.lookup.end_offset_for_epoch(leader_epoch)

    # --- getting shorter ----------------------------------------------------------------------------------------------

    def end_after_cut(self, offset: int) -> int:
        return self.truncation.end_after_cut(offset)

    def truncate_to(self, offset: int, now_ms: int) -> Removed:
        return self.truncation.truncate_to(offset, now_ms)

    def truncate_fully(self, offset: int, now_ms: int) -> Removed:
        return self.truncation.truncate_fully(offset, now_ms)

    def advance_log_start(self, offset: int) -> bool:
        return self.truncation.advance_log_start(offset)

    def segments_below_log_start(self) -> list[Segment]:
        return self.truncation.segments_below_log_start()

    def delete_segments(self, segments: Iterable[Segment], reason: str, now_ms: int) -> Removed:
        return self.truncation.delete_segments(segments, reason, now_ms)

    def replace_segments(self, new: Iterable[Segment], old: Iterable[Segment]) -> Removed:
        return swap.replace_segments(self.segments, self.partition_directory, new, old)

    # --- flushing -----------------------------------------------------------------------------------------------------

    def flush_job(self) -> FlushJob:
        return self.end.flush_job()

    def closing_job(self) -> FlushJob:
        return self.end.closing_job()

    def flushed(self, job: FlushJob, now_ms: int) -> None:
        self.end.flushed(job, now_ms)

    def flush_is_due(self, now_ms: int) -> bool:
        """What flush.messages and flush.ms ask for."""
        unflushed_records = self.end.log_end_offset - self.end.flushed_offset
        return flush_is_due(
            self.settings, unflushed_records=unflushed_records, last_flush_ms=self.end.last_flush_ms, now_ms=now_ms
        )

    def close(self, *, is_clean: bool = True) -> None:
        """Let all files go. Unless the directory has failed, the log can be opened as clean after it."""
        if is_clean and len(self.segments):
            job = self.closing_job()
            job.run()
            self.flushed(job, self.end.last_flush_ms)
        for segment in self.end.close():
            segment.close() if is_clean else segment.abandon()

    # --- the directory ------------------------------------------------------------------------------------------------

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Say which topic this is the log of; it can be said once, and again when a character of it rotted."""
        if self.topic_id == topic_id:
            return
        if self.may_be_of(topic_id):
            if self.topic_id is not None:
                logger.warning("%s had a rotten character and is written again", self.directory / PARTITION_METADATA)
            self.partition_directory.replace(PARTITION_METADATA, topic_id_bytes(topic_id))
            self.topic_id = topic_id
            return
        known = uuid_to_text(self.topic_id) if self.topic_id is not None else "none"
        raise InconsistentTopicId(f"{self.directory} belongs to topic id {known}, not {uuid_to_text(topic_id)}")

    def may_be_of(self, topic_id: bytes) -> bool:
        """Whether this is the log of that topic: it says so, or nobody has said, or its id is that one but for one
        character. Ids are drawn from 122 bits: no two topics are as close as that, a bit that rotted is."""
        if self.topic_id is None or self.topic_id == topic_id:
            return True
        return sum(a != b for a, b in zip(uuid_to_text(self.topic_id), uuid_to_text(topic_id), strict=True)) == 1

    def rename_directory(self, name: str) -> Path:
        """Give the log's directory another name, on the disk when it returns; the log goes on there."""
        self.partition_directory.rename(name)
        for segment in self.segments:
            segment.moved(self.directory)
        return self.directory

    def delete(self) -> None:
        """Remove the log from the disk; it should have been renamed before (`deleted_directory_name`)."""
        self.close(is_clean=False)
        self.files.remove_directory(self.directory)
        self.files.sync_directory(self.directory.parent)


def deleted_directory_name(topic_partition: TopicPartition, unique_id: str) -> str:
    """The name under which the directory of a deleted partition waits for its removal; long topics are shortened."""
    suffix = f"-{topic_partition.partition}.{unique_id}-delete"
    return topic_partition.topic[: NAME_LIMIT - len(suffix)] + suffix


def open_log(
    directory: Path,
    topic_partition: TopicPartition,
    settings: TopicSettings,
    *,
    files: Files,
    now_ms: int,
    is_clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    compacted_up_to: int = 0,
    producer_id_expiration_ms: int = ID_EXPIRATION_MS,
    max_producer_ids: int = ID_LIMIT,
    verification_required: bool = True,
    is_suspect: bool = False,
) -> PartitionLog:
    """Open the log in `directory`, made if missing, and recover it if the last stop was not clean.

    The offsets are those of the checkpoints; `compacted_up_to` is the cleaner's. The high watermark starts at the log
    start: a caller that knows better calls `update_high_watermark`.
    """
    producers = ProducerState(
        id_expiration_ms=producer_id_expiration_ms,
        id_limit=max_producer_ids,
        verification_required=verification_required,
    )
    loader = recovery.LogLoader(
        directory,
        topic_partition,
        settings,
        files=files,
        producers=producers,
        now_ms=now_ms,
        is_clean=is_clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        compacted_up_to=compacted_up_to,
        is_suspect=is_suspect,
    )
    run(loader.steps())
    return opened(loader, settings, files=files, now_ms=now_ms)


def opened(loader: recovery.LogLoader, settings: TopicSettings, *, files: Files, now_ms: int) -> PartitionLog:
    """The log that a loader, whose steps were done, has found."""
    log = PartitionLog(loader, settings, files=files, now_ms=now_ms)
    for segment in loader.recovered:
        if segment is not log.active:
            log.partition_directory.note_segment(segment)
    if loader.recovered:
        log.partition_directory.note_names()
    if loader.is_new:
        log.partition_directory.note_made()
    return log
