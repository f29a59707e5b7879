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
4. The state and its promises are in log_state.py, each thing that can be done in the module named after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ottla.errors import InconsistentTopicId
from ottla.storage.compaction import swap as swapping
from ottla.storage.directory.checkpoints import PARTITION_METADATA, topic_id_bytes
from ottla.storage.files import Files
from ottla.storage.log import append as appending
from ottla.storage.log import append_run, lookups, recovery
from ottla.storage.log import flush as flushing
from ottla.storage.log import read as reading
from ottla.storage.log import roll as rolling
from ottla.storage.log import truncate as cutting
from ottla.storage.log.append import AppendResult
from ottla.storage.log.flush import FlushJob, flush_is_due
from ottla.storage.log.log_state import LogState
from ottla.storage.log.read import ReadResult
from ottla.storage.log.truncate import Removed
from ottla.storage.producers.replay import run
from ottla.storage.producers.state import ID_EXPIRATION_MS, ID_LIMIT, ProducerState
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

NAME_LIMIT: Final = 255


class PartitionLog(LogState):
    """The log of one partition."""

    # Each is told, with its promises, in the module it comes from.

    append_as_leader = appending.append_as_leader
    inspect_batch = appending.inspect_batch
    append_run = append_run.append_run
    append_as_follower = appending.append_as_follower
    read = reading.read
    aborted_transactions = reading.aborted_transactions

    offset_for_timestamp = lookups.offset_for_timestamp
    offset_of_max_timestamp = lookups.offset_of_max_timestamp
    earliest_offset = lookups.earliest_offset
    latest_offset = lookups.latest_offset
    end_offset_for_epoch = lookups.end_offset_for_epoch

    truncate_to = cutting.truncate_to
    truncate_fully = cutting.truncate_fully
    advance_log_start = cutting.advance_log_start
    segments_below_log_start = cutting.segments_below_log_start
    delete_segments = cutting.delete_segments
    replace_segments = swapping.replace_segments
    roll = rolling.roll

    flush_job = flushing.flush_job
    flushed = flushing.flushed
    closing_job = flushing.closing_job

    def flush_is_due(self, now_ms: int) -> bool:
        """What flush.messages and flush.ms ask for."""
        unflushed_records = self.log_end_offset - self.flushed_offset
        return flush_is_due(
            self.settings, unflushed_records=unflushed_records, last_flush_ms=self.last_flush_ms, now_ms=now_ms
        )

    def close(self, *, is_clean: bool = True) -> None:
        """Let all files go. Unless the directory has failed, the log can be opened as clean after it."""
        if is_clean and len(self.segments):
            job = self.closing_job()
            job.run()
            self.flushed(job, self.last_flush_ms)
        for segment in self.segments.clear():
            segment.close() if is_clean else segment.abandon()

    # --- the directory ------------------------------------------------------------------------------------------------

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Say which topic this is the log of; it can be said once."""
        if self.topic_id is None:
            self.partition_directory.replace(PARTITION_METADATA, topic_id_bytes(topic_id))
            self.topic_id = topic_id
        elif self.topic_id != topic_id:
            raise InconsistentTopicId(
                f"{self.directory} belongs to topic id {uuid_to_text(self.topic_id)}, not {uuid_to_text(topic_id)}"
            )

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
) -> PartitionLog:
    """Open the log in `directory`, made if missing, and recover it if the last stop was not clean.

    The offsets are those of the checkpoints; `compacted_up_to` is the cleaner's. The high watermark starts at the log
    start: whoever knows better calls `update_high_watermark`.
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
    )
    run(loader.steps())
    return opened(loader, settings, files=files, now_ms=now_ms)


def opened(loader: recovery.LogLoader, settings: TopicSettings, *, files: Files, now_ms: int) -> PartitionLog:
    """The log that a loader, whose steps were done, has found."""
    log = PartitionLog(
        loader.directory,
        loader.topic_partition,
        settings,
        files=files,
        segments=loader.segments,
        producers=loader.producers,
        epochs=loader.epochs,
        log_start_offset=loader.log_start_offset,
        log_end_offset=loader.log_end_offset,
        recovery_point=loader.recovery_point,
        topic_id=loader.topic_id,
        now_ms=now_ms,
    )
    for segment in loader.recovered:
        if segment is not log.active:
            log.partition_directory.note_segment(segment)
    if loader.recovered:
        log.partition_directory.note_names()
    if loader.is_new:
        log.partition_directory.note_made()
    return log
