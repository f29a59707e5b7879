"""Cheap deadlines: thousands of them are set every second, and nearly all are cancelled before they fire.

Deadlines are rounded up to a tick and kept in a bucket per tick; a heap holds one entry per bucket in use. So setting
a timer is a dict access and sometimes a heap push, cancelling is a dict removal, and only buckets are sorted. (Kafka's
wheel has fixed slots in several levels for the same effect; a dict of buckets needs no levels.)

1. A timer fires at or after its deadline, at most one tick late as far as the wheel is concerned, in order of ticks.
2. A key has one timer; setting it again replaces it.
3. No clock inside: `pop_due(now_ms)` gets the time as an argument.
4. Memory follows the timers that are set: a timer that is moved on again and again for days (the expiration of a
   transactional id) leaves no empty bucket behind for each of its moves.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

TICK_MS: Final = 10
EMPTY_LIMIT: Final = 64


class TimerWheel(Generic[K]):
    def __init__(self, tick_ms: int = TICK_MS, empty_limit: int = EMPTY_LIMIT) -> None:
        self._tick_ms = tick_ms
        self._empty_limit = empty_limit
        self._buckets: dict[int, dict[K, None]] = {}
        self._bucket_of: dict[K, int] = {}
        self._heap: list[int] = []

    def __len__(self) -> int:
        return len(self._bucket_of)

    def __contains__(self, key: object) -> bool:
        return key in self._bucket_of

    def set(self, key: K, at_ms: float) -> bool:
        """Set or replace a timer; True when it may be the next to fire."""
        tick = -int(-at_ms // self._tick_ms)  # rounded up
        if self._bucket_of.get(key) == tick:
            return False
        self.cancel(key)
        is_next = not self._heap or tick < self._heap[0]
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = {}
            heapq.heappush(self._heap, tick)
        bucket[key] = None
        self._bucket_of[key] = tick
        return is_next

    def cancel(self, key: K) -> bool:
        """Forget a timer; False when there was none. Its bucket stays, empty or not, until there are too many."""
        tick = self._bucket_of.pop(key, None)
        if tick is None:
            return False
        del self._buckets[tick][key]
        if len(self._heap) > 2 * len(self._bucket_of) + self._empty_limit:
            self._drop_empty()
        return True

    def _drop_empty(self) -> None:
        self._buckets = {tick: bucket for tick, bucket in self._buckets.items() if bucket}
        self._heap = sorted(self._buckets)

    def next_due_ms(self) -> int | None:
        """When the next timer is due; empty buckets are dropped on the way."""
        while self._heap:
            tick = self._heap[0]
            if self._buckets[tick]:
                return tick * self._tick_ms
            heapq.heappop(self._heap)
            del self._buckets[tick]
        return None

    def pop_due(self, now_ms: float) -> list[K]:
        due: list[K] = []
        while self._heap and self._heap[0] * self._tick_ms <= now_ms:
            bucket = self._buckets.pop(heapq.heappop(self._heap))
            for key in bucket:
                del self._bucket_of[key]
            due.extend(bucket)
        return due
