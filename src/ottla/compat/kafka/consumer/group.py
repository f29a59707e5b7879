"""KafkaConsumer over ours: poll() returns lists by partition, iteration gives records."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

from ottla.client.consumer.consumer import Consumer as OurConsumer
from ottla.compat.kafka import settings
from ottla.compat.kafka.bootstrap import wait_for_cluster
from ottla.compat.kafka.consumer.fetcher import ConsumerRecord
from ottla.compat.kafka.errors import IllegalStateError, KafkaConfigurationError, translates
from ottla.compat.kafka.producer.kafka import grouped
from ottla.compat.kafka.serializer import Deserializer, deserializer_of
from ottla.compat.kafka.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    group_metadata,
)
from ottla.values import TopicPartition


class _Listener:
    """Calls a listener of theirs with sets, and with nothing revoked before the first assignment, as kafka-python."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener
        self._joined = False

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        if not self._joined:
            self._joined = True
            _run(self._listener.on_partitions_revoked(set()))
        _run(self._listener.on_partitions_assigned(set(partitions)))

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        _run(self._listener.on_partitions_revoked(set(partitions)))

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        lost = getattr(self._listener, "on_partitions_lost", self._listener.on_partitions_revoked)
        _run(lost(set(partitions)))


def _run(found: Any) -> None:
    if asyncio.iscoroutine(found):
        asyncio.run(found)


@translates
class KafkaConsumer:
    """See the module."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = settings.CONSUMER
    DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735: ClassVar[int] = 10_000

    def __init__(self, *topics: str, **configs: Any) -> None:
        if unknown := set(configs) - set(self.DEFAULT_CONFIG):
            raise KafkaConfigurationError(f"Unrecognized configs: {unknown}")
        self.config = {**self.DEFAULT_CONFIG, **configs}
        self._key_deserializer = deserializer_of(self.config["key_deserializer"], "key_deserializer")
        self._value_deserializer = deserializer_of(self.config["value_deserializer"], "value_deserializer")
        ours = settings.ours(configs, self.DEFAULT_CONFIG)
        self._has_group = ours.get("group_id") is not None
        self._ours = OurConsumer(**ours)
        self._topics: set[str] = set()
        self._closed = False
        try:
            wait_for_cluster(self._ours._loop, self._ours._core.network, self.config)
            if topics:
                self.subscribe(list(topics))
        except BaseException:
            self.close(timeout_ms=0)
            raise

    # --- what to read ---

    def subscribe(self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None) -> None:
        wanted = list(topics) or None
        wrapped = None if listener is None else _Listener(listener)
        if self._has_group:
            self._ours.subscribe(wanted, pattern=pattern, listener=wrapped)
            return
        # Without a group nobody shares partitions out: all of them are ours.
        named = wanted or [name for name in self._ours.topics() if re.match(pattern or "", name)]
        self._topics = set(named)
        found = [TopicPartition(name, each.partition) for name in named for each in self._ours.partitions_for(name)]
        self._ours.assign(found)
        if wrapped is not None:
            wrapped.on_assigned(found)

    def unsubscribe(self) -> None:
        self._topics = set()
        self._ours.unsubscribe()

    def subscription(self) -> set[str] | None:
        return set(self._ours.subscription()) or self._topics or None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._ours.assign([TopicPartition(*each) for each in partitions])

    def assignment(self) -> set[TopicPartition]:
        return set(self._ours.assignment())

    # --- reading ---

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        if timeout_ms < 0:
            raise ValueError("Timeout must not be negative")
        if self._closed:
            raise IllegalStateError("KafkaConsumer is closed")
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in self._ours.poll(timeout_ms / 1000, max_records=max_records):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(self._record(record))
        if not update_offsets:
            for partition, records in found.items():
                self._ours.seek(partition, records[0].offset)
        return found

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        if self._closed:
            raise StopIteration("KafkaConsumer closed")
        return self._record(next(self._ours))

    def _record(self, record: Any) -> ConsumerRecord:
        headers = [(name, data) for name, data in record.headers]
        size = sum(len(name.encode()) + len(data or b"") for name, data in headers) if headers else -1
        epoch = -1 if record.leader_epoch is None else record.leader_epoch
        return ConsumerRecord(
            record.topic,
            record.partition,
            epoch,
            record.offset,
            record.timestamp_ms,
            int(record.timestamp_type),
            _deserialized(self._key_deserializer, record.topic, headers, record.key),
            _deserialized(self._value_deserializer, record.topic, headers, record.value),
            headers,
            None,
            -1 if record.key is None else len(record.key),
            -1 if record.value is None else len(record.value),
            size,
        )

    # --- positions ---

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        return self._ours.position(partition, timeout=_seconds(timeout_ms))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if not isinstance(offset, int) or offset < 0:
            raise ValueError("Offset must be >= 0")
        if partition not in self._ours.assignment():
            raise ValueError("Unassigned partition")
        self._ours.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self._ours.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self._ours.seek_to_end(*partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        self._ours.pause(*partitions)

    def paused(self) -> set[TopicPartition]:
        return set(self._ours.paused())

    def resume(self, *partitions: TopicPartition) -> None:
        self._ours.resume(*partitions)

    def highwater(self, partition: TopicPartition) -> int | None:
        lag = self._ours.lag(partition)
        return None if lag is None else self._ours.position(partition) + lag

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._ours.beginning_offsets(list(partitions), timeout=_seconds(timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._ours.end_offsets(list(partitions), timeout=_seconds(timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        found = self._ours.offsets_for_times(timestamps, timeout=_seconds(timeout_ms))
        return {key: _timestamped(found.get(key)) for key in timestamps}

    # --- commits ---

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, timeout_ms: float | None = None
    ) -> None:
        self._ours.commit(_committable(offsets), timeout=_seconds(timeout_ms))

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, callback: Any = None
    ) -> None:
        """`callback(offsets, error or None)` is called from a later poll()."""
        self._ours.commit_async(_committable(offsets), callback or self.config["default_offset_commit_callback"])

    def committed(self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None) -> Any:
        found = self._ours.committed(partition, timeout=_seconds(timeout_ms)).get(partition)
        if found is None or not metadata:
            return None if found is None else found.offset
        return OffsetAndMetadata(found.offset, found.metadata, -1 if found.leader_epoch is None else found.leader_epoch)

    # --- about ---

    def topics(self) -> set[str]:
        return set(self._ours.topics())

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {each.partition for each in self._ours.partitions_for(topic)} or None

    def group_metadata(self) -> ConsumerGroupMetadata:
        return group_metadata(self._ours.group_metadata() if self._has_group else None)

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> bool:
        """Reach the cluster: done by the constructor."""
        return self.bootstrap_connected()

    def bootstrap_connected(self) -> bool:
        """Whether the cluster has told us about itself."""
        return not self._ours._core.network.metadata.is_bootstrapping

    def metrics(self, raw: bool = False) -> Any:
        """Numbers by group and name; `raw` by our own keys."""
        found = self._ours.metrics()
        return found if raw else grouped(found)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave the group and end everything; without `autocommit` nothing is committed on the way out."""
        self._closed = True
        self._ours.close(30.0 if timeout_ms is None else timeout_ms / 1000, commit=autocommit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _deserialized(deserializer: Deserializer | None, topic: str, headers: Any, data: bytes | None) -> Any:
    return data if deserializer is None else deserializer.deserialize(topic, headers, data)


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000


def _committable(offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> Any:
    if offsets is None:
        return None
    return {key: each.ours if isinstance(each, OffsetAndMetadata) else each for key, each in offsets.items()}


def _timestamped(found: Any) -> OffsetAndTimestamp | None:
    if found is None:
        return None
    return OffsetAndTimestamp(
        found.offset, found.timestamp_ms, -1 if found.leader_epoch is None else found.leader_epoch
    )
