"""Times in log buckets: as cheap to record as a counter, and read as quantiles when somebody asks.

    times = Times()
    times.record(0.35)                       # the hot path: one bisection and two additions
    spread = Spread(lambda: [times])         # an instrument of the registry: quantiles, _count and _sum

1. STEPS buckets per doubling from a microsecond to nearly 18 minutes, the same for all: a quantile is within 1/16 of
   the truth. Less than a microsecond is 0, more than the last bound is the last bound.
2. Nothing is thrown away while times are recorded. Quantiles are of the last one to two windows if somebody reads at
   least once a window, else of the time since the reading before: readers leave marks, and several disturb nobody.
3. Time is an argument, in monotonic milliseconds.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import add, sub
from typing import Final

from ottla.metrics import Reading, quantile_label

STEPS: Final = 8
DOUBLINGS: Final = 30
BOUNDS: Final = tuple(0.001 * 2 ** (step / STEPS) for step in range(STEPS * DOUBLINGS + 1))
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
WINDOW_MS: Final = 300_000.0


class Times:
    """How often something took how long."""

    __slots__ = ("counts", "total_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total_ms = 0.0

    def record(self, took_ms: float, count: int = 1) -> None:
        """It took so long, `count` times."""
        self.counts[bisect_right(BOUNDS, took_ms)] += count
        self.total_ms += took_ms * count

    @property
    def count(self) -> int:
        return sum(self.counts)


def added(several: Iterable[Times], zeros: int = 0) -> Times:
    """All of them together, and how often it took no time at all."""
    result = Times()
    for each in several:
        result.counts = list(map(add, result.counts, each.counts))
        result.total_ms += each.total_ms
    result.counts[0] += zeros
    return result


class Spread:
    """Quantiles of the recent past, with lifetime count and sum; `read` returns the times as they are now."""

    __slots__ = ("_before", "_last", "_last_ms", "read")

    def __init__(self, read: Callable[[], Iterable[Times]] = tuple) -> None:
        self.read = read
        self._before: Sequence[int] = ()
        self._last: Sequence[int] = ()
        self._last_ms = -math.inf

    def readings(self, now_ms: float) -> Iterator[Reading]:
        times = added(self.read())
        recent = self._recent(times.counts, now_ms)
        ranks = list(accumulate(recent))
        for share in QUANTILES:
            value = _at_rank(ranks, math.ceil(share * ranks[-1]))
            yield Reading("", "", "summary", value, quantile=quantile_label(share))
        yield Reading("", "", "summary", round(times.total_ms, 6), part="_sum")
        yield Reading("", "", "summary", times.count, part="_count")

    def _recent(self, counts: Sequence[int], now_ms: float) -> Sequence[int]:
        """What was recorded since a mark that is at least a window old; nothing is marked at the first reading."""
        if now_ms - self._last_ms >= WINDOW_MS:
            self._before = self._last
            self._last, self._last_ms = counts, now_ms
        return list(map(sub, counts, self._before)) if self._before else counts


def _at_rank(ranks: Sequence[int], rank: int) -> float:
    """The middle of the bucket that the value of this rank is in; NaN when there are none."""
    if not ranks[-1]:
        return math.nan
    at = next(index for index, up_to in enumerate(ranks) if up_to >= max(rank, 1))
    if at == 0:
        return 0.0
    return BOUNDS[-1] if at == len(BOUNDS) else math.sqrt(BOUNDS[at - 1] * BOUNDS[at])
