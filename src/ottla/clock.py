"""Time comes in by this door: the only module that reads it.

1. `now_ms` is wall time in whole milliseconds since 1970, the unit of Kafka's timestamps. It may jump; nothing that
   must be safe depends on it.
2. `monotonic_ms` never goes back and has no meaning but its differences. It is a float, because latencies below a
   millisecond matter to us; deadlines and periods are computed with it.
3. `sleep` waits on the same time that `monotonic_ms` shows, so that a clock in tests moves both. Zero or less gives
   other tasks one turn.
4. `call_later` and `timeout` run on the same time. Nobody asks the event loop for time: so a clock of a test, or of a
   simulation, moves everything.
5. Processor time is for metrics only, and no clock of a test moves it.
6. Deciding code takes a number of milliseconds, not a clock; clocks are for the thin loops that act.

`ottla.testing.clock.ManualClock` is the twin that moves when told.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable


class Timer(Protocol):
    """A call that will be made, unless it is cancelled before."""

    def cancel(self) -> None: ...


@runtime_checkable
class Clock(Protocol):
    """What a clock can do; everything that needs time takes one."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970."""

    def monotonic_ms(self) -> float:
        """Milliseconds since a moment that does not matter; never goes back."""

    async def sleep(self, duration_ms: float) -> None:
        """Wait that long; cancelling the waiting task is safe."""

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """Call it on the running loop after that time."""

    def timeout(self, limit_ms: float | None) -> AbstractAsyncContextManager[Any]:
        """`async with clock.timeout(100):` raises TimeoutError when the block takes longer; None is no limit."""


class SystemClock:
    """The machine's time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1e6

    async def sleep(self, duration_ms: float) -> None:
        import asyncio  # only who waits needs it, and a command line that looks at the time does not

        await asyncio.sleep(max(0.0, duration_ms) / 1000)

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        import asyncio

        return asyncio.get_running_loop().call_later(max(0.0, delay_ms) / 1000, callback)

    def timeout(self, limit_ms: float | None) -> AbstractAsyncContextManager[Any]:
        import asyncio

        return asyncio.timeout(None if limit_ms is None else limit_ms / 1000)


def thread_cpu_ms() -> float:
    """Milliseconds of processor time that the calling thread has used."""
    return time.thread_time_ns() / 1e6


def process_cpu_ms() -> float:
    """Milliseconds of processor time that the process has used, its own and the system's for it."""
    return time.process_time_ns() / 1e6
