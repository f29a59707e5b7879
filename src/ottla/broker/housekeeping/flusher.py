"""Where blocking disk work goes: a few threads that only run calls which release the interpreter lock.

Group commit: partitions that must be on disk before they are acknowledged are gathered while one round of syncs runs,
and the next round takes them all. So a hundred waiting producers share one fdatasync, and a lone one waits for one.

1. Nothing but `FlushJob.run` leaves the loop's thread; state changes when the round is back on the loop.
2. A job that fails is reported once and never tried again: after a failed sync the disk may lie about what it has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from ottla.broker.replication.partition import Partition
from ottla.errors import KafkaStorageError
from ottla.values import TopicPartition

log = logging.getLogger(__name__)


class Flusher:
    """Rounds of group commit on the loop that owns the partitions. `pool` None syncs on the loop: memory only."""

    def __init__(
        self,
        pool: Executor | None,
        *,
        now_ms: Callable[[], int],
        flushed: Callable[[Partition], None],
        failed: Callable[[Partition, KafkaStorageError], None],
    ) -> None:
        self._pool = pool
        self._now_ms = now_ms
        self._flushed = flushed
        self._failed = failed
        self._marked: dict[TopicPartition, Partition] = {}
        self._round: asyncio.Future[Any] | None = None
        self._planned = False

    @property
    def is_idle(self) -> bool:
        return not self._marked and self._round is None and not self._planned

    def mark(self, partition: Partition) -> None:
        """This partition has something that must reach the disk."""
        self._marked[partition.name] = partition
        if self._round is None and not self._planned:
            # After this turn of the loop, so that requests which arrived together are committed together.
            self._planned = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._planned = False
        taken, self._marked = list(self._marked.values()), {}
        jobs = [(partition, partition.log.flush_job()) for partition in taken if partition.offline is None]
        if not jobs:
            return
        if self._pool is None:
            self._end(_run_all(jobs))
            return
        self._round = asyncio.get_running_loop().run_in_executor(self._pool, _run_all, jobs)
        self._round.add_done_callback(lambda done: self._end(done.result()))

    def _end(self, results: list[tuple[Partition, Any, KafkaStorageError | None]]) -> None:
        self._round = None
        for partition, job, error in results:
            if error is not None:
                self._failed(partition, error)
                continue
            partition.log.flushed(job, self._now_ms())
            self._flushed(partition)
            if partition.needs_flush:
                self._marked[partition.name] = partition
        if self._marked and not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._begin)


def _run_all(jobs: list[tuple[Partition, Any]]) -> list[tuple[Partition, Any, KafkaStorageError | None]]:
    done: list[tuple[Partition, Any, KafkaStorageError | None]] = []
    for partition, job in jobs:
        try:
            job.run()
            done.append((partition, job, None))
        except KafkaStorageError as error:
            done.append((partition, job, error))
    return done
