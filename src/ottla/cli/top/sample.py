"""One moment of a cluster: what was counted, and when."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition


class PartitionState(NamedTuple):
    """Who leads a partition, and who has it."""

    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class BrokerState(NamedTuple):
    """A broker as the cluster sees it; bytes are None where nobody may ask for them."""

    address: str
    is_controller: bool
    size_bytes: int | None = None
    failed_directories: int = 0


class GroupState(NamedTuple):
    """A group; `committed` has the offset of each partition."""

    state: str
    committed: Mapping[TopicPartition, int]


class Counters(NamedTuple):
    """What a broker's own metrics say; None where they do not say it."""

    requests: float | None = None
    bytes_in: float | None = None
    bytes_out: float | None = None
    cpu_s: float | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything at one moment; `left_out` says what was not asked for, because there is too much of it."""

    monotonic_ms: float
    cluster_id: str
    brokers: Mapping[int, BrokerState]
    partitions: Mapping[TopicPartition, PartitionState]
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    counters: Mapping[str, Counters] = field(default_factory=dict)
    """By the address of the metrics."""
    left_out: str | None = None
