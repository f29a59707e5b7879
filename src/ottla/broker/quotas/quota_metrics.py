"""Quotas as metrics: one series for each user and client id that shares a quota, under two names that are in use.

    kafka_server_produce_byte_rate{user, client_id}
    kafka_server_quota_byte_rate{resource="Produce", user, clientId}

    Produce, Fetch         byte-rate, throttle-time
    Request                request-time (percent), throttle-time
    ControllerMutation     mutation-rate, tokens, throttle-time

throttle-time is the average of what clients had to wait in the last 30 to 60 seconds, NaN when nobody had to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Generic

from ottla.broker.observe.metric_table import gauge
from ottla.broker.quotas.limits import Owner
from ottla.broker.quotas.meters import BucketMeter, M, RateMeter
from ottla.metrics import Family, Gauge, Registry


class MeterMetrics(Generic[M]):
    """The metrics of all meters of one kind."""

    def __init__(
        self,
        registry: Registry,
        group: str,
        numbers: Mapping[str, Callable[[M, float], float]],
        monotonic_ms: Callable[[], float],
    ) -> None:
        """`numbers`: by their names how to read one of a meter at a time."""
        self._monotonic_ms = monotonic_ms
        self._group = group
        every: dict[str, Callable[[M, float], float]] = {
            "throttle_time": lambda meter, now_ms: meter.throttled.avg(now_ms),
            **numbers,
        }
        self._numbers: list[tuple[Family[Gauge], Family[Gauge], Callable[[M, float], float]]] = [
            (
                gauge(registry, f"kafka_server_{group.lower()}_{name}"),
                gauge(registry, f"kafka_server_quota_{name}"),
                read,
            )
            for name, read in every.items()
        ]

    def show(self, meter: M) -> None:
        for family, with_resource, read in self._numbers:
            reading = partial(self._read, read, meter)
            family.of(*meter.owner).read = reading
            with_resource.of(self._group, *meter.owner).read = reading

    def _read(self, read: Callable[[M, float], float], meter: M) -> float:
        return read(meter, self._monotonic_ms())

    def hide(self, owners: Iterable[Owner]) -> None:
        for owner in owners:
            for family, with_resource, _ in self._numbers:
                family.forget(*owner)
                with_resource.forget(self._group, *owner)


def byte_metrics(registry: Registry, group: str, monotonic_ms: Callable[[], float]) -> MeterMetrics[RateMeter]:
    return MeterMetrics(
        registry,
        group,
        {"byte_rate": lambda meter, now_ms: meter.rate.per_second(now_ms)},
        monotonic_ms,
    )


def request_metrics(registry: Registry, monotonic_ms: Callable[[], float]) -> MeterMetrics[RateMeter]:
    return MeterMetrics(
        registry,
        "Request",
        {"request_time": lambda meter, now_ms: meter.rate.per_second(now_ms)},
        monotonic_ms,
    )


def mutation_metrics(registry: Registry, monotonic_ms: Callable[[], float]) -> MeterMetrics[BucketMeter]:
    return MeterMetrics(
        registry,
        "ControllerMutation",
        {
            "mutation_rate": lambda meter, now_ms: meter.rate.rate(now_ms),
            "tokens": lambda meter, now_ms: _tokens(meter, now_ms),
        },
        monotonic_ms,
    )


def _tokens(meter: BucketMeter, now_ms: float) -> float:
    return meter.bucket.tokens(meter.limit, now_ms)
