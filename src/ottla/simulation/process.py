"""A process of the simulation: a name, what it has to do next, and whether it lives.

1. Whatever runs belongs to the process in whose context it was started: tasks, timers and callbacks inherit it through
   `contextvars`, so no code has to say where it runs.
2. `kill` is kill -9: not one step more is run, no `finally`, no `except`. What the process had begun is kept until the
   simulation ends, because Python would run the `finally` blocks of a coroutine that it collects.
3. A paused process runs nothing, and its timers wait; `resume` goes on with what was due meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
from collections import deque
from collections.abc import Callable
from typing import Any, Final

CLOSE_TRIES: Final = 20
PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("ottla_simulated_process")


class Life(enum.Enum):
    """Whether a process runs."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class SimulatedHandle:
    """A call that waits for its turn; asyncio's Handle and TimerHandle."""

    __slots__ = ("_when", "args", "callback", "context", "is_cancelled", "process")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context,
        process: Process,
        when: float = 0.0,
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.process = process
        self.is_cancelled = False
        self._when = when

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        """When a timer is due, on the loop's time."""
        return self._when


class Process:
    """See the module. Made by `SimulationLoop.new_process`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = Life.RUNNING
        self.queue: deque[SimulatedHandle] = deque()
        self.is_listed = False  # the loop has it among those that have something to do
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = contextvars.Context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<process {self.name}, {self.life.value}, {len(self.queue)} steps wait>"

    @property
    def is_dead(self) -> bool:
        return self.life is Life.DEAD

    def kill(self) -> None:
        self.life = Life.DEAD
        self.queue.clear()

    def bury(self) -> None:
        """Close what was begun and killed; see 2."""
        for task in self.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # it was killed, and does not end
            coroutine = task.get_coro()
            for _ in range(CLOSE_TRIES):
                try:
                    if coroutine is not None and not task.done():
                        coroutine.close()
                    break
                except BaseException:
                    continue  # it awaits in a `finally`, or that fails in a world that is gone
        self.tasks.clear()

    def pause(self) -> None:
        if self.life is Life.RUNNING:
            self.life = Life.PAUSED

    def waiting_for(self) -> list[str]:
        """Its tasks that are not done, for whoever asks why nothing happens."""
        return [f"{self.name}: {task.get_name()} {task.get_coro()}" for task in self.tasks if not task.done()]
