"""The moment by which a call must be done, on the client's own clock.

A call makes one when it begins and passes it on, so that all its steps share one limit. What is left is never negative.
"""

from __future__ import annotations

from ottla.clock import Clock


class Deadline:
    """So many milliseconds from now."""

    __slots__ = ("_at_ms", "_clock")

    def __init__(self, clock: Clock, limit_ms: float) -> None:
        self._clock = clock
        self._at_ms = clock.monotonic_ms() + limit_ms

    @property
    def is_over(self) -> bool:
        return self._clock.monotonic_ms() >= self._at_ms

    def left_ms(self) -> float:
        return max(0.0, self._at_ms - self._clock.monotonic_ms())

    def left_s(self) -> float:
        """For waits of threads, which count in seconds."""
        return self.left_ms() / 1000
