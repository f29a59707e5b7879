"""KafkaConsumer over ours: poll() returns lists by partition, iteration gives records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from ottla.client.consumer.consumer import Consumer as OurConsumer
from ottla.compat.kafka.settings import ours
from ottla.compat.kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from ottla.values import TopicPartition


class ConsumerRebalanceListener:
    """What a listener has."""

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Before others get them."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """After they were assigned."""

    def on_partitions_lost(self, lost: Any) -> None:
        """They are gone already."""
        self.on_partitions_revoked(lost)


class KafkaConsumer:
    """See the module."""

    def __init__(self, *topics: str, **configs: Any) -> None:
        settings = ours(configs)
        self._has_group = settings.get("group_id") is not None
        if not self._has_group:
            settings["enable_auto_commit"] = False
        self._commits_by_itself = self._has_group and settings.get("enable_auto_commit", True)
        self._ours = OurConsumer(**settings)
        self._topics: set[str] = set()
        if topics:
            self.subscribe(list(topics))

    # --- what to read ---

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | None = None, listener: ConsumerRebalanceListener | None = None
    ) -> None:
        wanted = list(topics) or None
        if self._has_group:
            self._ours.subscribe(wanted, pattern=pattern, listener=listener)
            return
        # Without a group nobody shares partitions out: all of them are ours.
        named = wanted or [name for name in self._ours.topics() if re.match(pattern or "", name)]
        self._topics = set(named)
        found = [TopicPartition(name, each.partition) for name in named for each in self._ours.partitions_for(name)]
        self._ours.assign(found)
        if listener is not None:
            listener.on_partitions_assigned(set(found))

    def unsubscribe(self) -> None:
        self._ours.unsubscribe()

    def subscription(self) -> set[str] | None:
        return set(self._ours.subscription()) or self._topics or None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._ours.assign(list(partitions))

    def assignment(self) -> set[TopicPartition]:
        return set(self._ours.assignment())

    # --- reading ---

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[Any]]:
        if not update_offsets:
            raise NotImplementedError("poll(update_offsets=False) is not there: seek() back to read records again")
        found: dict[TopicPartition, list[Any]] = {}
        for record in self._ours.poll(timeout_ms / 1000, max_records=max_records):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._ours)

    def __next__(self) -> Any:
        return next(self._ours)

    # --- positions ---

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        return self._ours.position(partition, timeout=_seconds(timeout_ms))

    def seek(self, partition: TopicPartition, offset: int) -> None:
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

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ours.beginning_offsets(list(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ours.end_offsets(list(partitions))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        found = self._ours.offsets_for_times(timestamps)
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
        self._ours.commit_async(_committable(offsets), callback)

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
        return self._ours.group_metadata()

    def bootstrap_connected(self) -> bool:
        """Whether the cluster has told us about itself."""
        return not self._ours._core.network.metadata.is_bootstrapping

    def metrics(self, raw: bool = False) -> Mapping[Any, float]:
        return self._ours.metrics()

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        if not autocommit and self._commits_by_itself:
            raise NotImplementedError(
                "close(autocommit=False) is not there: set enable_auto_commit=False and commit by hand"
            )
        self._ours.close(30.0 if timeout_ms is None else timeout_ms / 1000)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
