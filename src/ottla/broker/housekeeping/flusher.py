"""Where blocking disk work goes: a few threads that only run calls which release the interpreter lock.

Group commit: partitions that must be on disk before they are acknowledged are gathered while one round of syncs runs,
and the next round takes them all. So a hundred waiting producers share one fdatasync, and a lone one waits for one.

1. Nothing but `FlushJob.run` leaves the loop's thread; state changes when the round is back on the loop.
2. Every partition of a round is reported, as flushed or as failed, whatever its job raised; and the next round comes,
   whatever a listener raises.
3. A job that fails is reported once and never tried again: after a failed sync the disk may lie about what it has. Only
   what could not even be begun, because something ran out (StorageExhausted), is tried again after RETRY_MS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, NamedTuple

from ottla.broker.replication.partition import Partition
from ottla.clock import Clock
from ottla.errors import KafkaStorageError, StorageExhausted
from ottla.storage.log.partition_log import FlushJob
from ottla.values import TopicPartition

RETRY_MS: Final = 100

log = logging.getLogger(__name__)


class Flush(NamedTuple):
    """A partition of a round, its job if it could be made, and what went wrong."""

    partition: Partition
    job: FlushJob | None
    error: KafkaStorageError | None = None


class Flusher:
    """Rounds of group commit on the loop that owns the partitions. `pool` None syncs on the loop: memory only."""

    def __init__(
        self,
        pool: Executor | None,
        *,
        clock: Clock,
        flushed: Callable[[Partition], None],
        failed: Callable[[Partition, KafkaStorageError], None],
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._flushed = flushed
        self._failed = failed
        self._marked: dict[TopicPartition, Partition] = {}
        self._round: asyncio.Future[list[Flush]] | None = None
        self._is_planned = False
        self._retrying = 0

    @property
    def is_idle(self) -> bool:
        return not (self._marked or self._round is not None or self._is_planned or self._retrying)

    def mark(self, partition: Partition) -> None:
        """This partition has something that must reach the disk."""
        self._marked[partition.name] = partition
        self._plan()

    def _plan(self) -> None:
        if self._round is None and not self._is_planned:
            # After this turn of the loop, so that requests which arrived together are committed together.
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_planned = False
        marked, self._marked = list(self._marked.values()), {}
        flushes = [_flush_of(partition) for partition in marked if partition.offline is None]
        if not flushes:
            return
        if self._pool is None:
            self._end(run_all(flushes))
            return
        try:
            self._round = asyncio.get_running_loop().run_in_executor(self._pool, run_all, flushes)
        except RuntimeError as error:  # the pool takes no work any more: the broker is going down
            self._end([_failure(each, error) for each in flushes])
        else:
            self._round.add_done_callback(lambda done: self._end(_results(done, flushes)))

    def _end(self, flushes: list[Flush]) -> None:
        self._round = None
        for flush in flushes:
            try:
                self._report(flush)
            except Exception:
                log.exception("%s: whoever waits for its sync could not be told of it", flush.partition.name)
        if self._marked:
            self._plan()

    def _report(self, flush: Flush) -> None:
        partition, job, error = flush
        if isinstance(error, StorageExhausted):
            log.warning("%s is synced a little later: %s", partition.name, error)
            self._retry_later(partition)
        elif error is not None or job is None:
            self._failed(partition, error or KafkaStorageError(f"{partition.name} could not be synced"))
        else:
            partition.log.flushed(job, self._clock.now_ms())
            self._flushed(partition)
            if partition.needs_flush:
                self._marked[partition.name] = partition

    def _retry_later(self, partition: Partition) -> None:
        self._retrying += 1

        def retry() -> None:
            self._retrying -= 1
            self.mark(partition)

        self._clock.call_later(RETRY_MS, retry)


def _flush_of(partition: Partition) -> Flush:
    try:
        return Flush(partition, partition.log.flush_job())
    except Exception as error:
        return Flush(partition, None, _storage_error(partition, error))


def run_all(flushes: list[Flush]) -> list[Flush]:
    """Run the jobs of a round, on any thread; what each of them raised is part of the result."""
    return [flush if flush.job is None else _run(flush, flush.job) for flush in flushes]


def _run(flush: Flush, job: FlushJob) -> Flush:
    try:
        job.run()
    except Exception as error:
        return _failure(flush, error)
    return flush


def _results(done: asyncio.Future[list[Flush]], flushes: list[Flush]) -> list[Flush]:
    error = asyncio.CancelledError("the round was cancelled") if done.cancelled() else done.exception()
    return done.result() if error is None else [_failure(each, error) for each in flushes]


def _failure(flush: Flush, error: BaseException) -> Flush:
    return flush._replace(error=_storage_error(flush.partition, error))


def _storage_error(partition: Partition, error: BaseException) -> KafkaStorageError:
    if isinstance(error, KafkaStorageError):
        return error
    log.error("the sync of %s failed unexpectedly", partition.name, exc_info=error)
    return KafkaStorageError(f"{partition.name} could not be synced: {error}")
