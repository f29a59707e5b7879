"""What two moments say about the time between them: rates, lag, and partitions in trouble.

1. A rate needs two moments; with one it is None, and so it is for what was not there at the first.
2. A number that went down (a topic made anew, a broker restarted) gives no rate, never one below zero.
3. Rows come in the order in which somebody in a hurry wants them: the most at the top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.cli.top.sample import Counters, GroupState, Sample
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition


class TopicRow(NamedTuple):
    topic: str
    partitions: int
    records_per_s: float | None
    bytes_per_s: float | None
    size_bytes: int | None
    under_replicated: int
    offline: int


class BrokerRow(NamedTuple):
    broker: int
    address: str
    is_controller: bool
    leads: int
    replicas: int
    records_per_s: float | None
    size_bytes: int | None
    failed_directories: int


class GroupRow(NamedTuple):
    group: str
    state: str
    lag: int
    read_per_s: float | None
    behind_s: float | None
    """How long it takes at this rate until nothing is left; None when it does not get there."""


class MetricRow(NamedTuple):
    source: str
    requests_per_s: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    cpu_share: float | None
    memory_bytes: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    cluster_id: str
    over_s: float | None
    topics: tuple[TopicRow, ...]
    brokers: tuple[BrokerRow, ...]
    groups: tuple[GroupRow, ...]
    metrics: tuple[MetricRow, ...]
    partitions: int
    under_replicated: int
    offline: int
    left_out: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "cluster_id": self.cluster_id,
            "over_s": self.over_s,
            "partitions": self.partitions,
            "under_replicated": self.under_replicated,
            "offline": self.offline,
            "brokers": [each._asdict() for each in self.brokers],
            "topics": [each._asdict() for each in self.topics],
            "groups": [each._asdict() for each in self.groups],
            "metrics": [each._asdict() for each in self.metrics],
            "left_out": self.left_out,
        }


def figures(now: Sample, before: Sample | None = None) -> Figures:
    """The figures of the time from `before` to `now`."""
    span_s = None if before is None else max((now.monotonic_ms - before.monotonic_ms) / 1000, 0.001)
    rate = _Rates(now, before, span_s)
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in now.partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    topics = [_topic_row(now, rate, name, partitions) for name, partitions in by_topic.items()]
    return Figures(
        cluster_id=now.cluster_id,
        over_s=span_s,
        topics=tuple(sorted(topics, key=lambda row: (-(row.records_per_s or 0), -(row.size_bytes or 0), row.topic))),
        brokers=tuple(_broker_row(now, rate, broker) for broker in sorted(now.brokers)),
        groups=tuple(sorted(_group_rows(now, rate), key=lambda row: (-row.lag, row.group))),
        metrics=tuple(_metric_row(rate, source) for source in sorted(now.counters)),
        partitions=len(now.partitions),
        under_replicated=sum(_is_under(now, partition) for partition in now.partitions),
        offline=sum(each.leader is None for each in now.partitions.values()),
        left_out=now.left_out,
    )


class _Rates:
    """Differences of two moments, in a second."""

    def __init__(self, now: Sample, before: Sample | None, span_s: float | None) -> None:
        self.now, self._before, self._span_s = now, before, span_s

    def of(
        self, numbers: Callable[[Sample], Mapping[TopicPartition, int]], keys: Iterable[TopicPartition]
    ) -> float | None:
        """The growth of these together; None unless some of them can be compared."""
        if self._before is None or self._span_s is None:
            return None
        new, old = numbers(self.now), numbers(self._before)
        grown = [new[key] - old[key] for key in keys if key in new and key in old and new[key] >= old[key]]
        return sum(grown) / self._span_s if grown else None

    def committed(self, group: str) -> float | None:
        if self._before is None or self._span_s is None or group not in self._before.groups:
            return None
        new, old = self.now.groups[group].committed, self._before.groups[group].committed
        grown = [new[key] - old[key] for key in new if key in old and new[key] >= old[key]]
        return sum(grown) / self._span_s if grown else None

    def counter(self, source: str, read: Callable[[Counters], float | None]) -> float | None:
        if self._before is None or self._span_s is None or source not in self._before.counters:
            return None
        new, old = read(self.now.counters[source]), read(self._before.counters[source])
        return None if new is None or old is None or new < old else (new - old) / self._span_s


def _is_under(now: Sample, partition: TopicPartition) -> bool:
    state = now.partitions[partition]
    return len(state.in_sync) < len(state.replicas)


def _topic_row(now: Sample, rate: _Rates, name: str, partitions: list[TopicPartition]) -> TopicRow:
    sizes = [now.sizes[each] for each in partitions if each in now.sizes]
    return TopicRow(
        topic=name,
        partitions=len(partitions),
        records_per_s=rate.of(lambda sample: sample.ends, partitions),
        bytes_per_s=rate.of(lambda sample: sample.sizes, partitions),
        size_bytes=sum(sizes) if sizes else None,
        under_replicated=sum(_is_under(now, each) for each in partitions),
        offline=sum(now.partitions[each].leader is None for each in partitions),
    )


def _broker_row(now: Sample, rate: _Rates, broker: int) -> BrokerRow:
    state = now.brokers[broker]
    led = [partition for partition, each in now.partitions.items() if each.leader == broker]
    return BrokerRow(
        broker=broker,
        address=state.address,
        is_controller=state.is_controller,
        leads=len(led),
        replicas=sum(broker in each.replicas for each in now.partitions.values()),
        records_per_s=rate.of(lambda sample: sample.ends, led),
        size_bytes=state.size_bytes,
        failed_directories=state.failed_directories,
    )


def _group_rows(now: Sample, rate: _Rates) -> Iterable[GroupRow]:
    for name, group in now.groups.items():
        lag = _lag(now, group)
        read = rate.committed(name)
        written = rate.of(lambda sample: sample.ends, group.committed)
        gain = None if read is None or written is None else read - written
        behind = 0.0 if lag == 0 else None if gain is None or gain <= 0 else lag / gain
        yield GroupRow(name, group.state, lag, read, behind)


def _lag(now: Sample, group: GroupState) -> int:
    return sum(max(now.ends[key] - offset, 0) for key, offset in group.committed.items() if key in now.ends)


def _metric_row(rate: _Rates, source: str) -> MetricRow:
    return MetricRow(
        source=source,
        requests_per_s=rate.counter(source, lambda each: each.requests),
        bytes_in_per_s=rate.counter(source, lambda each: each.bytes_in),
        bytes_out_per_s=rate.counter(source, lambda each: each.bytes_out),
        cpu_share=rate.counter(source, lambda each: each.cpu_s),
        memory_bytes=rate.now.counters[source].memory_bytes,
    )
