"""The recent past of this broker: a sample every STEP_MS, kept for a quarter of an hour, so that a page that is opened
now shows what was before.

1. A sample is what counters say; rates are differences of two samples, computed once. A page asks for all of them when
   it is opened and for the newest ones after that. Nothing is sampled before somebody has opened the console.
2. Lag is sampled for LAG_GROUPS groups that this broker coordinates, every LAG_STEP_MS, a few at a time.
"""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ottla.broker.console.groups import Lag, groups_here, lag_here
from ottla.broker.http.parts import Json
from ottla.broker.requests.running import next_turn
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

STEP_MS: Final = 2_000
SAMPLES: Final = 450
LAG_STEP_MS: Final = 10_000
LAG_SAMPLES: Final = 90
LAG_GROUPS: Final = 200


class Sample(NamedTuple):
    """Counters at one time."""

    at_ms: int
    messages_in: int
    bytes_in: int
    bytes_out: int
    requests: int
    produces: int
    produce_ms: float
    syncs: int
    sync_ms: float


class Rates(NamedTuple):
    """What went through between two samples: amounts a second, and the mean of the times that ended in between."""

    at_ms: int
    messages_in: float
    bytes_in: float
    bytes_out: float
    requests: float
    produce_ms: float
    syncs: float
    sync_ms: float


def take_sample(broker: Broker) -> Sample:
    by_api = broker.request_metrics.by_api()
    produces, produce_ms = by_api.get("Produce", (0, 0.0))
    flushes = broker.counts.flushes
    totals = broker.topic_metrics.totals()
    return Sample(
        broker.clock.now_ms(),
        totals["messages_in"],
        totals["bytes_in"],
        totals["bytes_out"],
        sum(count for count, _ in by_api.values()),
        produces,
        produce_ms,
        flushes.count,
        flushes.total_ms,
    )


class History:
    """Rates and lags, newest last."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._last: Sample | None = None
        self._rates: deque[Rates] = deque(maxlen=SAMPLES)
        self._lags: dict[str, deque[tuple[int, Lag]]] = {}
        self._is_stopped = False

    async def run(self) -> None:
        clock, lag_due_ms = self._broker.clock, 0.0
        while not self._is_stopped:
            self._sample_rates()
            if clock.monotonic_ms() >= lag_due_ms:
                lag_due_ms = clock.monotonic_ms() + LAG_STEP_MS
                await self._sample_lags()
            await clock.sleep(STEP_MS)

    def stop(self) -> None:
        self._is_stopped = True

    def _sample_rates(self) -> None:
        was, self._last = self._last, take_sample(self._broker)
        if was is not None:
            self._rates.append(rates_between(was, self._last))

    async def _sample_lags(self) -> None:
        now_ms, present = self._broker.clock.now_ms(), set[str]()
        for group_id in list(groups_here(self._broker))[:LAG_GROUPS]:
            lag = lag_here(self._broker, group_id)
            if lag is not None:
                present.add(group_id)
                self._lags.setdefault(group_id, deque(maxlen=LAG_SAMPLES)).append((now_ms, lag))
            await next_turn()
        for gone in self._lags.keys() - present:
            del self._lags[gone]

    def lag_of(self, group_id: str) -> list[Json]:
        """Rows of a time, the lag in records, and in milliseconds."""
        return [[at_ms, lag.records, lag.ms] for at_ms, lag in self._lags.get(group_id, ())]

    def rates(self, after_ms: int = 0) -> dict[str, Json]:
        """Columns of rates, one value between any two samples, of those that ended after a time."""
        rows = list(takewhile(lambda row: row.at_ms > after_ms, reversed(self._rates)))
        rows.reverse()
        return {name: [row[at] for row in rows] for at, name in enumerate(Rates._fields)}


def rates_between(was: Sample, now: Sample) -> Rates:
    return Rates(
        now.at_ms,
        _rate(now.messages_in - was.messages_in, was, now),
        _rate(now.bytes_in - was.bytes_in, was, now),
        _rate(now.bytes_out - was.bytes_out, was, now),
        _rate(now.requests - was.requests, was, now),
        _mean(now.produce_ms - was.produce_ms, now.produces - was.produces),
        _rate(now.syncs - was.syncs, was, now),
        _mean(now.sync_ms - was.sync_ms, now.syncs - was.syncs),
    )


def _rate(amount: float, was: Sample, now: Sample) -> float:
    return round(max(0.0, amount) * 1000 / max(1, now.at_ms - was.at_ms), 3)


def _mean(total_ms: float, count: int) -> float:
    return round(total_ms / count, 4) if count > 0 else 0.0
