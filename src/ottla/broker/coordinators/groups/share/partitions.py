"""Of which partitions the share coordinator has the state of a group: by topic, as ShareGroupStatePartitionMetadata.

    initializing   it was asked to begin, and has not answered
    initialized    it has it: these can be assigned
    deleting       it was asked to forget

A value; changes make another one. What is initializing or deleting after a crash is asked for again, when somebody
needs it: both can be asked for twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.broker.coordinators.effects import StoredRecord
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.protocol.stored.share_groups import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)


class SharedTopic(NamedTuple):
    name: str
    partitions: frozenset[int]


Topics = Mapping[bytes, SharedTopic]


@dataclass(frozen=True, slots=True)
class SharePartitions:
    initializing: Topics = field(default_factory=dict)
    initialized: Topics = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    def missing(self, topic_id: bytes, count: int) -> frozenset[int]:
        """Those of a topic's partitions that the share coordinator does not have."""
        known = self.initialized.get(topic_id)
        return frozenset(range(count)) - (known.partitions if known is not None else frozenset())

    def with_initializing(self, topics: Topics) -> SharePartitions:
        deleting = {each: name for each, name in self.deleting.items() if each not in topics}
        return SharePartitions(_added(self.initializing, topics), self.initialized, deleting)

    def with_initialized(self, topics: Topics) -> SharePartitions:
        return SharePartitions(_without(self.initializing, topics), _added(self.initialized, topics), self.deleting)

    def with_deleting(self, topic_ids: Iterable[bytes]) -> SharePartitions:
        gone = set(topic_ids)
        known = {**self.initializing, **self.initialized}
        deleting = {**self.deleting, **{each: known[each].name for each in gone if each in known}}
        kept = {each: topic for each, topic in self.initialized.items() if each not in gone}
        return SharePartitions({k: v for k, v in self.initializing.items() if k not in gone}, kept, deleting)

    def without(self, topic_ids: Iterable[bytes]) -> SharePartitions:
        """These topics are forgotten, whatever was to become of them."""
        gone = set(topic_ids)
        return SharePartitions(
            {each: topic for each, topic in self.initializing.items() if each not in gone},
            {each: topic for each, topic in self.initialized.items() if each not in gone},
            {each: name for each, name in self.deleting.items() if each not in gone},
        )

    def topic_ids(self) -> list[bytes]:
        """All that the share coordinator may know of."""
        return sorted({*self.initializing, *self.initialized, *self.deleting})

    def has_any(self, topic_ids: Iterable[bytes]) -> bool:
        return any(each in self.initializing or each in self.initialized or each in self.deleting for each in topic_ids)


def partitions_record(group_id: str, partitions: SharePartitions) -> StoredRecord:
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_stored(partitions.initializing),
        initialized_topics=_stored(partitions.initialized),
        deleting_topics=[
            TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in sorted(partitions.deleting.items())
        ],
    )
    return StoredRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def read_partitions(value: ShareGroupStatePartitionMetadataValue) -> SharePartitions:
    return SharePartitions(
        _read(value.initializing_topics),
        _read(value.initialized_topics),
        {each.topic_id: each.topic_name for each in value.deleting_topics},
    )


def _stored(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in sorted(topics.items())
    ]


def _read(topics: Iterable[TopicPartitionsInfo]) -> dict[bytes, SharedTopic]:
    return {each.topic_id: SharedTopic(each.topic_name, frozenset(each.partitions)) for each in topics}


def _added(topics: Topics, more: Topics) -> dict[bytes, SharedTopic]:
    found = dict(topics)
    for topic_id, topic in more.items():
        known = found.get(topic_id)
        found[topic_id] = topic if known is None else SharedTopic(topic.name, known.partitions | topic.partitions)
    return found


def _without(topics: Topics, less: Topics) -> dict[bytes, SharedTopic]:
    found = {}
    for topic_id, topic in topics.items():
        left = topic.partitions - (less[topic_id].partitions if topic_id in less else frozenset())
        if left:
            found[topic_id] = SharedTopic(topic.name, left)
    return found
