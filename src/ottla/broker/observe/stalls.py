"""What held the loop, and for how long: one loop serves everybody, so whoever holds it lets everybody wait.

1. Requests (each step of a handler), jobs and background work are measured where they run, which costs two looks at the
   clock a step. Only what took NOTED_MS comes here.
2. A tick every TICK_MS finds what nobody measured: it comes late. It runs on a real clock only (`watch`).
3. From WARNING_MS on it is a WARNING with the cause and the processor time of the loop's thread: without any it was the
   disk, the machine or a pause of the process, and no work of ours. At most one in QUIET_MS for each cause. The longest
   of each cause and their number are metrics; there are CAUSES_LIMIT causes at most, the rest is OTHER.
"""

from __future__ import annotations

import logging
from typing import Final

from ottla.clock import Clock, Timer, thread_cpu_ms

NOTED_MS: Final = 50.0
WARNING_MS: Final = 200.0
TICK_MS: Final = 100.0
QUIET_MS: Final = 10_000.0
CAUSES_LIMIT: Final = 200
OTHER: Final = "other work"

log = logging.getLogger(__name__)


class Stalls:
    """Owned by the loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.longest_ms: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self._said_ms: dict[str, float] = {}
        self._noted_ms = float("-inf")
        self._timer: Timer | None = None
        self._due_ms = self._cpu_ms = 0.0

    def note(self, cause: str, took_ms: float, who: str = "") -> None:
        """Something held the loop for so long; `who` says for whom, as far as that is known."""
        now_ms = self._noted_ms = self._clock.monotonic_ms()
        if cause not in self.longest_ms and len(self.longest_ms) >= CAUSES_LIMIT:
            cause = OTHER
        self.longest_ms[cause] = max(self.longest_ms.get(cause, 0.0), took_ms)
        if took_ms < WARNING_MS:
            return
        self.counts[cause] = self.counts.get(cause, 0) + 1
        if now_ms - self._said_ms.get(cause, float("-inf")) >= QUIET_MS:
            self._said_ms[cause] = now_ms
            log.warning(
                "%s%s held the loop for %.0f ms%s; everybody else waited meanwhile",
                cause,
                who,
                took_ms,
                self._cpu(took_ms),
            )

    def _cpu(self, took_ms: float) -> str:
        """How much of it was work, at most: the rest is the disk, the machine, or a pause of the process. Known to a
        tick, and only while it ticks."""
        if self._timer is None:
            return ""
        return f" ({min(took_ms, thread_cpu_ms() - self._cpu_ms):.0f} ms of CPU)"

    # -- what nobody measures ----------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Begin to tick."""
        self._due_ms = self._clock.monotonic_ms() + TICK_MS
        self._cpu_ms = thread_cpu_ms()
        self._timer = self._clock.call_later(TICK_MS, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        late_ms = self._clock.monotonic_ms() - self._due_ms
        if late_ms >= NOTED_MS and self._noted_ms < self._due_ms - TICK_MS:
            self.note(OTHER, late_ms)
        self.watch()
