"""What a broker does by itself, again and again: retention, flushes, checkpoints, deletions, compaction.

Each job decides on the loop and is bounded; what blocks runs on a worker (6b: no other thread computes in Python).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

from ottla.broker.compacting import keep_compact
from ottla.clock import Clock
from ottla.tasks import Schedule, TaskRunner

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.storage.manager import LogManager

DELETE_LOOK_MS: Final = 1_000
FLUSH_LOOK_MS: Final = 1_000  # flush.ms is rounded up to this


def start_jobs(broker: Broker, logs: LogManager, clock: Clock, pool: Executor | None) -> Callable[[], Awaitable[None]]:
    """Begin; gives the call that ends them."""
    settings = broker.settings
    runner = TaskRunner(Schedule(broker.random.random), clock)

    async def clean_up() -> None:
        logs.clean_up(clock.now_ms())

    async def checkpoint() -> None:
        logs.checkpoint(clock.now_ms())

    async def delete_due() -> None:
        logs.delete_due(clock.now_ms())

    async def flush_due() -> None:
        for partition in broker.replicas:
            if partition.log.flush_is_due(clock.now_ms()):
                broker.flush(partition)

    periods_ms = [
        ("retention", clean_up, settings.log_retention_check_interval_ms),
        ("checkpoints", checkpoint, settings.log_flush_offset_checkpoint_interval_ms),
        ("deletion", delete_due, DELETE_LOOK_MS),
        ("flush", flush_due, FLUSH_LOOK_MS),
    ]
    for name, action, period_ms in periods_ms:
        runner.every(name, action, period_ms=period_ms, delay_ms=period_ms)
    tasks = [asyncio.get_running_loop().create_task(runner.run())]
    if settings.log_cleaner_enable:
        tasks.append(asyncio.get_running_loop().create_task(keep_compact(broker, logs, clock, pool)))

    async def end() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    return end
