"""One round of syncs on worker threads: its jobs run side by side, and the loop is woken once, when all have ended.

    round = SyncRound(pool, flushes, ended)
    round.start()                      # `ended` is called on the loop
    round.results()                    # what became of every job

1. Jobs are shared out among up to SYNC_THREADS threads. Syncs of several files that begin together are one commit of
   the file system's journal; one after the other each of them waits for a commit of its own.
2. A thread runs nothing but `FlushJob.run`, which waits without the interpreter lock. The last one to end wakes the
   loop.
3. Every job has a result, whatever it raised, also when the pool takes no work any more.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from contextlib import suppress
from typing import Final

from ottla.broker.replication.partition import Partition
from ottla.errors import KafkaStorageError
from ottla.light_tuples import NamedTuple
from ottla.storage.log.partition_log import FlushJob, PartitionLog

SYNC_THREADS: Final = 3  # of the pool's four: somebody else may need one, too

log = logging.getLogger(__name__)


class Flush(NamedTuple):
    """A partition of a round, its job if it could be made, and what went wrong."""

    partition: Partition
    job: FlushJob | None
    error: KafkaStorageError | None = None
    log: PartitionLog | None = None
    """The job's; the partition may have another by the time it is done."""


class SyncRound:
    """The jobs of one round, under way."""

    def __init__(self, pool: Executor, flushes: list[Flush], ended: Callable[[], None]) -> None:
        self._pool = pool
        self._shares = [share for at in range(SYNC_THREADS) if (share := flushes[at::SYNC_THREADS])]
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._running: list[Future[list[Flush]]] = []
        self._left = len(self._shares)
        self._guard = threading.Lock()

    def start(self) -> None:
        for share in self._shares:
            submitted = self._submit(share)
            self._running.append(submitted)
            submitted.add_done_callback(self._share_ended)

    def _submit(self, share: list[Flush]) -> Future[list[Flush]]:
        try:
            return self._pool.submit(run_all, share)
        except RuntimeError as error:  # the pool takes no work any more: the broker is going down
            refused: Future[list[Flush]] = Future()
            refused.set_exception(error)
            return refused

    def _share_ended(self, _: Future[list[Flush]]) -> None:
        """On whichever thread the share ended."""
        with self._guard:
            self._left -= 1
            if self._left:
                return
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._ended)

    def results(self) -> list[Flush]:
        """Of a round that has ended; asked for once. The futures, which know the round, are let go."""
        ended, self._running = self._running, []
        return [flush for share, future in zip(self._shares, ended, strict=True) for flush in _results(share, future)]


def flush_of(partition: Partition) -> Flush:
    """What must be synced of a partition now."""
    try:
        return Flush(partition, partition.log.flush_job(), log=partition.log)
    except Exception as error:
        return Flush(partition, None, _storage_error(partition, error), partition.log)


def run_all(flushes: list[Flush]) -> list[Flush]:
    """Run jobs one after the other, on any thread; what each of them raised is part of the result."""
    return [flush if flush.job is None else _run(flush, flush.job) for flush in flushes]


def _run(flush: Flush, job: FlushJob) -> Flush:
    try:
        job.run()
    except Exception as error:
        return _failure(flush, error)
    return flush


def _results(flushes: list[Flush], ran: Future[list[Flush]]) -> list[Flush]:
    try:
        return ran.result(timeout=0)
    except (Exception, CancelledError) as error:
        return [_failure(each, error) for each in flushes]


def _failure(flush: Flush, error: BaseException) -> Flush:
    return flush._replace(error=_storage_error(flush.partition, error))


def _storage_error(partition: Partition, error: BaseException) -> KafkaStorageError:
    if isinstance(error, KafkaStorageError):
        return error
    log.error("the sync of %s failed unexpectedly", partition.name, exc_info=error)
    return KafkaStorageError(f"{partition.name} could not be synced: {error}")
