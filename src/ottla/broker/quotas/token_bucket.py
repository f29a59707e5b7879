"""Tokens that flow in at a steady rate up to a limit, as in Kafka's quota for changes of topics (KIP-599).

    bucket = TokenBucket(windows_s=11)      # holds what comes in 11 seconds
    bucket.spend(20, rate=5, now_ms=now)    # may go below zero: who has any may spend as many as he likes
    bucket.wait_ms(5, now)                  # until it is back at zero

A window of samples suits bursts badly: one burst keeps the rate up until its sample leaves. A bucket is back at zero as
soon as the tokens have come in.
"""

from __future__ import annotations

import math


class TokenBucket:
    """It begins full. The rate is told at every call, as it may be changed meanwhile."""

    __slots__ = ("_tokens", "_updated_ms", "_windows_s")

    def __init__(self, *, windows_s: float) -> None:
        self._windows_s = windows_s
        self._tokens = math.inf
        self._updated_ms = 0.0

    def tokens(self, rate: float, now_ms: float) -> float:
        """How many are in it."""
        grown = self._tokens + rate * (now_ms - self._updated_ms) / 1000
        self._tokens = min(rate * self._windows_s, grown)
        self._updated_ms = now_ms
        return self._tokens

    def spend(self, count: float, rate: float, now_ms: float) -> None:
        self._tokens = min(rate * self._windows_s, self.tokens(rate, now_ms) - count)

    def wait_ms(self, rate: float, now_ms: float) -> float:
        """Until it is not below zero; 0 when it is not."""
        tokens = self.tokens(rate, now_ms)
        return -tokens / rate * 1000 if tokens < 0 else 0.0
