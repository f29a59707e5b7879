"""One alarm for everything in a broker that has a deadline: purgatories and the timers of coordinators.

A caller that sets a deadline calls `arm`. The alarm rings at the earliest one, everybody expires what is due, and it is
set again. All count in monotonic time: a wall clock that jumps must not end everything that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.clock import Clock, Timer


class HasDeadlines(Protocol):
    def next_due_ms(self) -> int | None: ...
    def expire_due(self, now_ms: float) -> object: ...


class Deadlines:
    """`waiting` returns what has deadlines; it is called each time, because coordinators come later."""

    def __init__(self, clock: Clock, waiting: Callable[[], Sequence[HasDeadlines]]) -> None:
        self._clock = clock
        self._waiting = waiting
        self._alarm: Timer | None = None
        self._alarm_ms = 0.0

    def arm(self) -> None:
        """Have `ring` called when the next deadline comes. Called whenever a new one may have been set."""
        due_in_ms = self._due_in_ms()
        if due_in_ms is None:
            return
        due_ms = self._clock.monotonic_ms() + due_in_ms
        if self._alarm is not None:
            if self._alarm_ms <= due_ms:
                return
            self._alarm.cancel()
        self._alarm_ms = due_ms
        self._alarm = self._clock.call_later(due_in_ms, self.ring)

    def ring(self) -> None:
        """Expire what is due."""
        self._alarm = None
        for each in self._waiting():
            each.expire_due(self._clock.monotonic_ms())
        self.arm()

    def cancel(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def _due_in_ms(self) -> float | None:
        now_ms = self._clock.monotonic_ms()
        waits = [due - now_ms for each in self._waiting() if (due := each.next_due_ms()) is not None]
        return min(waits, default=None)
