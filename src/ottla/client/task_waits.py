"""How a consumer of either kind lives and waits when its caller is a task: on the caller's own loop, without a thread.

thread_waits.py has the same names for a caller that is a thread. What both callers want is one text: */async_calls.py.

1. Nothing is connected before the first call that is awaited, or `async with`.
2. The client's loop is the caller's: what the client has to do is awaited, and what need not be waited for is done.
3. A time-out throws an exception into the task that waits. A timer that is news too costs less.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from ottla.client.deadline import Deadline
from ottla.client.loop import ForkedClient

T = TypeVar("T")


class TaskWaits:
    """The part of an asyncio consumer that waits."""

    # The core and the settings of either kind: its own class says which.
    _core: Any
    _settings: Any
    _closed: bool

    def _prepare_to_wait(self) -> None:
        self._news = asyncio.Event()
        self._polling = threading.Lock()
        self._woken = False
        self._starting: asyncio.Task[None] | None = None
        self._process_id = os.getpid()

    def _check_usable(self) -> None:
        raise NotImplementedError

    # --- life ---

    async def start(self) -> Self:
        """Begin; every other call does it too if need be."""
        self._check_usable()
        if self._process_id != os.getpid():
            raise ForkedClient(f"{self._settings.client_id} in process {os.getpid()}")
        loop = asyncio.get_running_loop()
        if self._starting is None:
            self._starting = loop.create_task(self._start())
        self._check_loop(self._starting, loop)
        if not self._starting.done():
            await asyncio.shield(self._starting)
        self._starting.result()
        return self

    _ready = start

    async def _start(self) -> None:
        """Start the core and read the topics of the constructor."""
        raise NotImplementedError

    def _check_loop(self, starting: asyncio.Task[None], loop: asyncio.AbstractEventLoop) -> None:
        if starting.get_loop() is not loop:
            raise RuntimeError(f"{self._settings.client_id} belongs to another event loop; make one for this loop")

    async def __aenter__(self) -> Self:
        return await self.start()

    async def _has_begun(self) -> bool:
        """Whether close() has something to end. A start that is on its way is waited for."""
        if self._starting is None or self._process_id != os.getpid():
            return False
        self._check_loop(self._starting, asyncio.get_running_loop())
        await asyncio.wait((self._starting,))
        return True

    async def _end(self, deadline: Deadline) -> None:
        await self._core.close(deadline.left_ms())
        self._news.set()

    # --- waiting ---

    def _wake(self) -> None:
        # Before the start there is nobody to wake; the start looks at everything anyway.
        if self._starting is not None and self._starting.done():
            self._core.wake()

    def _run(self, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Have the client's loop do it, and wait."""
        return work

    def _soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Have the client's loop do it, without waiting."""
        call(*arguments)

    def _give_turn(self) -> Coroutine[Any, Any, None]:
        """Let other tasks have their turn, also when nothing has to be waited for."""
        turn: Coroutine[Any, Any, None] = self._core.clock.sleep(0)
        return turn

    async def _wait_for_news(self, limit_ms: float) -> None:
        timer = self._core.clock.call_later(limit_ms, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    async def _finish(self, outcome: Any) -> None:
        """What a callback of the user's gave may be something to await."""
        if inspect.isawaitable(outcome):
            await outcome
