"""The committed offsets of a shard's groups, and those that wait for the end of a transaction.

All of it is what `replay` and `end_of_transaction` made of the log; nothing else changes it.

1. An offset inside a transaction is pending under its producer id. A commit marker makes it the group's offset, unless
   a younger record was committed meanwhile: where a record stands in the log decides, not when its marker came,
   because compaction keeps the younger record alone.
2. A tombstone removes the offset and every pending one of that partition.
3. Empty inner maps are never kept: that a group is in the map means that it has offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.light_tuples import NamedTuple
from ottla.protocol.stored.offsets import OffsetCommitKey, OffsetCommitValue
from ottla.values import TopicPartition

NO_PRODUCER = -1


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int  # -1: the group's retention decides
    topic_id: bytes
    record_offset: int  # where the record stands in the log


class PendingKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


class OffsetStore:
    def __init__(self) -> None:
        self._committed: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._pending: dict[int, dict[PendingKey, CommittedOffset]] = {}  # by producer id
        self._open: dict[str, dict[TopicPartition, set[int]]] = {}  # producer ids, by group and partition

    # -- questions ---------------------------------------------------------------------------------------------------

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._committed.get(group_id, {}).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self._committed.get(group_id, {})

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        return TopicPartition(topic, partition) in self._open.get(group_id, ())

    def has_any_pending(self, group_id: str) -> bool:
        return group_id in self._open

    def partitions_of(self, group_id: str) -> Iterator[TopicPartition]:
        """Every partition that the group has an offset for, committed or pending, once."""
        for topic, partitions in self.of_group(group_id).items():
            for partition in partitions:
                yield TopicPartition(topic, partition)
        for name in self._open.get(group_id, ()):
            if self.get(group_id, *name) is None:
                yield name

    def of_deleted_topic(self, topic: str, topic_id: bytes) -> Iterator[PendingKey]:
        """Every offset for that topic; an offset with another topic id belongs to another topic of that name."""
        committed = (
            (PendingKey(group_id, topic, partition), each)
            for group_id, topics in self._committed.items()
            for partition, each in topics.get(topic, {}).items()
        )
        pending = ((key, each) for offsets in self._pending.values() for key, each in offsets.items())
        seen: set[PendingKey] = set()
        for key, each in (*committed, *pending):
            if key.topic == topic and key not in seen and (not any(each.topic_id) or each.topic_id == topic_id):
                seen.add(key)
                yield key

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, *, offset: int, producer_id: int) -> None:
        place = PendingKey(key.group, key.topic, key.partition)
        if value is None:
            self._remove(place)
        elif producer_id == NO_PRODUCER:
            self._put(place, _committed(value, offset))
        else:
            self._pending.setdefault(producer_id, {})[place] = _committed(value, offset)
            by_partition = self._open.setdefault(place.group_id, {})
            by_partition.setdefault(TopicPartition(place.topic, place.partition), set()).add(producer_id)

    def end_of_transaction(self, producer_id: int, *, committed: bool) -> None:
        for place, pending in self._pending.pop(producer_id, {}).items():
            self._close(place, producer_id)
            known = self.get(*place)
            if committed and (known is None or pending.record_offset > known.record_offset):
                self._put(place, pending)

    def _put(self, place: PendingKey, value: CommittedOffset) -> None:
        self._committed.setdefault(place.group_id, {}).setdefault(place.topic, {})[place.partition] = value

    def _remove(self, place: PendingKey) -> None:
        topics = self._committed.get(place.group_id, {})
        partitions = topics.get(place.topic, {})
        if partitions.pop(place.partition, None) is not None and not partitions:
            del topics[place.topic]
            if not topics:
                del self._committed[place.group_id]
        open_ids = self._open.get(place.group_id, {}).get(TopicPartition(place.topic, place.partition), set())
        for producer_id in list(open_ids):
            del self._pending[producer_id][place]
            if not self._pending[producer_id]:
                del self._pending[producer_id]
            self._close(place, producer_id)

    def _close(self, place: PendingKey, producer_id: int) -> None:
        by_partition = self._open[place.group_id]
        name = TopicPartition(place.topic, place.partition)
        by_partition[name].discard(producer_id)
        if not by_partition[name]:
            del by_partition[name]
            if not by_partition:
                del self._open[place.group_id]


def _committed(value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        topic_id=value.topic_id,
        record_offset=record_offset,
    )
