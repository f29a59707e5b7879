"""kafka.consumer.fetcher: the record that KafkaConsumer gives."""

from __future__ import annotations

from typing import Any

from ottla.light_tuples import NamedTuple


class ConsumerRecord(NamedTuple):
    """One record."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: Any
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int
