"""Runs a coroutine from its first step on, in the caller's own turn of the loop.

asyncio.Task takes the first step at the next turn. A broker cannot wait for that: two requests of one connection must
be appended in the order of their arrival, and an answer that needs no waiting should leave at once.

    running = Running(handler(request))
    if running.is_done:
        write(running.result())
    else:
        running.on_done = lambda: write(running.result())

1. Whatever the coroutine awaits is an asyncio future, as in a task. `asyncio.timeout` and `asyncio.current_task` need a
   task and do not work here; deadlines are the purgatory's.
2. `on_done` is called once, in the turn in which the last step ended.
3. `Background` is for work that nobody waits for: it is kept until it ends, and what it raises is logged.
"""

from __future__ import annotations

import asyncio
import logging
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Generic, TypeAlias, TypeGuard, TypeVar

from ottla.ordered_set import OrderedSet

log = logging.getLogger(__name__)

T = TypeVar("T")

Work: TypeAlias = Coroutine["asyncio.Future[object] | None", None, T]
"""What an `async` function returns before it is awaited."""


@types.coroutine
def next_turn() -> Generator[None, None, None]:
    """Let everybody else who is ready go first."""
    yield


def resolve(future: asyncio.Future[T], value: T) -> None:
    """Give a future its result, unless whoever awaited it was cancelled."""
    if not future.done():
        future.set_result(value)


def is_coroutine(value: T | Work[T]) -> TypeGuard[Work[T]]:
    """Whether somebody must await it: one of Python, or of a module that was compiled, which has a type of its own."""
    return hasattr(value, "send")


async def awaited(value: T | Work[T]) -> T:
    """The value, or what the coroutine returns."""
    return await value if is_coroutine(value) else value  # type: ignore[return-value]


class Running(Generic[T]):
    """A coroutine that has begun."""

    __slots__ = ("_coroutine", "_error", "_value", "_waits_for", "is_done", "on_done")

    def __init__(self, coroutine: Work[T]) -> None:
        self._coroutine = coroutine
        self._value: T | None = None
        self._error: BaseException | None = None
        self._waits_for: asyncio.Future[object] | None = None
        self.is_done = False
        self.on_done: Callable[[], object] | None = None
        self._step()

    def result(self) -> T:
        """What the coroutine returned; what it raised is raised."""
        if self._error is not None:
            raise self._error
        assert self.is_done, "ask for the result when it is done"
        return self._value  # type: ignore[return-value]  # None only where T is None

    async def wait(self) -> T:
        """The same when it is done; for one waiter."""
        if not self.is_done:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.on_done = partial(resolve, done, None)
            await done
        return self.result()

    def cancel(self) -> None:
        """Have CancelledError raised where it waits."""
        if self._waits_for is not None:
            self._waits_for.cancel()

    def _step(self, _: object = None) -> None:
        self._waits_for = None
        try:
            waits_for = self._coroutine.send(None)
        except StopIteration as end:
            self._end(end.value, None)
        except (Exception, asyncio.CancelledError) as error:
            self._end(None, error)
        else:
            if waits_for is None:
                asyncio.get_running_loop().call_soon(self._step)
            else:
                waits_for._asyncio_future_blocking = False  # as a task says: I have seen it
                self._waits_for = waits_for
                waits_for.add_done_callback(self._step)

    def _end(self, value: T | None, error: BaseException | None) -> None:
        self._value, self._error = value, error
        self.is_done = True
        on_done, self.on_done = self.on_done, None  # it often knows this object: nobody shall have to search for them
        if on_done is not None:
            on_done()


class Background:
    """Work that nobody waits for. `watched` may see every step of it (observe/stalls.py)."""

    def __init__(self, watched: Callable[[Work[None]], Work[None]] = lambda work: work) -> None:
        self._watched = watched
        self._running: OrderedSet[Running[None]] = OrderedSet()

    @property
    def is_idle(self) -> bool:
        return not self._running

    def start(self, coroutine: Work[None]) -> None:
        running = Running(self._watched(coroutine))
        if running.is_done:
            _log_failure(running)
            return
        self._running.add(running)
        running.on_done = lambda: self._ended(running)

    def _ended(self, running: Running[None]) -> None:
        self._running.discard(running)
        _log_failure(running)


def _log_failure(running: Running[None]) -> None:
    try:
        running.result()
    except asyncio.CancelledError:
        log.debug("background work was cancelled")
    except Exception:
        log.exception("background work failed")
