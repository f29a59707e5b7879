"""Runs the cleaner beside the broker: decisions on the loop, the heavy slices on a worker thread.

A pass over a log that was deleted or truncated meanwhile gives up by itself; an error of a log that is still there
takes that log offline, like any other error of its disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ottla.clock import Clock
from ottla.errors import KafkaStorageError
from ottla.storage.compaction.cleaner import Cleaner, Progress
from ottla.storage.compaction.cleaner_plan import CleanerSettings
from ottla.storage.log.partition_log import PartitionLog
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.settings import BrokerSettings
    from ottla.storage.directory.manager import LogManager

log = logging.getLogger(__name__)


class OpenLogs(Mapping[TopicPartition, PartitionLog]):
    """The logs of the broker as they are now."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __getitem__(self, name: TopicPartition) -> PartitionLog:
        partition = self._broker.replicas.get(name)
        if partition is None:
            raise KeyError(name)
        return partition.log

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter([partition.name for partition in self._broker.replicas if partition.offline is None])

    def __len__(self) -> int:
        return len(self._broker.replicas)


def cleaner_settings(settings: BrokerSettings) -> CleanerSettings:
    return CleanerSettings(
        dedupe_buffer_bytes=settings.log_cleaner_dedupe_buffer_size,
        io_buffer_bytes=settings.log_cleaner_io_buffer_size,
        load_factor=settings.log_cleaner_io_buffer_load_factor,
        io_max_bytes_per_second=settings.log_cleaner_io_max_bytes_per_second,
        backoff_ms=settings.log_cleaner_backoff_ms,
    )


async def keep_compact(broker: Broker, logs: LogManager, clock: Clock, pool: Executor | None) -> None:
    """Compact until cancelled."""
    open_logs = OpenLogs(broker)
    known = {name: logs.cleaner_offset(name) for name in open_logs}
    offsets = {name: offset for name, offset in known.items() if offset is not None}
    cleaner = Cleaner(cleaner_settings(broker.settings), open_logs, offsets)
    while True:
        cleaner.settings = cleaner_settings(broker.settings)
        progress = await _step(cleaner, clock, pool)
        _carry_out(progress, broker, logs, clock.now_ms())
        await clock.sleep(progress.wait_ms)


async def _step(cleaner: Cleaner, clock: Clock, pool: Executor | None) -> Progress:
    work = cleaner.prepare(clock.now_ms())
    if work is not None and pool is not None:
        await asyncio.get_running_loop().run_in_executor(pool, work.run)
    elif work is not None:
        work.run()
    try:
        return cleaner.complete(work, clock.now_ms())
    except KafkaStorageError as error:
        log.error("a compaction failed: %s", error)
        return Progress(wait_ms=cleaner.settings.backoff_ms)


def _carry_out(progress: Progress, broker: Broker, logs: LogManager, now_ms: int) -> None:
    name = progress.topic_partition
    partition = broker.replicas.get(name) if name is not None else None
    if partition is not None and name is not None:
        for removed in progress.removed:
            logs.remove_later(partition.log, removed, now_ms)
        if progress.clean_offset is not None:
            logs.write_cleaner_offset(name, progress.clean_offset)
            log.info("%s is compacted up to offset %d: %s", name, progress.clean_offset, progress.counts)
    for unflushed in progress.flush_wanted:
        waiting = broker.replicas.get(unflushed)
        if waiting is not None:
            broker.progress.flush(waiting)
