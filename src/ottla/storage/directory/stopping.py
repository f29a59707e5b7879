"""How a log directory is closed so that the next start need not read a record.

    sync all logs, several at a time -> close them -> write the tables -> mark the stop as clean

1. The mark is the last thing, and only there if everything before it went well. Otherwise the directory will be
   recovered, which costs time and no records.
2. A log that cannot be closed does not keep the others from being closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress

from ottla.errors import KafkaStorageError
from ottla.storage.directory.checkpoints import RECOVERY_POINTS
from ottla.storage.directory.directories import LogDirectory, Offsets
from ottla.storage.log.flush import FlushJob
from ottla.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


def close_cleanly(
    directory: LogDirectory,
    logs: list[PartitionLog],
    tables: Mapping[str, Offsets],
    *,
    pool: Executor | None,
    broker_epoch: int,
) -> None:
    """Close logs and directory; `tables` are what must be written, the recovery points are those after the closing."""
    errors = [*_flush_all(logs, pool), *map(error_of, [log.close for log in logs])]
    points = {log.topic_partition: log.recovery_point for log in logs}
    errors += [error_of(job.run) for job in directory.checkpoint_jobs({**tables, RECOVERY_POINTS: points})]
    if not any(errors):
        errors.append(error_of(lambda: directory.mark_clean(broker_epoch)))
    first = next((error for error in errors if error is not None), None)
    if first is not None:
        logger.error("%s was not closed in order and will be recovered: %s", directory.path, first)


def _flush_all(logs: list[PartitionLog], pool: Executor | None) -> list[KafkaStorageError | None]:
    """Sync everything of logs that are about to be closed; one that cannot be prepared will raise again then."""
    jobs: list[tuple[PartitionLog, FlushJob]] = []
    for log in logs:
        with suppress(KafkaStorageError):
            jobs.append((log, log.closing_job()))
    runs = [job.run for _, job in jobs]
    errors = list(map(error_of, runs) if pool is None else pool.map(error_of, runs))
    for (log, job), error in zip(jobs, errors, strict=True):
        if error is None:
            log.flushed(job, log.end.last_flush_ms)
    return errors


def error_of(call: Callable[[], None]) -> KafkaStorageError | None:
    """What kept a call from being done; everything else goes up."""
    try:
        call()
    except KafkaStorageError as error:
        return error
    return None
