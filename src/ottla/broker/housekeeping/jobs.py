"""What a broker does by itself, again and again: retention, flushes, checkpoints, deletions, compaction.

Each job decides on the loop and is bounded; what blocks runs on a worker (6b: no other thread computes in Python).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

from ottla.broker.housekeeping.compaction import keep_compact
from ottla.clock import Clock
from ottla.errors import KafkaStorageError
from ottla.storage.directory.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from ottla.tasks import Schedule, TaskRunner

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.storage.directory.manager import LogManager

log = logging.getLogger(__name__)

DELETE_LOOK_MS: Final = 1_000
FLUSH_LOOK_MS: Final = 1_000  # flush.ms is rounded up to this
DISK_LOOK_MS: Final = 1_000


def start_jobs(
    broker: Broker,
    logs: LogManager,
    clock: Clock,
    pool: Executor | None,
    last_disk_failed: Callable[[KafkaStorageError], None],
) -> Callable[[], Awaitable[None]]:
    """Begin; gives the call that ends them. `last_disk_failed` is told when no directory is left."""
    broker.offline = lambda: see_failures(broker, logs, last_disk_failed)
    settings = broker.settings
    runner = TaskRunner(Schedule(broker.random.random), clock)

    async def clean_up() -> None:
        logs.clean_up(clock.now_ms())

    def checkpoint(table: str) -> Callable[[], Awaitable[None]]:
        async def write() -> None:
            for job in logs.checkpoint_jobs([table]):
                await off_loop(pool, job.run)

        return write

    async def delete_due() -> None:
        for removal in logs.removals_due(clock.now_ms()):
            await off_loop(pool, removal.run)

    async def forget_producers() -> None:
        for partition in list(broker.replicas):
            partition.log.producers.remove_expired(clock.now_ms())
            await asyncio.sleep(0)  # a turn for others between two logs

    async def look_at_disks() -> None:
        see_failures(broker, logs, last_disk_failed)

    async def flush_due() -> None:
        for partition in broker.replicas:
            if partition.log.flush_is_due(clock.now_ms()):
                broker.flush(partition)

    periods_ms = [
        ("retention", clean_up, settings.log_retention_check_interval_ms),
        ("recovery points", checkpoint(RECOVERY_POINTS), settings.log_flush_offset_checkpoint_interval_ms),
        ("log starts", checkpoint(LOG_STARTS), settings.log_flush_start_offset_checkpoint_interval_ms),
        ("high watermarks", checkpoint(HIGH_WATERMARKS), settings.replica_high_watermark_checkpoint_interval_ms),
        ("deletion", delete_due, DELETE_LOOK_MS),
        ("flush", flush_due, FLUSH_LOOK_MS),
        ("disks", look_at_disks, DISK_LOOK_MS),
        ("producers", forget_producers, settings.producer_id_expiration_check_interval_ms),
    ]
    for name, action, period_ms in periods_ms:
        pause_ms = max(1, period_ms)  # some settings may be 0: as often as can be
        runner.every(name, action, period_ms=pause_ms, delay_ms=pause_ms)
    tasks = [asyncio.get_running_loop().create_task(runner.run())]
    if settings.log_cleaner_enable:
        tasks.append(asyncio.get_running_loop().create_task(keep_compact(broker, logs, clock, pool)))

    async def end() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    return end


async def off_loop(pool: Executor | None, work: Callable[[], None]) -> None:
    """Run blocking work on a worker, or here where there are none. What fails is seen by `see_failures`."""
    try:
        if pool is None:
            work()
        else:
            await asyncio.get_running_loop().run_in_executor(pool, work)
    except KafkaStorageError as error:
        log.error("work on the disk failed: %s", error)


def see_failures(broker: Broker, logs: LogManager, last_disk_failed: Callable[[KafkaStorageError], None]) -> None:
    """Directories that failed since the last look: their partitions go offline; without any directory we stop."""
    for failure in logs.failures():
        log.error("the log directory %s is offline: %s", failure.directory, failure.error)
        for name in failure.partitions:
            partition = broker.replicas.get(name)
            if partition is not None:
                broker.take_offline(partition, failure.error)
        if failure.is_last:
            last_disk_failed(failure.error)
