"""How far partitions are, and who hears of it.

Two things happen to a partition's log, and everything that waits for either is resolved from here:

    appended(partition)    it has grown: have it synced where durability asks for that
    advanced(partition)    its high watermark may have advanced: by a sync, a follower, the leader's word, or a failure

Nothing here knows requests; the purgatories, the commits and the coordinators know who waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from ottla.broker.housekeeping.flusher import Flusher, FlushRounds
from ottla.broker.replication.commits import Commits
from ottla.broker.replication.partition import Partition
from ottla.broker.waiting.next_turn import NextTurn
from ottla.broker.waiting.purgatory import Purgatory
from ottla.clock import Clock
from ottla.errors import KafkaStorageError
from ottla.values import TopicPartition


class PartitionProgress:
    """`notify(name)` is called when something of a partition was committed; `failed` when its disk failed in a sync;
    `synced_in` after every round of syncs, with how long it took and how many logs it had; `before_round` before a
    round that somebody expects to append something."""

    def __init__(
        self,
        pool: Executor | None,
        *,
        clock: Clock,
        wake: Callable[[], None],
        notify: Callable[[TopicPartition], None],
        failed: Callable[[Partition, KafkaStorageError], None],
        synced_in: Callable[[float, int], None] = lambda took_ms, count: None,
        before_round: Callable[[], None] = lambda: None,
    ) -> None:
        self.produce_purgatory = Purgatory(wake)
        self.fetch_purgatory = Purgatory(wake)
        self.commits = Commits(wake)
        self.next_turn = NextTurn()
        self.with_deadlines = (self.commits, self.produce_purgatory, self.fetch_purgatory)
        self._notify = notify
        self._syncing: dict[TopicPartition, list[tuple[int, asyncio.Future[None]]]] = {}
        self._flusher = Flusher(
            pool, clock=clock, flushed=self.flushed, failed=failed, synced_in=synced_in, before_round=before_round
        )
        self.expect = self._flusher.expect  # something will be appended before the next round of syncs begins

    @property
    def is_idle(self) -> bool:
        """Nothing is on its way to the disk."""
        return self._flusher.is_idle

    def flush_rounds(self) -> FlushRounds:
        """How group commit is getting on."""
        return self._flusher.rounds

    def appended(self, partition: Partition) -> None:
        if partition.needs_flush:
            self._flusher.mark(partition)
            if partition.in_sync is not None:
                self.fetch_purgatory.check(partition.name)  # followers need not wait for our disk
        else:
            self._check(partition)

    def advanced(self, partition: Partition) -> None:
        partition.advance()
        self._check(partition)

    def committed(self, partition: Partition) -> None:
        """The same for whoever knows that the high watermark has just moved."""
        self._check(partition)

    def flush(self, partition: Partition) -> None:
        """Have this partition synced, even if nobody waits for it."""
        self._flusher.mark(partition)

    def synced(self, partition: Partition) -> asyncio.Future[None]:
        """Sync a partition; done when all it has now is on the disk, or the disk failed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._syncing.setdefault(partition.name, []).append((partition.log_end_offset, future))
        self._flusher.mark(partition)
        return future

    def flushed(self, partition: Partition) -> None:
        """A sync of this partition has ended, or its disk has failed."""
        waiting = self._syncing.pop(partition.name, [])
        still = [each for each in waiting if each[0] > partition.log.flushed_offset and partition.offline is None]
        for each in waiting:
            if each not in still and not each[1].done():
                each[1].set_result(None)
        if still:
            self._syncing[partition.name] = still
        self.advanced(partition)

    def forget(self, name: TopicPartition) -> None:
        """The partition is gone from here, or is led by another broker: pending requests get the error."""
        self.produce_purgatory.check(name)
        self.fetch_purgatory.check(name)
        self.commits.forget(name)

    def close(self) -> None:
        """The broker stops: pending requests are answered as if their time were over."""
        self.commits.close()
        self.produce_purgatory.close()
        self.fetch_purgatory.close()

    def _check(self, partition: Partition) -> None:
        name = partition.name  # nearly always nobody waits: a search in a table is cheaper than a call
        if name in self.produce_purgatory.watched:
            self.produce_purgatory.check(name)
        if name in self.fetch_purgatory.watched:
            self.fetch_purgatory.check(name)
        if name in self.commits.lines:
            self.commits.check(partition)
        self._notify(name)
