"""The clock of one simulated machine: the loop's time, with wall time that may jump and a rate that may drift.

1. `monotonic_ms`, `sleep`, `call_later` and `timeout` run on the same time, as ottla/clock.py promises.
2. `jump_wall` moves wall time only, in either direction.
3. With a `rate` of 1.01 a machine's seconds are one per cent shorter than those of the others. `set_rate` changes it
   from now on: no time jumps, and timers that run already stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from ottla.clock import Timer
from ottla.simulation.loop import SimulationLoop

FIRST_MS: Final = 1_700_000_000_000


class SimulatedClock:
    """See the module; `ottla.clock.Clock`."""

    def __init__(self, loop: SimulationLoop, *, rate: float = 1.0, wall_offset_ms: float = 0.0) -> None:
        self._loop = loop
        self._rate = rate
        self._since_s = 0.0  # the rate is as it is since then
        self._since_ms = 0.0  # what the clock showed then
        self._right_ms = self._wall_ms = FIRST_MS + wall_offset_ms

    def now_ms(self) -> int:
        return int(self.monotonic_ms() + self._wall_ms)

    def monotonic_ms(self) -> float:
        return self._since_ms + (self._loop.now_s - self._since_s) * 1000 * self._rate

    async def sleep(self, duration_ms: float) -> None:
        await asyncio.sleep(self._loop_s(duration_ms))

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        timer: Timer = self._loop.call_later(self._loop_s(delay_ms), callback)
        return timer

    def timeout(self, limit_ms: float | None) -> AbstractAsyncContextManager[Any]:
        return asyncio.timeout(None if limit_ms is None else self._loop_s(limit_ms))

    def jump_wall(self, duration_ms: float) -> None:
        """Set wall time forward or back; nothing else notices."""
        self._wall_ms += duration_ms

    def set_right(self) -> None:
        """Somebody repairs wall time: it is what it would be if it had never jumped."""
        self._wall_ms = self._right_ms

    def set_rate(self, rate: float) -> None:
        """Run faster or slower from now on."""
        self._since_ms = self.monotonic_ms()
        self._since_s = self._loop.time()
        self._rate = rate

    def _loop_s(self, duration_ms: float) -> float:
        return max(0.0, duration_ms) / 1000 / self._rate
