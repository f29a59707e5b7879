"""What an active controller does again and again: a table of tasks, and the alarms that begin them.

    work = PeriodicWork(clock, tasks)
    work.start()                                   # with an activation
    work.stop()                                    # when it ends

A task says when it is due next, and is asked again when it is done; so a task that takes long is not begun twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ottla.clock import Clock, Timer
from ottla.errors import BrokerError
from ottla.light_tuples import NamedTuple

log = logging.getLogger(__name__)

OFF_MS: Final = 5_000.0
"""After that long it is asked again whether a task that is off is on."""


class PeriodicTask(NamedTuple):
    """`delay_ms` says after how long it is due, None while it is off. `run` returns whether more is to be done at
    once."""

    name: str
    delay_ms: Callable[[], float | None]
    run: Callable[[], Awaitable[bool]]


class PeriodicWork:
    """See the module."""

    def __init__(self, clock: Clock, tasks: Sequence[PeriodicTask]) -> None:
        self._clock = clock
        self._tasks = tasks
        self._timers: dict[str, Timer] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        for task in self._tasks:
            self._set(task)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for running in self._running.values():
            running.cancel()
        self._running.clear()

    def run_soon(self, name: str) -> None:
        """A task is due now, because something changed."""
        task = next(each for each in self._tasks if each.name == name)
        if name in self._timers:
            self._timers.pop(name).cancel()
            self._begin(task, is_due=True)

    def _set(self, task: PeriodicTask) -> None:
        delay_ms = task.delay_ms()
        wait_ms = OFF_MS if delay_ms is None else delay_ms
        self._timers[task.name] = self._clock.call_later(
            wait_ms, lambda: self._begin(task, is_due=delay_ms is not None)
        )

    def _begin(self, task: PeriodicTask, *, is_due: bool) -> None:
        self._timers.pop(task.name, None)
        if not is_due:
            self._set(task)
            return
        self._running[task.name] = asyncio.get_running_loop().create_task(self._run(task), name=task.name)

    async def _run(self, task: PeriodicTask) -> None:
        try:
            while await task.run():
                pass
        except BrokerError as error:
            log.info("%s is tried again later: %s", task.name, error)
        self._running.pop(task.name, None)
        self._set(task)
