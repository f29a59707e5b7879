"""aiokafka.structs: the small values, with aiokafka's order of fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from ottla.compat.aiokafka.errors import KafkaError
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

__all__ = [
    "BrokerMetadata",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "RecordMetadata",
    "TopicPartition",
]

KT = TypeVar("KT")
VT = TypeVar("VT")


class BrokerMetadata(NamedTuple):
    """A broker."""

    nodeId: int | str  # noqa: N815  # aiokafka's name
    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    """A partition."""

    topic: str
    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]
    error: KafkaError | None


class OffsetAndMetadata(NamedTuple):
    """A committed position."""

    offset: int
    metadata: str


class OffsetAndTimestamp(NamedTuple):
    """Where a time is."""

    offset: int
    timestamp: int | None


class RecordMetadata(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: int
    log_start_offset: int | None


@dataclass
class ConsumerRecord(Generic[KT, VT]):
    """One record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: KT | None
    value: VT | None
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    headers: Sequence[tuple[str, bytes]]
