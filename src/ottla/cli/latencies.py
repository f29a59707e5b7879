"""Latencies gathered for a report: how many, mean, worst, and percentiles, in bounded memory.

A latency is counted in a bucket of its value rounded to three digits, so a percentile is off by at most one part in a
hundred however many there were.
"""

from __future__ import annotations

import math


class Latencies:
    """Counts of latencies in milliseconds."""

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0.0
        self.max_ms = 0.0
        self._buckets: dict[float, int] = {}

    def add(self, latency_ms: float, times: int = 1) -> None:
        self.count += times
        self.total_ms += latency_ms * times
        self.max_ms = max(self.max_ms, latency_ms)
        bucket = _rounded(latency_ms)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + times

    @property
    def mean_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0

    def percentile(self, share: float) -> float:
        """The latency that `share` of all are at or below."""
        rank = math.ceil(share * self.count)
        for bucket in sorted(self._buckets):
            rank -= self._buckets[bucket]
            if rank <= 0:
                return bucket
        return self.max_ms


def _rounded(latency_ms: float) -> float:
    if latency_ms <= 0:
        return 0.0
    digits = 2 - math.floor(math.log10(latency_ms))
    return round(latency_ms, digits)
