"""Threads of a simulated process: work begins after a drawn time, is done in one step, and is heard of later.

1. There are as many workers as a pool would have; who finds none free waits for the first that will be.
2. What a worker does is one step at one moment: nobody sees half of it, but everything can happen before and after it.
3. A process that is killed takes its workers along: work that had not begun is never done.
4. `map` and `submit`, for who blocks until the work is done, do it at once.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from ottla.simulation.loop import SimulationLoop

T = TypeVar("T")

SLOW_S: Final = 0.020


class SimulatedExecutor(Executor):
    """See the module. `slow_s` says how long one piece of work takes at most; most are far shorter."""

    def __init__(
        self, loop: SimulationLoop, random: Random, *, workers: int, slow_s: Callable[[], float] = lambda: SLOW_S
    ) -> None:
        self._loop = loop
        self._random = random
        self._free_at_s = [0.0] * workers
        self._is_shut = False
        self._slow_s = slow_s

    def start(self, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Do it on a worker; what `loop.run_in_executor` calls."""
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        answer: asyncio.Future[T] = self._loop.create_future()
        begin_s = max(self._loop.time(), heapq.heappop(self._free_at_s)) + self._drawn_s() / 4
        end_s = begin_s + self._drawn_s()
        heapq.heappush(self._free_at_s, end_s)
        self._loop.call_at(begin_s, self._work, answer, end_s, function, arguments)
        return answer

    def _drawn_s(self) -> float:
        """Mostly short, sometimes long."""
        return self._slow_s() * self._random.random() ** 4

    def _work(
        self, answer: asyncio.Future[T], end_s: float, function: Callable[..., T], arguments: tuple[Any, ...]
    ) -> None:
        try:
            self._loop.call_at(end_s, _complete, answer, function(*arguments))
        except Exception as error:
            self._loop.call_at(end_s, _fail, answer, error)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        return map(fn, *iterables)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_shut = True


def _complete(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
