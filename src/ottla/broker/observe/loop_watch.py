"""How busy the loop is, while somebody reads metrics.

1. Idle is the share of time in which the loop's thread used no processor: it waited for the network, for a disk, or for
   a processor of a machine that is too busy. It costs nothing but a look at each reading.
2. Lag is how late the loop comes to what is due, which is what a request waits that arrives just then. It is looked at
   every PERIOD_MS, from the first reading until nobody has read for SLEEP_AFTER_MS: a broker that nobody watches has no
   such timer.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.observe.time_buckets import Times
from ottla.clock import Clock, Timer, thread_cpu_ms

PERIOD_MS: Final = 250.0
SLEEP_AFTER_MS: Final = 600_000.0
WINDOW_MS: Final = 15_000.0


class LoopWatch:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lags = Times()
        self.lag_ms = 0.0
        self.idle_share = 1.0
        self._timer: Timer | None = None
        self._due_ms = 0.0
        self._read_ms = 0.0
        # Processor time and time: at the start, and at the last mark.
        self._start = self._mark = (thread_cpu_ms(), clock.monotonic_ms())

    @property
    def idle_ns(self) -> int:
        """Nanoseconds since the start in which the loop's thread used no processor."""
        used_ms, elapsed_ms = self._since(self._start)
        return int(max(0.0, elapsed_ms - used_ms) * 1_000_000)

    def read(self) -> None:
        """Somebody reads, on the loop."""
        self._read_ms = self._clock.monotonic_ms()
        used_ms, elapsed_ms = self._since(self._mark)
        if elapsed_ms > 0:
            self.idle_share = min(1.0, max(0.0, 1 - used_ms / elapsed_ms))
        if elapsed_ms >= WINDOW_MS:
            self._mark = (thread_cpu_ms(), self._read_ms)
        if self._timer is None:
            self._plan()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _since(self, mark: tuple[float, float]) -> tuple[float, float]:
        return thread_cpu_ms() - mark[0], self._clock.monotonic_ms() - mark[1]

    def _plan(self) -> None:
        self._due_ms = self._clock.monotonic_ms() + PERIOD_MS
        self._timer = self._clock.call_later(PERIOD_MS, self._sample)

    def _sample(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self.lag_ms = max(0.0, now_ms - self._due_ms)
        self.lags.record(self.lag_ms)
        if now_ms - self._read_ms < SLEEP_AFTER_MS:
            self._plan()
        else:
            self._timer = None
