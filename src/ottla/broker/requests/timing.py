"""How long the loop is busy with a coroutine, and when it began to wait.

watch = Stopwatch(clock.monotonic_ms)
response = await timed(handler(request), watch)
watch.spent_ms                                   # the time of its steps, without what it waits in between

wait = FirstWait(clock.monotonic_ms)
response = await noted(handler(request), wait)
wait.since_ms                                    # the end of its first step; None when it did not wait
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Generator
from typing import TypeVar

from ottla.broker.requests.running import Work

T = TypeVar("T")


class Stopwatch:
    __slots__ = ("now", "spent_ms")

    def __init__(self, monotonic_ms: Callable[[], float], spent_ms: float = 0.0) -> None:
        self.now = monotonic_ms
        self.spent_ms = spent_ms


@types.coroutine
def timed(work: Work[T], watch: Stopwatch) -> Generator[asyncio.Future[object] | None, None, T]:
    """Run a coroutine to its end and add up how long its steps take."""
    try:
        while True:
            began_ms = watch.now()
            try:
                waits_for = work.send(None)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                watch.spent_ms += watch.now() - began_ms
            yield waits_for
    finally:
        work.close()


class FirstWait:
    __slots__ = ("now", "since_ms")

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self.now = monotonic_ms
        self.since_ms: float | None = None


@types.coroutine
def noted(
    work: Work[T] | Generator[asyncio.Future[object] | None, None, T], wait: FirstWait
) -> Generator[asyncio.Future[object] | None, None, T]:
    """Run a coroutine to its end and note when it waits for the first time."""
    try:
        try:
            waits_for = work.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        wait.since_ms = wait.now()
        yield waits_for
        rest: T = yield from work  # type: ignore[misc]  # a coroutine may be run so by a coroutine
        return rest
    finally:
        work.close()
