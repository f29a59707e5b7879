"""Orders of the controller, read: what LeaderAndIsr and StopReplica say at any version, partition by partition.

Versions group partitions differently and put the answers of partitions in different places; here they are alike: orders
become roles (roles.py), and what was refused becomes the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ottla.broker.replication.roles import NO_EPOCH, NoRole, Role
from ottla.cluster import model
from ottla.cluster.image import ClusterImage
from ottla.errors import BrokerError
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
    request: LeaderAndIsrRequest, refused: Mapping[TopicPartition, BrokerError], version: int
) -> LeaderAndIsrResponse:
    """The answer to an order of whose partitions some were refused."""
    if version >= TOPIC_IDS_SINCE:
        topics = [
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    LeaderAndIsrPartitionError(
                        partition_index=each.partition_index,
                        error_code=_code(refused, TopicPartition(topic.topic_name, each.partition_index)),
                    )
                    for each in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ]
        return LeaderAndIsrResponse(error_code=0, topics=topics)
    errors = [
        LeaderAndIsrPartitionError(
            topic_name=role.name.topic, partition_index=role.name.partition, error_code=_code(refused, role.name)
        )
        for role in roles(request)
    ]
    return LeaderAndIsrResponse(error_code=0, partition_errors=errors)


def stops(request: StopReplicaRequest, image: ClusterImage) -> Iterator[NoRole]:
    """The image tells which topic has the name now."""
    deletes = request.delete_partitions
    for one in request.ungrouped_partitions:
        yield _stop(image, one.topic_name, one.partition_index, deletes)
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield _stop(image, topic.name, index, deletes)
    for state in request.topic_states:
        for each in state.partition_states:
            yield _stop(image, state.topic_name, each.partition_index, each.delete_partition, each.leader_epoch)


def _stop(image: ClusterImage, topic: str, index: int, deletes: bool, leader_epoch: int = NO_EPOCH) -> NoRole:
    return NoRole(TopicPartition(topic, index), image.topic_id(topic), leader_epoch, deletes)


def stops_answer(names: Iterable[TopicPartition], refused: Mapping[TopicPartition, BrokerError]) -> StopReplicaResponse:
    errors = [
        StopReplicaPartitionError(
            topic_name=name.topic, partition_index=name.partition, error_code=_code(refused, name)
        )
        for name in names
    ]
    return StopReplicaResponse(error_code=0, partition_errors=errors)


def _code(refused: Mapping[TopicPartition, BrokerError], name: TopicPartition) -> int:
    return refused[name].code if name in refused else 0
