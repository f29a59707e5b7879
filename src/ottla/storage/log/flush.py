"""When bytes are on the disk, in two steps, so that the waiting can be done by another thread.

    job = log.flush_job()            # the owner of the log
    job.run()                        # any thread; if it raises, the directory is not to be trusted any more
    log.flushed(job, now_ms)         # the owner again

1. A job is a value: what was appended after it was made is not part of it. Jobs of one log are run one after another.
2. While a segment grows only its records are synced: its indexes can be built again, and recovery does so for the
   segment that the recovery point is in. A rolled segment is synced with everything before the recovery point leaves
   it.
3. New names are synced with the job: of segments and snapshots in the log's directory, and of that directory itself.
4. A job from before a truncation is forgotten: what it synced may have been cut and written again.
5. `closing_job` is for a clean stop: indexes complete, producers written down, everything synced.
6. Which job, and what is flushed after it, is known by the end of the log (log_end.py).
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.light_tuples import NamedTuple
from ottla.storage.log.partition_directory import Unsynced
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
