"""The numbers of one reading by metric and labels, and how they get into the registry.

    out = Readings()
    out.put("kafka_log_log_size", 4096, "orders", "0")
    Shown(registry).update(out)

1. Only rows of metric_table.py can be shown, with as many labels as the row has.
2. A series that is not in a reading is not shown any more: what it was about is gone.
3. Whoever reads many things does it STEP at a time, so that requests have their turns between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar

from ottla.broker.observe.metric_table import COUNTER, TABLE, counter, gauge
from ottla.broker.observe.time_buckets import Spread, Times
from ottla.metrics import Counter, Family, Gauge, Registry

T = TypeVar("T")
Labels = tuple[str, ...]

STEP: Final = 250


class Readings:
    def __init__(self) -> None:
        self.values: dict[str, dict[Labels, float]] = {}
        self.times: dict[str, list[Times]] = {}

    def put(self, name: str, value: float, *labels: str) -> None:
        self.values.setdefault(name, {})[labels] = value

    def put_all(self, prefix: str, values: Mapping[str, float], *labels: str) -> None:
        for name, value in values.items():
            self.put(prefix + name, value, *labels)

    def add(self, name: str, amount: float, *labels: str) -> None:
        series = self.values.setdefault(name, {})
        series[labels] = series.get(labels, 0) + amount

    def none(self, *names: str) -> None:
        """There are no series of these."""
        for name in names:
            self.values.setdefault(name, {})


class Shown:
    """What the registry shows of readings."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._families: dict[str, Family[Counter] | Family[Gauge]] = {}
        self._spreads: dict[str, Family[Spread]] = {}

    def update(self, readings: Readings) -> None:
        for name in [*self._families.keys() - readings.values.keys(), *readings.values]:
            self._show(name, readings.values.get(name, {}))
        for name, times in readings.times.items():
            self._spread(name).of().read = partial(_same, times)

    def _show(self, name: str, values: dict[Labels, float]) -> None:
        family = self._families.get(name)
        if family is None:
            make = counter if TABLE[name].kind == COUNTER else gauge
            family = self._families[name] = make(self._registry, name)
        for labels, _ in family.series():
            if labels not in values:
                family.forget(*labels)
        for labels, value in values.items():
            family.of(*labels).value = value

    def _spread(self, name: str) -> Family[Spread]:
        row = TABLE[name]
        return self._registry.instruments("broker", name, row.meaning, row.tags, Spread, exposed=name)


def _same(times: list[Times]) -> list[Times]:
    return times


def in_steps(items: Iterable[T]) -> Iterator[list[T]]:
    """STEP at a time, of those that are there now."""
    waiting = list(items)
    for start in range(0, len(waiting), STEP):
        yield waiting[start : start + STEP]
