"""Orders of the controller, read: what LeaderAndIsr and StopReplica say at any version, partition by partition.

Versions group partitions differently and put the answers of partitions in different places; here they are alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.cluster import model
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from ottla.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from ottla.values import ZERO_UUID, TopicPartition

TOPIC_IDS_SINCE: Final = 5
NO_EPOCH: Final = -1
EPOCH_DURING_DELETE: Final = -2


class Role(NamedTuple):
    """What this broker is to be for a partition. `topic_id` is None for a controller that does not know it."""

    name: TopicPartition
    topic_id: bytes | None
    state: model.Partition
    is_new: bool


class Stop(NamedTuple):
    """A replica that is to stop. The epoch may be NO_EPOCH (not sent) or EPOCH_DURING_DELETE (whatever ours is)."""

    name: TopicPartition
    leader_epoch: int
    deletes: bool

    def is_for(self, leader_epoch: int) -> bool:
        """Whether it is not older than what we know."""
        return self.leader_epoch in (NO_EPOCH, EPOCH_DURING_DELETE) or self.leader_epoch >= leader_epoch


def roles(request: LeaderAndIsrRequest) -> Iterator[Role]:
    for each in request.ungrouped_partition_states:
        yield _role(each.topic_name, None, each)
    for topic in request.topic_states:
        topic_id = topic.topic_id if topic.topic_id != ZERO_UUID else None
        for each in topic.partition_states:
            yield _role(topic.topic_name, topic_id, each)


def _role(topic: str, topic_id: bytes | None, ordered: LeaderAndIsrPartitionState) -> Role:
    state = model.Partition(
        replicas=tuple(ordered.replicas),
        isr=tuple(ordered.isr),
        leader=ordered.leader,
        leader_epoch=ordered.leader_epoch,
        partition_epoch=ordered.partition_epoch,
        adding=tuple(ordered.adding_replicas),
        removing=tuple(ordered.removing_replicas),
        recovering=bool(ordered.leader_recovery_state),
    )
    return Role(TopicPartition(topic, ordered.partition_index), topic_id, state, ordered.is_new)


def roles_answer(
    request: LeaderAndIsrRequest, codes: Mapping[TopicPartition, int], version: int
) -> LeaderAndIsrResponse:
    """The answer to an order with the error code of each of its partitions."""
    if version >= TOPIC_IDS_SINCE:
        topics = [
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    LeaderAndIsrPartitionError(
                        partition_index=each.partition_index,
                        error_code=codes[TopicPartition(topic.topic_name, each.partition_index)],
                    )
                    for each in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ]
        return LeaderAndIsrResponse(error_code=0, topics=topics)
    errors = [
        LeaderAndIsrPartitionError(topic_name=name.topic, partition_index=name.partition, error_code=code)
        for name, code in codes.items()
    ]
    return LeaderAndIsrResponse(error_code=0, partition_errors=errors)


def stops(request: StopReplicaRequest) -> Iterator[Stop]:
    deletes = request.delete_partitions
    for one in request.ungrouped_partitions:
        yield Stop(TopicPartition(one.topic_name, one.partition_index), NO_EPOCH, deletes)
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield Stop(TopicPartition(topic.name, index), NO_EPOCH, deletes)
    for state in request.topic_states:
        for each in state.partition_states:
            yield Stop(TopicPartition(state.topic_name, each.partition_index), each.leader_epoch, each.delete_partition)


def stops_answer(codes: Mapping[TopicPartition, int]) -> StopReplicaResponse:
    errors = [
        StopReplicaPartitionError(topic_name=name.topic, partition_index=name.partition, error_code=code)
        for name, code in codes.items()
    ]
    return StopReplicaResponse(error_code=0, partition_errors=errors)
