"""When bytes are on the disk, in two steps, so that the waiting can be done by another thread.

    job = flush_job(log)             # the owner of the log
    job.run()                        # any thread; if it raises, the directory is not to be trusted any more
    flushed(log, job, now_ms)        # the owner again

1. A job is a value: what was appended after it was made is not part of it. Jobs of one log are run one after another.
2. While a segment grows only its records are synced: its indexes can be built again, and recovery does so for the
   segment that the recovery point is in. A rolled segment is synced with everything before the recovery point leaves
   it.
3. New names are synced with the job: of segments and snapshots in the log's directory, and of that directory itself.
4. A job from before a truncation is forgotten: what it synced may have been cut and written anew.
5. `closing_job` is for a clean stop: indexes complete, producers written down, everything synced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.storage.log.log_state import LogState
from ottla.storage.log.partition_directory import Unsynced
from ottla.storage.log.roll import write_snapshot
from ottla.storage.settings import TopicSettings


class FlushJob(NamedTuple):
    """What must be called so that everything before `up_to_offset` is on the disk; false when that is nothing."""

    syncs: tuple[Callable[[], None], ...]
    up_to_offset: int
    recovery_point: int
    unsynced: Unsynced
    truncations: int

    def __bool__(self) -> bool:
        return bool(self.syncs)

    def run(self) -> None:
        """Return when everything is on the disk."""
        for sync in self.syncs:
            sync()


def flush_is_due(settings: TopicSettings, *, unflushed_records: int, last_flush_ms: int, now_ms: int) -> bool:
    """What flush.messages and flush.ms ask for, whatever the topic's durability."""
    return unflushed_records >= settings.flush_messages or (
        unflushed_records > 0 and now_ms - last_flush_ms >= settings.flush_ms
    )


def flush_job(log: LogState) -> FlushJob:
    """Everything up to the end of the log as it is now."""
    active: list[Callable[[], None]] = []
    if log.flushed_offset < log.log_end_offset or log.partition_directory.has_new_names:
        active.append(log.active.records.file.sync)
    return _job(log, active, log.safe_recovery_point(log.log_end_offset))


def closing_job(log: LogState) -> FlushJob:
    """Everything, in the state in which it can be opened without a look at the records."""
    active = log.active
    log.producers.move_end(log.log_end_offset)
    write_snapshot(log)
    active.on_roll()
    if log.settings.preallocate:
        active.records.file.truncate(active.size_bytes)
    is_synced = log.recovery_point == log.log_end_offset and not log.partition_directory.has_new_names
    return _job(log, [] if is_synced else active.pending_syncs(), log.log_end_offset)


def _job(log: LogState, active: list[Callable[[], None]], recovery_point: int) -> FlushJob:
    unsynced = log.partition_directory.unsynced
    syncs = log.partition_directory.syncs(unsynced, active)
    return FlushJob(tuple(syncs), log.log_end_offset, recovery_point, unsynced, log.truncations)


def flushed(log: LogState, job: FlushJob, now_ms: int) -> None:
    """The job was run."""
    if job.truncations != log.truncations:
        return
    log.flushed_offset = max(log.flushed_offset, job.up_to_offset)
    log.recovery_point = max(log.recovery_point, job.recovery_point)
    log.last_flush_ms = now_ms
    log.partition_directory.forget_synced(job.unsynced)
