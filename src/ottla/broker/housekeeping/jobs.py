"""What a broker does by itself, again and again: retention, flushes, checkpoints, deletions, compaction, tokens and
meters of quotas that are too old.

1. Each job decides on the loop, in slices of SLICE_MS: after that long, others have their turn.
2. What blocks runs on a worker (6b: no other thread computes in Python).
3. A table of checkpoints has one job, with the period that Kafka gives it.
4. flush.messages is acted on with the append that reaches it; flush.ms here, rounded up to FLUSH_CHECK_MS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.housekeeping.watchdog import dead_workers
from ottla.broker.observe.stalls import NOTED_MS
from ottla.broker.quotas.meters import SWEEP_MS
from ottla.broker.security.delegation_tokens import remove_expired_tokens
from ottla.clock import Clock
from ottla.errors import KafkaStorageError
from ottla.storage.directory.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from ottla.tasks import Action, Job, Schedule, TaskRunner

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.storage.directory.manager import LogManager
    from ottla.storage.directory.removals import Removal

log = logging.getLogger(__name__)

SLICE_MS: Final = 5
ASKED_AT_ONCE: Final = 50  # partitions without work before the clock is read: all of them are asked every second
DELETE_CHECK_MS: Final = 1_000
FLUSH_CHECK_MS: Final = 1_000
DISK_CHECK_MS: Final = 1_000
FIRST_COMPACTION_MS: Final = 1_000
FIRST_VERIFICATION_MS: Final = 5_000


def start_jobs(
    broker: Broker,
    logs: LogManager,
    clock: Clock,
    pool: Executor | None,
    last_disk_failed: Callable[[KafkaStorageError], None],
) -> Callable[[], Awaitable[None]]:
    """Begin; returns the call that ends them. `last_disk_failed` is called when no directory is left."""
    settings = broker.settings
    runner = TaskRunner(Schedule(broker.random.random), clock, took=partial(_took, broker))

    def clean_up() -> Awaitable[None] | None:
        return start_in_slices(logs.clean_up(clock.now_ms()), clock)

    def checkpoint(table: str) -> Callable[[], Awaitable[None]]:
        async def write() -> None:
            for job in logs.checkpoint_jobs([table]):
                await off_loop(pool, job.run)

        return write

    def delete_due() -> Awaitable[None] | None:
        removals = logs.removals_due(clock.now_ms())
        return _remove(removals, pool) if removals else None

    def forget_producers() -> Awaitable[None] | None:
        return start_in_slices(_forget_producers(broker, clock.now_ms()), clock)

    def check_disks() -> None:
        see_failures(broker, logs, last_disk_failed)
        broker.watchdog.check()  # the threads of the disks, and those of the session with them

    def flush_due() -> Awaitable[None] | None:
        return start_in_slices(_flush_due(broker, clock.now_ms()), clock)

    flush_check_ms = min(FLUSH_CHECK_MS, settings.log_flush_scheduler_interval_ms)
    periods_ms: list[tuple[str, Action, int]] = [
        ("retention", clean_up, settings.log_retention_check_interval_ms),
        ("recovery points", checkpoint(RECOVERY_POINTS), settings.log_flush_offset_checkpoint_interval_ms),
        ("log starts", checkpoint(LOG_STARTS), settings.log_flush_start_offset_checkpoint_interval_ms),
        ("high watermarks", checkpoint(HIGH_WATERMARKS), settings.replica_high_watermark_checkpoint_interval_ms),
        ("deletion", delete_due, DELETE_CHECK_MS),
        ("flush", flush_due, flush_check_ms),
        ("disks", check_disks, DISK_CHECK_MS),
        ("quotas", partial(_forget_clients, broker), SWEEP_MS),
        ("producers", forget_producers, settings.producer_id_expiration_check_interval_ms),
        ("tokens", partial(remove_expired_tokens, broker), settings.delegation_token_expiry_check_interval_ms),
    ]
    for name, action, period_ms in periods_ms:
        pause_ms = max(1, period_ms)  # some settings may be 0: as often as can be
        runner.every(name, action, period_ms=pause_ms, delay_ms=pause_ms)
    broker.watchdog.watch_threads(partial(dead_workers, pool))
    tasks = [broker.watchdog.keep_running(name, run) for name, run in _lasting(broker, logs, clock, pool, runner)]
    if logs.futures():
        broker.log_dir_moves.resume()
    return partial(_end, broker, tasks)


def _lasting(
    broker: Broker, logs: LogManager, clock: Clock, pool: Executor | None, runner: TaskRunner
) -> Iterator[tuple[str, Callable[[], Coroutine[object, None, None]]]]:
    """What runs as long as the broker does."""
    yield "housekeeping", runner.run
    if broker.settings.log_cleaner_enable:
        yield "compaction", partial(_keep_compact, broker, logs, clock, pool)
    if broker.settings.ottla_verify_interval_ms:
        yield "verification", partial(_keep_verifying, broker, logs, clock)


async def _end(broker: Broker, tasks: list[Callable[[], asyncio.Task[None]]]) -> None:
    ending = [task() for task in tasks]
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
    if "log_dir_moves" in broker.__dict__:  # somebody wanted one
        await broker.log_dir_moves.stop()


def _took(broker: Broker, job: Job, took_ms: float) -> None:
    if took_ms >= NOTED_MS:
        broker.stalls.note(f"job {job.name}", took_ms)


async def _remove(removals: Iterable[Removal], pool: Executor | None) -> None:
    for removal in removals:
        await off_loop(pool, removal.run)


def _forget_clients(broker: Broker) -> None:
    broker.quotas.sweep()


def start_in_slices(steps: Iterable[object], clock: Clock) -> Awaitable[None] | None:
    """Do the steps; None when the first SLICE_MS were enough, else what does the rest."""
    left = iter(steps)
    return None if _is_done_in_a_slice(left, clock) else run_in_slices(left, clock)


async def run_in_slices(steps: Iterable[object], clock: Clock) -> None:
    """Do the steps to the end; after SLICE_MS of them others have a turn."""
    left = iter(steps)
    while not _is_done_in_a_slice(left, clock):
        await clock.sleep(0)


def _is_done_in_a_slice(left: Iterator[object], clock: Clock) -> bool:
    end_ms = clock.monotonic_ms() + SLICE_MS
    return not any(clock.monotonic_ms() >= end_ms for _ in left)


async def _keep_compact(broker: Broker, logs: LogManager, clock: Clock, pool: Executor | None) -> None:
    """Compact until cancelled. Its code is loaded when the first clients have been answered: nobody waits for it."""
    await clock.sleep(FIRST_COMPACTION_MS)
    from ottla.broker.housekeeping.compaction import keep_compact

    await keep_compact(broker, logs, clock, pool)


async def _keep_verifying(broker: Broker, logs: LogManager, clock: Clock) -> None:
    """Verify until cancelled; its code, too, is loaded when the first clients have been answered."""
    await clock.sleep(min(FIRST_VERIFICATION_MS, broker.settings.ottla_verify_interval_ms))
    from ottla.broker.housekeeping.verification import keep_verifying

    await keep_verifying(broker, logs, clock, broker.corruption.off_loop)


def _forget_producers(broker: Broker, now_ms: int) -> Iterator[None]:
    for partition in list(broker.replicas):
        partition.log.producers.remove_expired(now_ms)
        yield


def _flush_due(broker: Broker, now_ms: int) -> Iterator[None]:
    for number, partition in enumerate(list(broker.replicas)):
        if partition.offline is None and partition.log.flush_is_due(now_ms):
            broker.progress.flush(partition)
            yield
        elif number % ASKED_AT_ONCE == 0:
            yield


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
