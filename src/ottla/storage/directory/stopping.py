"""How a log directory is closed so that the next start need not read a record.

    sync all logs, many at a time -> close them -> write the tables -> mark the stop as clean

1. The mark is the last thing, and only there if everything before it went well. Otherwise the directory will be
   recovered, which costs time and no records.
2. A log that cannot be closed does not keep the others from being closed.
3. Syncs that run at the same time share what the disk has to do for them, so whoever stops a broker with thousands of
   logs gives a pool with many threads. A log is prepared while those before it are being synced. After each one
   `closed` is told how many are left.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from typing import Final

from ottla.errors import KafkaStorageError
from ottla.storage.directory.checkpoints import RECOVERY_POINTS
from ottla.storage.directory.directories import LogDirectory, Offsets
from ottla.storage.log.flush import FlushJob
from ottla.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

AHEAD: Final = 128


def close_cleanly(
    directory: LogDirectory,
    logs: list[PartitionLog],
    tables: Mapping[str, Offsets],
    *,
    pool: Executor | None,
    broker_epoch: int,
    closed: Callable[[int], None],
) -> None:
    """Close logs and directory; `tables` are what must be written, the recovery points are those after the closing."""
    errors = []
    for left, error in zip(range(len(logs) - 1, -1, -1), _close_each(logs, pool), strict=True):
        errors.append(error)
        closed(left)
    points = {log.topic_partition: log.recovery_point for log in logs}
    errors += [error_of(job.run) for job in directory.checkpoint_jobs({**tables, RECOVERY_POINTS: points})]
    if not any(errors):
        errors.append(error_of(lambda: directory.mark_clean(broker_epoch)))
    first = next((error for error in errors if error is not None), None)
    if first is not None:
        logger.error("%s was not closed in order and will be recovered: %s", directory.path, first)


def _close_each(logs: list[PartitionLog], pool: Executor | None) -> Iterator[KafkaStorageError | None]:
    """Sync and close one log after the other, AHEAD of them being synced at the same time."""
    synced: deque[tuple[PartitionLog, FlushJob | None, Future[KafkaStorageError | None] | None]] = deque()
    for log in logs:
        job = _prepared(log)
        synced.append((log, job, None if pool is None or not job else pool.submit(error_of, job.run)))
        if len(synced) >= AHEAD:
            yield _close(*synced.popleft())
    while synced:
        yield _close(*synced.popleft())


def _prepared(log: PartitionLog) -> FlushJob | None:
    """What is to be synced; None when it cannot be prepared, then closing it will raise again."""
    try:
        return log.closing_job()
    except KafkaStorageError:
        return None


def _close(
    log: PartitionLog, job: FlushJob | None, syncing: Future[KafkaStorageError | None] | None
) -> KafkaStorageError | None:
    error = None
    if job is not None:
        error = error_of(job.run) if syncing is None else syncing.result()
        if error is None:
            log.flushed(job, log.end.last_flush_ms)
    return error_of(log.close) or error


def error_of(call: Callable[[], None]) -> KafkaStorageError | None:
    """What kept a call from being done; everything else goes up."""
    try:
        call()
    except KafkaStorageError as error:
        return error
    return None
