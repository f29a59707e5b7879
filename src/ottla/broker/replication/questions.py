"""What a follower asks beside fetching: where an epoch ends, where the leader's log ends and starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.values import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2


class About(NamedTuple):
    """A partition that is asked about, in the leader epoch that it is followed in, and the last epoch of its log."""

    name: TopicPartition
    leader_epoch: int
    latest_epoch: int


def ask_epoch_ends(broker_id: int, asked: Iterable[About]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for name, leader_epoch, latest_epoch in asked:
        topic = topics.setdefault(name.topic, OffsetForLeaderTopic(topic=name.topic, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=name.partition, current_leader_epoch=leader_epoch, leader_epoch=latest_epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=broker_id, topics=list(topics.values()))


def ask_offsets(broker_id: int, asked: Iterable[About], timestamp: int) -> ListOffsetsRequest:
    """The ends (LATEST) or starts (EARLIEST) of the leader's logs."""
    topics: dict[str, ListOffsetsTopic] = {}
    for name, leader_epoch, _ in asked:
        topic = topics.setdefault(name.topic, ListOffsetsTopic(name=name.topic, partitions=[]))
        topic.partitions.append(
            ListOffsetsPartition(partition_index=name.partition, current_leader_epoch=leader_epoch, timestamp=timestamp)
        )
    return ListOffsetsRequest(replica_id=broker_id, topics=list(topics.values()))
