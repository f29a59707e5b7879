"""What must live as long as the broker does: threads of its session and of its disks, tasks of its housekeeping.

1. A task that ends with an error is an ERROR and is started again after RESTART_MS. Until then the broker is not ready.
   One that has ended RESTARTS_LIMIT times is not started again.
2. Threads are looked at by `check`, once a second. Nobody can start one of those again: kazoo's has the session, the
   pool's had work in hand.
3. What cannot be started again stops the broker, in order: others take its partitions over, and whoever supervises it
   starts it again. A broker that goes on without its session or its compaction looks healthy, and is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from typing import Final

from ottla.clock import Clock
from ottla.errors import OttlaError

RESTART_MS: Final = 1_000.0
RESTARTS_LIMIT: Final = 3

log = logging.getLogger(__name__)


class PartEnded(OttlaError):
    """A part of the broker that must live has ended.
    The broker stops in order; start it again, and report what its log says before this."""


class Watchdog:
    """`failed` is called once, with what cannot be started again."""

    def __init__(self, clock: Clock, failed: Callable[[PartEnded], None]) -> None:
        self._clock = clock
        self._failed = failed
        self._threads: list[Callable[[], Sequence[str]]] = []
        self._down: dict[str, str] = {}
        self.failure: PartEnded | None = None

    @property
    def not_ready_because(self) -> str | None:
        """What does not live; None when all do."""
        if self.failure is not None:
            return str(self.failure)
        return "; ".join(self._down.values()) or None

    # -- threads -----------------------------------------------------------------------------------------------------

    def watch_threads(self, dead: Callable[[], Sequence[str]]) -> None:
        """`dead` names the threads that have ended and should not have."""
        self._threads.append(dead)

    def check(self) -> None:
        for dead in self._threads:
            if names := dead():
                self._give_up(f"{', '.join(names)} ended")

    # -- tasks -------------------------------------------------------------------------------------------------------

    def keep_running(
        self, name: str, work: Callable[[], Coroutine[object, None, None]]
    ) -> Callable[[], asyncio.Task[None]]:
        """Run the work as a task until it is cancelled; returns what gives the task of now."""
        restarts = 0
        task: asyncio.Task[None]

        async def start_again() -> None:
            await self._clock.sleep(RESTART_MS)
            del self._down[name]
            log.info("%s is started again", name)
            await work()

        def ended(over: asyncio.Task[None]) -> None:
            nonlocal restarts, task
            if over.cancelled():
                return
            error = over.exception()
            what = f"{name} ended: {error!r}" if error is not None else f"{name} ended"
            log.error("%s", what, exc_info=error)
            restarts += 1
            if restarts > RESTARTS_LIMIT:
                self._give_up(f"{what}, for the {restarts}th time")
                return
            self._down[name] = what
            begin(start_again())

        def begin(coroutine: Coroutine[object, None, None]) -> None:
            nonlocal task
            task = asyncio.get_running_loop().create_task(coroutine, name=name)
            task.add_done_callback(ended)

        begin(work())
        return lambda: task

    def _give_up(self, what: str) -> None:
        if self.failure is None:
            self.failure = PartEnded(f"{what} and cannot be started again")
            log.error("%s", self.failure)
            self._failed(self.failure)


def dead_workers(pool: Executor | None) -> list[str]:
    """Threads of a pool that have ended while it is in use."""
    threads = getattr(pool, "_threads", ())
    return [thread.name for thread in list(threads) if not thread.is_alive()]
