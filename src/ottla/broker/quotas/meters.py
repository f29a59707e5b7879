"""One meter for each client that has a quota: what it used, how long it had to wait, and both as metrics.

    meters = Meters(PRODUCE, make=..., metrics=QuotaMetrics(registry, monotonic_ms))
    meter = meters.of(Owner("alice", ""), 1_000_000.0, now_ms)
    wait_ms = meter.charge(size_bytes, now_ms)

1. A client without a quota has no meter. All connections of the clients that share a quota share its meter.
2. A meter that was not used for an hour is forgotten, as in Kafka. There are at most METERS_LIMIT of each kind: client
   ids are what clients say, so when the table is full the tenth that was unused for longest makes room.
3. Who holds on to meters hears of it when some were forgotten, and must ask for them again: otherwise two meters would
   count for the same client.
4. Every request is charged, and nearly all of them far from the limit: then that is one addition and two comparisons,
   with the `room` that the current sample has. The arithmetic of windows is done once in a window, and near the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Final, Generic, TypeVar

from ottla.broker.quotas.limits import Owner
from ottla.broker.quotas.rate import SampledRate
from ottla.broker.quotas.token_bucket import TokenBucket
from ottla.metrics import Window

IDLE_MS: Final = 3_600_000
SWEEP_MS: Final = 60_000
METERS_LIMIT: Final = 10_000
LONGEST_WAIT_MS: Final = 2**31 - 1
"""What fits into an answer."""


class Meter:
    """What the clients that share one quota used."""

    __slots__ = ("last_used_ms", "limit", "owner", "throttled")

    def __init__(self, owner: Owner, limit: float, now_ms: float) -> None:
        self.owner = owner
        self.limit = limit
        self.last_used_ms = now_ms
        self.throttled = Window(("avg",))

    def change(self, limit: float) -> None:
        """This is the quota now; what was used stays."""
        self.limit = limit


class RateMeter(Meter):
    """One whose quota is a rate; it waits at most `longest_ms` at a time."""

    __slots__ = ("_longest_ms", "_windows_s", "at_once", "half_room", "rate", "room")

    def __init__(
        self,
        owner: Owner,
        limit: float,
        now_ms: float,
        *,
        samples: int,
        window_s: int,
        longest_ms: int = LONGEST_WAIT_MS,
    ) -> None:
        super().__init__(owner, limit, now_ms)
        self.rate = SampledRate(samples=samples, window_ms=window_s * 1000)
        self._longest_ms = longest_ms
        self._windows_s = (samples - 1) * window_s
        self.change(limit)

    def change(self, limit: float) -> None:
        super().change(limit)
        self.at_once = limit * self._windows_s
        """More than that at once is too much even for a client that used nothing before."""
        self._measure_room()

    def _measure_room(self) -> None:
        self.room = self.at_once - self.rate.before
        """As long as no more than that is in the current sample, nobody has to wait."""
        self.half_room = self.at_once / 2 - self.rate.before
        """As long as no more than that is in it, the limit is far away."""

    def charge(self, value: float, now_ms: float) -> int:
        """Count what was used; returns for how many milliseconds the client must wait now."""
        self.last_used_ms = now_ms
        rate = self.rate
        if now_ms < rate.steady_until_ms:  # as rate.record does; every request comes this way
            rate.added += value
            rate.last_ms = now_ms
            if rate.added <= self.room:
                return 0
        else:
            rate.record(value, now_ms)
        return self._wait_ms(now_ms)

    def _wait_ms(self, now_ms: float) -> int:
        self._measure_room()
        if self.rate.added <= self.room:
            return 0
        wait_ms = min(math.floor(self.rate.wait_ms(self.limit, now_ms) + 0.5), self._longest_ms)
        if wait_ms:
            self.throttled.record(wait_ms, now_ms)
        return wait_ms

    def take_back(self, value: float, now_ms: float) -> None:
        """It was charged, but not used after all."""
        self.rate.record(-value, now_ms)
        self._measure_room()


class BucketMeter(Meter):
    """One whose quota fills a bucket of tokens."""

    __slots__ = ("bucket", "rate")

    def __init__(self, owner: Owner, limit: float, now_ms: float, *, samples: int, window_s: int) -> None:
        super().__init__(owner, limit, now_ms)
        self.bucket = TokenBucket(windows_s=samples * window_s)
        self.rate = Window(("rate",))

    def spend(self, count: float, now_ms: float) -> None:
        self.last_used_ms = now_ms
        self.rate.record(count, now_ms)
        self.bucket.spend(count, self.limit, now_ms)

    def wait_ms(self, now_ms: float) -> int:
        """Until there are tokens again; 0 when there are."""
        return min(math.floor(self.bucket.wait_ms(self.limit, now_ms) + 0.5), LONGEST_WAIT_MS)


M = TypeVar("M", bound=Meter)


class Meters(Generic[M]):
    """All meters of one kind of quota."""

    def __init__(
        self,
        make: Callable[[Owner, float, float], M],
        *,
        shown: Callable[[M], None],
        hidden: Callable[[Iterable[Owner]], None],
        limit: int = METERS_LIMIT,
    ) -> None:
        """`make` is given the owner, the quota and the time; `shown` and `hidden` keep the metrics."""
        self._make = make
        self._shown = shown
        self._hidden = hidden
        self._limit = limit
        self._meters: dict[Owner, M] = {}
        self._swept_ms = -math.inf

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, owner: Owner, limit: float, now_ms: float) -> M:
        """The meter of those who share a quota, made when they first come."""
        known = self._meters.get(owner)
        if known is None:
            known = self._meters[owner] = self._make(owner, limit, now_ms)
            self._shown(known)
        known.last_used_ms = now_ms
        return known

    def retain(self, limit_of: Callable[[Owner], float | None]) -> None:
        """Quotas were changed: meters go on with what they counted; those without a quota go."""
        gone = []
        for owner, meter in self._meters.items():
            limit = limit_of(owner)
            if limit is None:
                gone.append(owner)
            else:
                meter.change(limit)
        self._forget(gone)

    def sweep(self, now_ms: float) -> bool:
        """Forget who was idle for long, and make room; says whether somebody must ask for meters again."""
        if len(self._meters) < self._limit and now_ms - self._swept_ms < SWEEP_MS:
            return False
        self._swept_ms = now_ms
        gone = [owner for owner, meter in self._meters.items() if now_ms - meter.last_used_ms >= IDLE_MS]
        if len(self._meters) - len(gone) >= self._limit:
            oldest = nsmallest(self._limit // 10 + 1, self._meters.values(), key=lambda meter: meter.last_used_ms)
            gone = [meter.owner for meter in oldest]
        self._forget(gone)
        return bool(gone)

    def _forget(self, owners: list[Owner]) -> None:
        for owner in owners:
            del self._meters[owner]
        if owners:
            self._hidden(owners)
