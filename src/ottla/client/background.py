"""What goes on in the background of a consumer of either kind: steps, tasks, and what waits for the caller.

1. A step does what is due and says when the next one is. It is made then, or when somebody calls `wake`.
2. What a step begins ends with the consumer (`spawn`).
3. What only the caller may do waits in `attention` until its next call; `fail` puts an error there. `news` is called on
   the loop then: a poll that waits looks again.
"""

from __future__ import annotations

import abc
import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.clock import Clock
from ottla.ordered_set import OrderedSet


class Background(abc.ABC):
    """See above. Belongs to the loop, but for `wake_from_caller`."""

    def __init__(self, clock: Clock, news: Callable[[], None], wake_loop: Callable[[], None]) -> None:
        """`wake_loop` makes the loop call `wake`, from any thread."""
        self.clock = clock
        self.attention: deque[Any] = deque()
        self._news, self._wake_loop = news, wake_loop
        self._awake = asyncio.Event()
        self._tasks: OrderedSet[asyncio.Task[Any]] = OrderedSet()
        self._keeper: asyncio.Task[None] | None = None

    @abc.abstractmethod
    def _step(self) -> float:
        """Do what is due; returns the time of the next thing that is not waited for otherwise."""

    def _start_steps(self, name: str) -> None:
        self._keeper = asyncio.get_running_loop().create_task(self._keep_going(), name=name)

    async def _end_tasks(self) -> None:
        """Nothing runs any more."""
        tasks = [task for task in (self._keeper, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """Look again at what is to do. On the loop."""
        self._awake.set()

    def wake_from_caller(self) -> None:
        self._wake_loop()

    async def _keep_going(self) -> None:
        while True:
            self._awake.clear()
            wait_until_ms = self._step()
            if wait_until_ms == math.inf:
                await self._awake.wait()
                continue
            timer = self.clock.call_later(wait_until_ms - self.clock.monotonic_ms(), self._awake.set)
            try:
                await self._awake.wait()
            finally:
                timer.cancel()

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """A task that ends with the consumer."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def fail(self, error: Exception) -> None:
        """The next poll raises this; the same kind of error is not queued twice."""
        if not any(type(error) is type(other) for other in self.attention):
            self.attention.append(error)
        self._news()
