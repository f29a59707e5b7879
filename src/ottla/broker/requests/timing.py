"""How long the loop is busy with a coroutine, and when it began to wait.

watch = Stopwatch(clock.monotonic_ms)
response = await timed(handler(request), watch)
watch.spent_ms                                   # the time of its steps, without what it waits in between

wait = FirstWait(clock.monotonic_ms, slow)
response = await noted(handler(request), wait)
wait.since_ms                                    # the end of its first step; None when it did not wait

`slow` hears of every step that took NOTED_MS or longer (observe/stalls.py).
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Generator
from typing import TypeVar

from ottla.broker.observe.stalls import NOTED_MS
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
    __slots__ = ("now", "since_ms", "slow")

    def __init__(self, monotonic_ms: Callable[[], float], slow: Callable[[float], None]) -> None:
        self.now = monotonic_ms
        self.slow = slow
        self.since_ms: float | None = None


@types.coroutine
def noted(
    work: Work[T] | Generator[asyncio.Future[object] | None, None, T], wait: FirstWait
) -> Generator[asyncio.Future[object] | None, None, T]:
    """Run a coroutine to its end and note when it waits for the first time, and each step that takes long."""
    now = wait.now
    try:
        while True:
            began_ms = ended_ms = now()
            try:
                waits_for = work.send(None)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                ended_ms = now()
                if ended_ms - began_ms >= NOTED_MS:
                    wait.slow(ended_ms - began_ms)
            if wait.since_ms is None:
                wait.since_ms = ended_ms
            yield waits_for
    finally:
        work.close()
