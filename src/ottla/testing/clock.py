"""A clock that moves when told, so that no test sleeps.

1. `advance` moves wall and monotonic time together; sleepers wake in the order of their deadlines, and those with
   the same deadline in the order they went to sleep.
2. While `advance` is under way the clock shows the deadline of the sleeper it is waking, and the tasks woken get
   their turns before time moves on. So a job that sleeps 10 ms again and again runs exactly ten times in 100 ms.
3. `jump_wall` moves only wall time, backwards if you like: what an administrator or a leap second does.
4. The same calls give the same order of events every time; nothing depends on the machine's speed.

It belongs to one event loop; deciding code under test can read it without any loop.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

# A woken task may wake others (a queue, a future), each link of that chain costing one turn of the loop.
# Chains longer than this go on after time has moved; nothing is lost, only their reading of the clock is later.
TURNS_PER_WAKE: Final = 20
WAKES_PER_ADVANCE: Final = 1_000_000


class ManualTimer:
    """A call that `advance` makes when its time has come."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.loop = asyncio.get_running_loop()
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def call(self) -> None:
        if not self.is_cancelled:
            self.callback()


class ManualClock:
    """Stands still until `advance` is awaited, or `move` is called outside a loop."""

    def __init__(self, now_ms: int = 1_700_000_000_000, monotonic_ms: float = 0.0) -> None:
        self._wall_offset_ms = now_ms - monotonic_ms
        self._monotonic_ms = monotonic_ms
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._timers: list[tuple[float, int, ManualTimer]] = []
        self._slept = 0

    def now_ms(self) -> int:
        return int(self._monotonic_ms + self._wall_offset_ms)

    def monotonic_ms(self) -> float:
        return self._monotonic_ms

    async def sleep(self, duration_ms: float) -> None:
        if duration_ms <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._slept += 1
        heapq.heappush(self._sleepers, (self._monotonic_ms + duration_ms, self._slept, woken))
        await woken

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> ManualTimer:
        """`advance` calls it, or the loop's next turn when it is due at once; `move` does not, having no loop."""
        timer = ManualTimer(callback)
        if delay_ms <= 0:
            timer.loop.call_soon(timer.call)
            return timer
        self._slept += 1
        heapq.heappush(self._timers, (self._monotonic_ms + max(0.0, delay_ms), self._slept, timer))
        return timer

    @asynccontextmanager
    async def timeout(self, limit_ms: float | None) -> AsyncIterator[None]:
        task = asyncio.current_task()
        assert task is not None, "only a task can be interrupted"
        if limit_ms is None:
            yield
            return
        is_over = False

        def interrupt() -> None:
            nonlocal is_over
            is_over = task.cancel()

        timer = self.call_later(limit_ms, interrupt)
        try:
            yield
        except asyncio.CancelledError:
            if is_over and not task.uncancel():
                raise TimeoutError(f"not done within {limit_ms} ms") from None
            raise
        finally:
            timer.cancel()

    @property
    def sleeper_count(self) -> int:
        """How many tasks are asleep now; a cancelled sleeper is not."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    @property
    def next_wake_ms(self) -> float | None:
        """Monotonic time at which the next sleeper wakes; None when nobody sleeps."""
        self._drop_cancelled()
        return self._sleepers[0][0] if self._sleepers else None

    async def advance(self, duration_ms: float) -> None:
        """Move time forward, waking everybody on the way."""
        if duration_ms < 0:
            raise ValueError(f"monotonic time never goes back; use jump_wall({duration_ms}) for wall time")
        target_ms = self._monotonic_ms + duration_ms
        await self._give_turns()
        for _ in range(WAKES_PER_ADVANCE):
            if not self._wake_next(target_ms):
                break
            await self._give_turns()
        else:
            raise RuntimeError(f"{WAKES_PER_ADVANCE} wake-ups in one advance: some task sleeps for almost no time")
        self._monotonic_ms = target_ms
        await self._give_turns()

    def move(self, duration_ms: float) -> None:
        """Move time forward for code without a loop; ValueError when that would pass a sleeper."""
        target_ms = self._monotonic_ms + duration_ms
        wake_ms = self.next_wake_ms
        if duration_ms < 0 or (wake_ms is not None and wake_ms <= target_ms):
            raise ValueError("somebody sleeps until then, or time would go back; await advance() instead")
        self._monotonic_ms = target_ms

    def jump_wall(self, duration_ms: float) -> None:
        """Set wall time forward or, with a negative number, back; monotonic time and sleepers do not notice."""
        self._wall_offset_ms += duration_ms

    def _wake_next(self, target_ms: float) -> bool:
        wake_ms = self.next_wake_ms
        while self._timers and self._timers[0][2].is_cancelled:
            heapq.heappop(self._timers)
        if self._timers and self._timers[0][0] <= min(target_ms, target_ms if wake_ms is None else wake_ms):
            due_ms, _, timer = heapq.heappop(self._timers)
            self._monotonic_ms = max(self._monotonic_ms, due_ms)
            timer.loop.call_soon(timer.call)
            return True
        if wake_ms is None or wake_ms > target_ms:
            return False
        _, _, woken = heapq.heappop(self._sleepers)
        self._monotonic_ms = max(self._monotonic_ms, wake_ms)
        woken.set_result(None)
        return True

    def _drop_cancelled(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)

    async def _give_turns(self) -> None:
        for _ in range(TURNS_PER_WAKE):
            await asyncio.sleep(0)
