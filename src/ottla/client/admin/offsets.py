"""Where partitions begin and end, and which offset belongs to a time."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ottla.client.admin.plans import Plan, Route, by_topic, error_of
from ottla.client.arguments import whole_number
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.protocol.messages import list_offsets
from ottla.protocol.schema import Message
from ottla.values import OffsetAndTimestamp, TopicPartition


class OffsetSpec(enum.IntEnum):
    """Places in a partition that have names."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


Place: TypeAlias = OffsetSpec | int
"""A named place, or a time in milliseconds: the first offset at or after it."""

IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]


def place_of(value: object) -> Place:
    return value if isinstance(value, OffsetSpec) else whole_number(value, "a time in milliseconds")


@dataclass(frozen=True)
class ListOffsets(Plan[TopicPartition, OffsetAndTimestamp]):
    """The offset is -1 where no record is as late as the time asked for."""

    route = Route.LEADER
    final = ()  # a leader that was just elected may not know its partition yet

    places: Mapping[TopicPartition, Place]
    isolation_level: IsolationLevel = "read_uncommitted"

    def request(self, keys: Sequence[TopicPartition], timeout_ms: int) -> Message:
        topics = [
            list_offsets.ListOffsetsTopic(name=topic, partitions=[self._partition(topic, each) for each in indexes])
            for topic, indexes in by_topic(keys).items()
        ]
        level = int(self.isolation_level == "read_committed")
        return list_offsets.ListOffsetsRequest(
            replica_id=-1, isolation_level=level, topics=topics, timeout_ms=timeout_ms
        )

    def _partition(self, topic: str, index: int) -> list_offsets.ListOffsetsPartition:
        place = self.places[TopicPartition(topic, index)]
        return list_offsets.ListOffsetsPartition(partition_index=index, timestamp=int(place))

    def results(
        self, keys: Sequence[TopicPartition], response: Any
    ) -> Iterator[tuple[TopicPartition, OffsetAndTimestamp | OttlaError]]:
        for topic in response.topics:
            for each in topic.partitions:
                epoch = None if each.leader_epoch < 0 else each.leader_epoch
                found = OffsetAndTimestamp(each.offset, each.timestamp, epoch)
                yield TopicPartition(topic.name, each.partition_index), error_of(each) or found
