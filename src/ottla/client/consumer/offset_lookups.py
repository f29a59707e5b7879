"""Questions about offsets, cut into one request per leader: ListOffsets and OffsetForLeaderEpoch. Plain.

1. A question goes to the leader of its partition; without a known leader it waits for metadata.
2. An answer gives, per partition: an offset, "nothing there" (no record at or after that time), or an error. Errors
   that may pass are asked again, by whoever drives this; the others are raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.metadata import Metadata
from ottla.errors import BrokerError, broker_error
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.values import Node, OffsetAndTimestamp, TopicPartition

CONSUMER_REPLICA_ID = -1
# Timestamps below -2 and requests before version 1 are not ours; version 7 knows the largest timestamp.


class ListedOffsets(NamedTuple):
    """What one answer said."""

    found: dict[TopicPartition, OffsetAndTimestamp | None]
    errors: dict[TopicPartition, BrokerError]


def by_leader(
    partitions: Iterable[TopicPartition], metadata: Metadata
) -> tuple[dict[Node, list[TopicPartition]], list[TopicPartition]]:
    """Partitions by the node that leads them, and those whose leader is not known."""
    known: dict[Node, list[TopicPartition]] = {}
    unknown: list[TopicPartition] = []
    for name in partitions:
        node = metadata.leader_of(name)
        if node is None:
            unknown.append(name)
        else:
            known.setdefault(node, []).append(name)
    return known, unknown


def list_offsets_request(
    timestamps: Mapping[TopicPartition, int], metadata: Metadata, *, isolation: int, timeout_ms: int
) -> ListOffsetsRequest:
    """One request for partitions that one node leads."""
    topics: dict[str, ListOffsetsTopic] = {}
    for name, timestamp in timestamps.items():
        topic = topics.setdefault(name.topic, ListOffsetsTopic(name=name.topic, partitions=[]))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=name.partition,
                current_leader_epoch=_epoch(metadata, name),
                timestamp=timestamp,
            )
        )
    return ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=isolation,
        topics=list(topics.values()),
        timeout_ms=timeout_ms,
    )


def listed_offsets(response: ListOffsetsResponse) -> ListedOffsets:
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    errors: dict[TopicPartition, BrokerError] = {}
    for topic in response.topics:
        for each in topic.partitions:
            name = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                errors[name] = broker_error(each.error_code, str(name))
            elif each.offset < 0:
                found[name] = None
            else:
                epoch = each.leader_epoch if each.leader_epoch >= 0 else None
                found[name] = OffsetAndTimestamp(each.offset, each.timestamp, epoch)
    return ListedOffsets(found, errors)


def epochs_request(epochs: Mapping[TopicPartition, int], metadata: Metadata) -> OffsetForLeaderEpochRequest:
    """Where does each of these epochs end in the log of the leader?"""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for name, epoch in epochs.items():
        topic = topics.setdefault(name.topic, OffsetForLeaderTopic(topic=name.topic, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=name.partition, current_leader_epoch=_epoch(metadata, name), leader_epoch=epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values()))


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


def epoch_ends(
    response: OffsetForLeaderEpochResponse,
) -> tuple[dict[TopicPartition, EpochEnd], dict[TopicPartition, BrokerError]]:
    found: dict[TopicPartition, EpochEnd] = {}
    errors: dict[TopicPartition, BrokerError] = {}
    for topic in response.topics:
        for each in topic.partitions:
            name = TopicPartition(topic.topic, each.partition)
            if each.error_code:
                errors[name] = broker_error(each.error_code, str(name))
            else:
                found[name] = EpochEnd(each.leader_epoch, each.end_offset)
    return found, errors


def _epoch(metadata: Metadata, name: TopicPartition) -> int:
    info = metadata.partition(name)
    return -1 if info is None or info.leader_epoch is None else info.leader_epoch
