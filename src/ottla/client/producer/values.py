"""What goes into a producer and what comes out of it: small values without behaviour.

Sizes are in bytes after serializing, -1 for no key or no value, as in Kafka. A timestamp in the metadata is the
record's own, or the broker's when the topic says LogAppendTime.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

HeaderItems: TypeAlias = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None]

FAILED_RECORDS_LIMIT: Final = 100


def headers_of(headers: HeaderItems | None) -> HeaderItems | None:
    """Headers that can be read twice: what is neither a mapping nor a list or tuple of pairs is read once, here.
    TypeError when it is no headers at all."""
    if headers is None:
        return None
    if isinstance(headers, Mapping):
        return headers if isinstance(headers, dict) else dict(headers)
    items = headers if isinstance(headers, list | tuple) else _listed(headers)
    for item in items:
        if not isinstance(item, list | tuple) or len(item) != 2:
            raise TypeError(f"headers are pairs of a name and bytes, or a mapping; {item!r:.60} is no pair")
    return items


def _listed(headers: Iterable[Any]) -> list[Any]:
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise TypeError(f"headers are pairs of a name and bytes, or a mapping, not {type(headers).__name__}")
    return list(headers)


class RecordMetadata(NamedTuple):
    """Where a record came to stand; an offset of -1 means that nobody asked the broker (acks=0) or that it failed."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int
    serialized_value_size: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def timestamp(self) -> int:
        """kafka-python's name for it."""
        return self.timestamp_ms


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record on its way in; interceptors may replace it by another one."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: HeaderItems = field(default=())


class FailedRecord(NamedTuple):
    """A record that was taken and not delivered, as bytes, and why."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    error: OttlaError


class SendFailed(OttlaError):
    """Some records were not delivered.
    `records` has the first of them with their errors, `count` says how many; send them again if they matter."""

    def __init__(self, count: int, records: Sequence[FailedRecord] = (), detail: str | None = None) -> None:
        first = records[0] if records else None
        of_what = f", the first to {first.topic}-{first.partition}: {first.error}" if first else ""
        super().__init__(detail or f"{count} failed{of_what}")
        self.count = count
        self.records = tuple(records)
        # An exception is rebuilt from its args when it is copied or pickled.
        self.args = (count, self.records, self.detail)


class RecordTooLargeToSend(OttlaError):
    """The record is larger than this producer may send.
    Raise max.request.size (and the topic's max.message.bytes), or send less in one record."""


class BufferExhausted(OttlaError):
    """No memory became free in time: records come faster than the cluster takes them.
    Raise buffer.memory or max.block.ms, or send more slowly."""

    retriable = True


class DeliveryTimedOut(OttlaError):
    """The record was not acknowledged within delivery.timeout.ms.
    Look for an unreachable leader or an overloaded broker, or raise delivery.timeout.ms."""

    retriable = True


class RecordPurged(OttlaError):
    """This record was dropped by a purge before it was sent."""


class RecordPurgedInFlight(RecordPurged):
    """This record was dropped by a purge while it was in flight: whether it was written is not known."""


class ProducerClosed(OttlaError):
    """The producer is closed, so this record was not delivered.
    Send before close(), and call flush() or give close() more time if records were still on their way."""
