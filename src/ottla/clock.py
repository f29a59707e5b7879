"""Time comes in by this door: the only module that reads it.

1. `now_ms` is wall time in whole milliseconds since 1970, the unit of Kafka's timestamps. It may jump; nothing that
   must be safe depends on it.
2. `monotonic_ms` never goes back and has no meaning but its differences. It is a float, because latencies below a
   millisecond matter to us; deadlines and periods are computed with it.
3. `sleep` waits on the same time that `monotonic_ms` shows, so that a clock in tests moves both. Zero or less gives
   other tasks one turn.
4. Deciding code takes a number of milliseconds, not a clock; clocks are for the thin loops that act.

`ottla.testing.clock.ManualClock` is the twin that moves when told.
"""

from __future__ import annotations

import time
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """What a clock can do; everything that needs time takes one."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970."""

    def monotonic_ms(self) -> float:
        """Milliseconds since a moment that does not matter; never goes back."""

    async def sleep(self, duration_ms: float) -> None:
        """Wait that long; cancelling the waiting task is safe."""


class SystemClock:
    """The machine's time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1e6

    async def sleep(self, duration_ms: float) -> None:
        import asyncio  # only who waits needs it, and a command line that looks at the time does not

        await asyncio.sleep(max(0.0, duration_ms) / 1000)
