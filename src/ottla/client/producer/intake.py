"""What is done to a record before it is written into a batch: interceptors, tracing, serializers, partitioner, sizes.

Everything here is the user's own code or about it, and runs in the caller's thread. When there is nothing of that kind
(`is_plain`) records take the hot path and never come here; lists of records come once per list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.client.producer.batches.append_choice import SendFuture, TopicState, check_many, has_text
from ottla.client.producer.batches.futures import Run
from ottla.client.producer.interceptors import Interceptors
from ottla.client.producer.partitioner import BUILT_IN
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.tracing import Tracing
from ottla.client.producer.values import HeaderItems, ProducerRecord, RecordTooLargeToSend, headers_of
from ottla.client.serializers import as_serializer, serialize_plain
from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.client.producer.batches.arrow_columns import ArrowRows

RECORD_OVERHEAD_BYTES: Final = 61 + 36
"""A batch's header and the most that lengths, time and offset of one record take."""


class Prepared(NamedTuple):
    """A record as bytes, and where it goes if that is decided."""

    key: bytes | None
    value: bytes | None
    headers: Any
    partition: int | None
    needed_bytes: int


class Intake:
    """The way in of one producer."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self.interceptors = Interceptors(settings.interceptor_classes)
        self._tracing = Tracing.enabled() if settings.ottla_tracing_enable else None
        self._serialize_key = as_serializer(settings.key_serializer, "key")
        self._serialize_value = as_serializer(settings.value_serializer, "value")
        self._partitioner = settings.partitioner

    @property
    def is_plain(self) -> bool:
        """Nothing of the user's has to be called for a record."""
        plain = self._serialize_key is serialize_plain and self._serialize_value is serialize_plain
        return plain and not self.wants_each

    @property
    def wants_each(self) -> bool:
        """Something of the user's must see each record."""
        return bool(self.interceptors) or self._tracing is not None or self._partitioner is not None

    def begin(self, record: ProducerRecord) -> tuple[ProducerRecord, Any]:
        """The record as interceptors and tracing left it, and its span if there is one."""
        if self.interceptors:
            record = self.interceptors.on_send(record)
        return (record, None) if self._tracing is None else self._tracing.begin(record)

    def refused(self, error: OttlaError, span: Any) -> None:
        """A record could not be taken at all."""
        self.interceptors.on_acknowledgement(None, error)
        if span is not None:
            span.ended(None, error)

    def prepare(self, record: ProducerRecord, state: TopicState, available: Sequence[int]) -> Prepared:
        """Bytes and partition of a record; raises what is wrong with it."""
        key = self._serialize_key(record.topic, record.key)
        value = self._serialize_value(record.topic, record.value)
        partition = record.partition
        if partition is not None and partition < 0:
            raise ValueError(f"a partition is 0 or more, not {partition}")
        if partition is None and self._partitioner is not None:
            partition = self._custom_partition(state, key, available)
        headers = record.headers
        needed_bytes = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"") + headers_bytes(headers)
        self._check_size(needed_bytes, record.topic)
        return Prepared(key, value, headers, partition, needed_bytes)

    def _custom_partition(self, state: TopicState, key: bytes | None, available: Sequence[int]) -> int | None:
        assert self._partitioner is not None, "asked before"
        everything = range(state.partition_count)
        chosen = self._partitioner(key, everything, available)
        if chosen == BUILT_IN:
            return None
        if chosen not in everything:
            raise ValueError(f"the partitioner chose {chosen!r}; {state.topic} has {state.partition_count} partitions")
        return chosen

    def _check_size(self, needed_bytes: int, topic: str) -> None:
        for name in ("max.request.size", "buffer.memory"):
            limit = self._settings.max_request_size if name == "max.request.size" else self._settings.buffer_memory
            if needed_bytes > limit:
                raise RecordTooLargeToSend(f"{needed_bytes} bytes for {topic}, {name} is {limit}")

    def watch(self, future: SendFuture, on_delivery: Callable[..., object] | None, span: Any) -> None:
        """Register everybody who wants to hear what becomes of a record."""
        if self.interceptors:
            future.add_silent_callback(self.interceptors.on_acknowledgement)
        if span is not None:
            future.add_silent_callback(span.ended)
        if on_delivery is not None:
            future.add_delivery_callback(on_delivery)

    def prepare_many(
        self,
        topic: str,
        values: Iterable[Any],
        headers: HeaderItems | None,
        partition: int | None,
        timestamp_ms: int,
    ) -> Many | None:
        """The list as bytes, checked; None when each record must be shown to somebody of the user's."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):  # one record for each letter: never
            raise TypeError("send_many() takes a list of values, not one value: write [value]")
        if isinstance(values, Mapping):  # its keys alone would be sent
            raise TypeError("send_many() takes a list of values, or of keys and values: write list(mapping.items())")
        if self.wants_each:
            return None
        items = values if type(values) is list else list(values)
        are_pairs = bool(items) and type(items[0]) is tuple
        items = self._serialized(topic, items, are_pairs)
        limit_bytes = min(self._settings.max_request_size, self._settings.buffer_memory) - headers_bytes(headers)
        too_large = check_many(items, are_pairs, limit_bytes)
        many = Many(items, are_pairs, headers, partition, timestamp_ms)
        if too_large >= 0:
            self._check_size(many.needed_bytes(too_large), topic)
        return many

    def prepare_arrow(self, topic: str | None, table: Any) -> list[ArrowRows]:
        """The rows of a table in pieces, all of them checked."""
        if not (self._serialize_key is serialize_plain and self._serialize_value is serialize_plain):
            raise ValueError(
                "send_arrow() sends the bytes that stand in the columns, and this producer has a serializer of its own:"
                " use a producer without key.serializer and value.serializer for tables"
            )
        from ottla.client.producer.batches.arrow_columns import rows_of

        parts = rows_of(topic, table)
        limit_bytes = min(self._settings.max_request_size, self._settings.buffer_memory)
        for rows in parts:
            if (row := rows.first_above(limit_bytes)) >= 0:
                self._check_size(rows.needed_bytes(row), rows.topics[rows.place_at(row)])
        return parts

    def _serialized(self, topic: str, items: list[Any], are_pairs: bool) -> list[Any]:
        key_of, value_of = self._serialize_key, self._serialize_value
        if key_of is serialize_plain and value_of is serialize_plain and not has_text(items, are_pairs):
            return items
        if are_pairs:
            return [(key_of(topic, key), value_of(topic, value)) for key, value in items]
        return [value_of(topic, value) for value in items]


class Many(NamedTuple):
    """A list of records as bytes, for send_many()."""

    items: list[Any]
    are_pairs: bool
    headers: HeaderItems | None
    partition: int | None
    timestamp_ms: int

    def put(self, state: TopicState, start: int, runs: list[Run]) -> int:
        """Write from `start` on; returns the index of the first that found no room."""
        return state.put_many(self.items, start, self.are_pairs, self.headers, self.timestamp_ms, self.partition, runs)

    def key_of(self, index: int) -> bytes | None:
        return self.items[index][0] if self.are_pairs else None

    def needed_bytes(self, index: int) -> int:
        item = self.items[index]
        parts = item if self.are_pairs else (item,)
        return RECORD_OVERHEAD_BYTES + sum(len(part or b"") for part in parts) + headers_bytes(self.headers)


def record_of(
    topic: str | ProducerRecord,
    value: Any,
    key: Any,
    partition: int | None,
    timestamp_ms: int | None,
    headers: HeaderItems | None,
) -> ProducerRecord:
    """The arguments of send() as a record; a record as it is."""
    if isinstance(topic, ProducerRecord):
        plain = headers_of(topic.headers)
        if plain is topic.headers:
            return topic
        value, key, partition, timestamp_ms = topic.value, topic.key, topic.partition, topic.timestamp_ms
        headers, topic = plain, topic.topic
    if not isinstance(topic, str):
        raise TypeError(f"a topic is a str (or send a ProducerRecord), not {type(topic).__name__}")
    return ProducerRecord(topic, value, key, partition, timestamp_ms, headers or ())


def pair_of(item: Any) -> tuple[Any, Any]:
    """Key and value of an element of send_many()'s list."""
    return item if type(item) is tuple else (None, item)


def headers_bytes(headers: Any) -> int:
    """The most that these headers take."""
    if not headers:
        return 0
    items = headers.items() if isinstance(headers, dict) else headers
    return sum(15 + 4 * len(name) + len(value or b"") for name, value in items)
