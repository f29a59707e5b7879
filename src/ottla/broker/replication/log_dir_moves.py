"""Replicas on their way from one log directory of this broker to another (AlterReplicaLogDirs).

1. A copy of the log is made in the other directory, PORTION_BYTES at a time; the log is read and written as ever
   meanwhile. When the copy has everything it takes the log's place (storage/directory/future_logs.py), in one turn of
   the loop, so nobody sees a log that lacks something.
2. num.replica.alter.log.dirs.threads replicas move at a time (as many as there are directories, if it is not set), and
   together as fast as replica.alter.log.dirs.io.max.bytes.per.second allows.
3. Every batch is checked like one of a leader: its sum, its place. Before the copy takes over, both logs must end at
   the same offset.
4. What is cut from the log is cut from the copy (LogManager.truncate_to). A log that starts later lets its copy start
   later. A copy is given up when its partition leaves this broker, or somebody wants it elsewhere.
5. Moves go on after a restart. One whose disk fails ends there: the directory is offline, the log stays where it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ottla.broker.replication.throttle import Throttle
from ottla.errors import KafkaStorageError, OttlaError
from ottla.storage.log.follower_check import UnexpectedOffset
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ottla.broker.broker import Broker
    from ottla.broker.replication.partition import Partition
    from ottla.storage.directory.directories import LogDirectory
    from ottla.storage.log.partition_log import PartitionLog

T = TypeVar("T")

log = logging.getLogger(__name__)

PORTION_BYTES: Final = 256 * 1024
WAIT_MS: Final = 50.0
RETRY_MS: Final = 1_000.0
ANY_EPOCH: Final = 2**31 - 1


class MovableLogs(Protocol):
    """The part of storage.manager.LogManager that makes copies and lets them take over."""

    def futures(self) -> list[TopicPartition]: ...
    def future_log(self, name: TopicPartition) -> PartitionLog | None: ...
    def begin_future(self, name: TopicPartition, directory: LogDirectory, now_ms: int) -> PartitionLog: ...
    def cancel_future(self, name: TopicPartition, now_ms: int) -> None: ...
    def restart_future(self, name: TopicPartition, offset: int, now_ms: int) -> None: ...
    def promote_future(self, name: TopicPartition, now_ms: int) -> PartitionLog: ...


class LogDirMoves:
    """All moves of a broker; on its loop."""

    def __init__(self, broker: Broker, logs: MovableLogs, pool: Executor | None) -> None:
        self._broker = broker
        self._logs = logs
        self._pool = pool
        self._clock = broker.clock
        settings = broker.settings
        self._throttle = Throttle(
            samples=settings.alter_log_dirs_replication_quota_window_num,
            sample_ms=settings.alter_log_dirs_replication_quota_window_size_seconds * 1000,
        )
        self._waiting: dict[TopicPartition, None] = {}
        self._running: dict[TopicPartition, asyncio.Task[None]] = {}
        self.failed: set[TopicPartition] = set()

    # --- what is wanted ---

    def begin(self, partition: Partition, directory: LogDirectory) -> None:
        """Move a replica to that directory; one that is there stays, and a move elsewhere ends."""
        now_ms = self._clock.now_ms()
        if partition.log.directory.parent == directory.path:
            self._logs.cancel_future(partition.name, now_ms)
            return
        self._logs.begin_future(partition.name, directory, now_ms)
        self._want(partition.name)

    def resume(self) -> None:
        """Go on with what a former start of the broker began."""
        for name in self._logs.futures():
            if self._broker.replicas.get(name) is None:
                log.warning("the copy of %s is given up: there is no such partition here", name)
                self._logs.cancel_future(name, self._clock.now_ms())
            else:
                self._want(name)

    def lag(self, name: TopicPartition) -> int:
        """How many offsets a copy is behind its log."""
        partition, future = self._broker.replicas.get(name), self._logs.future_log(name)
        return 0 if partition is None or future is None else partition.log_end_offset - future.log_end_offset

    async def stop(self) -> None:
        tasks = list(self._running.values())
        self._waiting.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _want(self, name: TopicPartition) -> None:
        self.failed.discard(name)
        if name not in self._running:
            self._waiting[name] = None
            self._begin_waiting()

    def _begin_waiting(self) -> None:
        limit = self._broker.settings.num_replica_alter_log_dirs_threads or len(self._broker.replicas.directories)
        while self._waiting and len(self._running) < max(1, limit):
            name = next(iter(self._waiting))
            del self._waiting[name]
            task = self._running[name] = asyncio.get_running_loop().create_task(self._run(name))
            task.add_done_callback(partial(self._ended, name))

    def _ended(self, name: TopicPartition, _: asyncio.Task[None]) -> None:
        self._running.pop(name, None)
        self._begin_waiting()

    # --- one move ---

    async def _run(self, name: TopicPartition) -> None:
        while self._is_wanted(name):
            try:
                if await self._step(name):
                    return
            except UnexpectedOffset as error:
                self._restart(name, error.first_offset)
            except (OttlaError, KafkaStorageError) as error:
                self.failed.add(name)
                log.error("%s does not move now: %s", name, error)
                await self._clock.sleep(RETRY_MS)

    def _is_wanted(self, name: TopicPartition) -> bool:
        partition = self._broker.replicas.get(name)
        return partition is not None and partition.offline is None and self._logs.future_log(name) is not None

    async def _step(self, name: TopicPartition) -> bool:
        """Copy a portion, or let the copy take over; True at the end."""
        partition, future = self._broker.replicas.get(name), self._logs.future_log(name)
        assert partition is not None, "it was asked"
        assert future is not None, "it was asked"
        limit = self._broker.settings.replica_alter_log_dirs_io_max_bytes_per_second
        if self._throttle.is_exceeded(limit, self._clock.monotonic_ms()):
            await self._clock.sleep(WAIT_MS)
        elif future.log_end_offset < partition.log.log_start_offset:
            self._restart(name, partition.log.log_start_offset)
        elif future.log_end_offset < partition.log_end_offset:
            await self._copy_portion(partition, future)
        else:
            return await self._take_over(partition, future)
        return False

    async def _copy_portion(self, partition: Partition, future: PartitionLog) -> None:
        current, offset, cuts = partition.log, future.log_end_offset, partition.log.truncations
        found = current.read(offset, PORTION_BYTES, up_to="log_end", at_least_one_batch=True)
        content = await self._off_loop(found.slice.read)
        is_same = partition.log is current and self._logs.future_log(partition.name) is future
        if is_same and current.truncations == cuts and future.log_end_offset == offset:
            self._append(future, content)

    async def _off_loop(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _append(self, future: PartitionLog, content: bytes) -> None:
        appended = future.append_as_follower(bytearray(content), leader_epoch=ANY_EPOCH, now_ms=self._clock.now_ms())
        if appended is None:
            raise KafkaStorageError(f"there is no batch at offset {future.log_end_offset} of {future.topic_partition}")
        self._throttle.record(len(content), self._clock.monotonic_ms())

    def _restart(self, name: TopicPartition, offset: int) -> None:
        self._logs.restart_future(name, offset, self._clock.now_ms())

    async def _take_over(self, partition: Partition, future: PartitionLog) -> bool:
        """Sync the copy, beside the loop; then, if little came meanwhile, the rest and the change in one turn."""
        job = future.flush_job()
        await self._off_loop(job.run)
        if self._logs.future_log(partition.name) is not future:
            return False
        future.flushed(job, self._clock.now_ms())
        if self._broker.is_compacting(partition.name):
            await self._clock.sleep(WAIT_MS)
            return False
        if not self._copy_rest(partition, future):
            return False
        self._replace(partition)
        return True

    def _copy_rest(self, partition: Partition, future: PartitionLog) -> bool:
        """What was appended since, in this turn; False when it is more than a portion."""
        if future.log_end_offset < partition.log_end_offset:
            found = partition.log.read(future.log_end_offset, PORTION_BYTES, up_to="log_end", at_least_one_batch=True)
            self._append(future, found.slice.read())
        if future.log_end_offset != partition.log_end_offset:
            return False
        job = future.flush_job()
        job.run()
        future.flushed(job, self._clock.now_ms())
        return True

    def _replace(self, partition: Partition) -> None:
        before = partition.log.directory
        moved = self._logs.promote_future(partition.name, self._clock.now_ms())
        partition.replace_log(moved)
        self._broker.moved(partition)
        log.info("%s has moved from %s to %s", partition.name, before, moved.directory)
