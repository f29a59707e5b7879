"""Quotas as metrics, under Kafka's names: one series for each user and client id that shares a quota.

    Produce, Fetch         byte-rate, throttle-time
    Request                request-time (percent), throttle-time
    ControllerMutation     mutation-rate, tokens, throttle-time

throttle-time is the average of what clients had to wait in the last 30 to 60 seconds, NaN when nobody had to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, Generic

from ottla.broker.quotas.limits import Owner
from ottla.broker.quotas.meters import BucketMeter, M, RateMeter
from ottla.metrics import Family, Gauge, Registry

TAGS: Final = ("user", "client-id")
_THROTTLED: Final = "Average milliseconds that a client had to wait."


class MeterMetrics(Generic[M]):
    """The metrics of all meters of one kind."""

    def __init__(
        self,
        registry: Registry,
        group: str,
        numbers: Mapping[str, tuple[str, Callable[[M, float], float]]],
        monotonic_ms: Callable[[], float],
    ) -> None:
        """`numbers`: by their names what they are, and how to read one of a meter at a time."""
        self._monotonic_ms = monotonic_ms
        self._numbers: list[tuple[Family[Gauge], Callable[[M, float], float]]] = [
            (_family(registry, group, "throttle-time", _THROTTLED), lambda meter, now_ms: meter.throttled.avg(now_ms))
        ]
        for name, (text, read) in numbers.items():
            self._numbers.append((_family(registry, group, name, text), read))

    def show(self, meter: M) -> None:
        for family, read in self._numbers:
            family.of(*meter.owner).read = partial(self._read, read, meter)

    def _read(self, read: Callable[[M, float], float], meter: M) -> float:
        return read(meter, self._monotonic_ms())

    def hide(self, owners: Iterable[Owner]) -> None:
        for owner in owners:
            for family, _ in self._numbers:
                family.forget(*owner)


def _family(registry: Registry, group: str, name: str, text: str) -> Family[Gauge]:
    exposed = f"kafka_server_{group.lower()}_{name.replace('-', '_')}"
    return registry.gauge(f"kafka.server:{group}", name, text, TAGS, exposed=exposed)


def byte_metrics(registry: Registry, group: str, monotonic_ms: Callable[[], float]) -> MeterMetrics[RateMeter]:
    return MeterMetrics(
        registry,
        group,
        {"byte-rate": ("Bytes a second of a client.", lambda meter, now_ms: meter.rate.per_second(now_ms))},
        monotonic_ms,
    )


def request_metrics(registry: Registry, monotonic_ms: Callable[[], float]) -> MeterMetrics[RateMeter]:
    return MeterMetrics(
        registry,
        "Request",
        {"request-time": ("Percent of the loop's time.", lambda meter, now_ms: meter.rate.per_second(now_ms))},
        monotonic_ms,
    )


def mutation_metrics(registry: Registry, monotonic_ms: Callable[[], float]) -> MeterMetrics[BucketMeter]:
    return MeterMetrics(
        registry,
        "ControllerMutation",
        {
            "mutation-rate": ("Partitions made and deleted a second.", lambda meter, now_ms: meter.rate.rate(now_ms)),
            "tokens": ("Partitions that may come or go now.", lambda meter, now_ms: _tokens(meter, now_ms)),
        },
        monotonic_ms,
    )


def _tokens(meter: BucketMeter, now_ms: float) -> float:
    return meter.bucket.tokens(meter.limit, now_ms)
