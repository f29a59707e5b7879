"""Runs the cleaners beside the broker: decisions on the loop, the heavy slices on worker threads.

1. log.cleaner.threads logs are compacted at a time, each by a cleaner of its own; no two of them have the same log.
   They share the memory for keys (log.cleaner.dedupe.buffer.size) and the limit of bytes a second. The number may
   change while the broker runs: one more begins with the next step of the first, one less ends with its pass.
2. A pass over a log that was deleted or truncated meanwhile gives up by itself; an error of a log that is still there
   takes that log offline, like any other error of its disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ottla.broker.observe.counts import BrokerCounts
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
    """The logs of the broker as they are now, without those that another cleaner is at."""

    def __init__(self, broker: Broker, busy: Callable[[], set[TopicPartition]] = set) -> None:
        self._broker = broker
        self._busy = busy

    def __getitem__(self, name: TopicPartition) -> PartitionLog:
        partition = self._broker.replicas.get(name)
        if partition is None:
            raise KeyError(name)
        return partition.log

    def __iter__(self) -> Iterator[TopicPartition]:
        busy = self._busy()
        free = (each for each in self._broker.replicas if each.offline is None)
        return iter([partition.name for partition in free if partition.name not in busy])

    def __len__(self) -> int:
        return len(self._broker.replicas)


def cleaner_settings(settings: BrokerSettings) -> CleanerSettings:
    return CleanerSettings(
        dedupe_buffer_bytes=settings.log_cleaner_dedupe_buffer_size // max(1, settings.log_cleaner_threads),
        io_buffer_bytes=settings.log_cleaner_io_buffer_size,
        load_factor=settings.log_cleaner_io_buffer_load_factor,
        io_max_bytes_per_second=settings.log_cleaner_io_max_bytes_per_second,
        backoff_ms=settings.log_cleaner_backoff_ms,
    )


async def keep_compact(broker: Broker, logs: LogManager, clock: Clock, pool: Executor | None) -> None:
    """Compact until cancelled."""
    cleaning = broker.cleaning = Cleaning(broker, logs, clock, pool)
    try:
        await cleaning.work(0)
    finally:
        broker.cleaning = None
        await cleaning.end_others()


class Cleaning:
    """All cleaners of a broker. The first one is always there and begins the others as the settings want them."""

    def __init__(self, broker: Broker, logs: LogManager, clock: Clock, pool: Executor | None) -> None:
        self._broker = broker
        self._logs = logs
        self._clock = clock
        self._pool = pool
        self._cleaners: dict[int, Cleaner] = {}
        self._others: dict[int, asyncio.Task[None]] = {}

    async def work(self, number: int) -> None:
        broker, clock = self._broker, self._clock
        cleaner = self._cleaners[number] = self._make(number)
        began_ms: float | None = None
        try:
            while self._is_wanted(number):
                cleaner.settings = cleaner_settings(broker.settings)
                if number == 0:
                    self._begin_others()
                if number == 0 == broker.settings.log_cleaner_threads:
                    await clock.sleep(cleaner.settings.backoff_ms)
                    continue
                progress = await _step(cleaner, clock, self._pool)
                began_ms = _count(cleaner, progress, broker.counts, clock.monotonic_ms(), began_ms)
                _carry_out(progress, broker, self._logs, clock.now_ms())
                await clock.sleep(progress.wait_ms)
        finally:
            del self._cleaners[number]

    def is_at(self, name: TopicPartition) -> bool:
        """Whether a pass over this log is under way."""
        return any(each.current == name for each in self._cleaners.values())

    def restart(self, name: TopicPartition) -> None:
        """The log of a partition is another one now: nothing of it is known to be compact."""
        for cleaner in self._cleaners.values():
            cleaner.forget(name)

    def _is_wanted(self, number: int) -> bool:
        cleaner = self._cleaners[number]
        return number == 0 or cleaner.current is not None or number < self._broker.settings.log_cleaner_threads

    def _make(self, number: int) -> Cleaner:
        open_logs = OpenLogs(self._broker, lambda: self._busy_elsewhere(number))
        if number:
            cleaner = Cleaner(cleaner_settings(self._broker.settings), open_logs, {})
            cleaner.share_with(self._cleaners[0])
            return cleaner
        known = {name: self._logs.cleaner_offset(name) for name in open_logs}
        offsets = {name: offset for name, offset in known.items() if offset is not None}
        return Cleaner(cleaner_settings(self._broker.settings), open_logs, offsets)

    def _busy_elsewhere(self, number: int) -> set[TopicPartition]:
        currents = (each.current for other, each in self._cleaners.items() if other != number)
        return {name for name in currents if name is not None}

    def _begin_others(self) -> None:
        for number in range(1, self._broker.settings.log_cleaner_threads):
            known = self._others.get(number)
            if known is None or known.done():
                self._others[number] = asyncio.get_running_loop().create_task(self.work(number))

    async def end_others(self) -> None:
        for task in self._others.values():
            task.cancel()
        await asyncio.gather(*self._others.values(), return_exceptions=True)


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


def _count(
    cleaner: Cleaner, progress: Progress, counts: BrokerCounts, now_ms: float, began_ms: float | None
) -> float | None:
    """What `began_ms`, the beginning of the pass that is under way, is from now on."""
    counts.max_dirty_ratio = cleaner.max_dirty_ratio
    counts.uncleanable = set(cleaner.uncleanable)
    if progress.is_idle or began_ms is None:
        counts.cleaner_looked_ms = now_ms
        began_ms = None if progress.is_idle else now_ms
    if progress.counts is not None and began_ms is not None:
        counts.last_clean_ms = now_ms - began_ms
        began_ms = None
        counts.last_recopy_percent = 100 * progress.counts.bytes_kept / max(1, progress.counts.bytes_read)
    return began_ms


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
