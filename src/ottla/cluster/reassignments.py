"""Plans for AlterPartitionReassignments and ListPartitionReassignments.

1. A target without new brokers is reached at once: the order changes, or replicas go. A target with new brokers only
   begins here: they are noted as adding, those that will go as removing, and the controller ends the move when the new
   ones are in sync. On a single broker the second never happens, because there is no other broker to name.
2. Cancelling gives back what was before: the replicas without those that were being added.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cluster.changes import Change, ChangePartition
from ottla.cluster.elections import led_by
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import NO_LEADER, Partition
from ottla.cluster.placement import check_assignment, default_directory
from ottla.cluster.plan import FINE, Plan, refusal
from ottla.errors import (
    BrokerError,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from ottla.light_dataclasses import replace
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_partition_reassignments(
    image: ClusterImage, request: AlterPartitionReassignmentsRequest
) -> Plan[ReassignableTopicResponse]:
    """Begin or cancel moves of partitions."""
    changes: list[Change] = []
    answers = []
    for topic in request.topics:
        results = [_altered(image, topic.name, each, request, changes) for each in topic.partitions]
        answers.append(ReassignableTopicResponse(name=topic.name, partitions=results))
    return Plan(tuple(changes), answers)


def _altered(
    image: ClusterImage,
    name: str,
    target: ReassignablePartition,
    request: AlterPartitionReassignmentsRequest,
    changes: list[Change],
) -> ReassignablePartitionResponse:
    try:
        topic, partition = image.topic(name), image.partition(name, target.partition_index)
        if topic is None or partition is None:
            raise UnknownTopicOrPartition(f"unable to find partition {name}:{target.partition_index}")
        if target.replicas is None:
            changed = _cancelled(image, partition)
        else:
            check_assignment(image, target.replicas)
            if not request.allow_replication_factor_change:
                _check_factor(partition, target.replicas)
            changed = _moved(image, partition, tuple(target.replicas))
        if changed != partition:
            changes.append(ChangePartition(topic.id, target.partition_index, changed))
        return ReassignablePartitionResponse(partition_index=target.partition_index, **FINE)
    except BrokerError as error:
        return ReassignablePartitionResponse(partition_index=target.partition_index, **refusal(error))


def _check_factor(partition: Partition, replicas: Sequence[int]) -> None:
    present = len(set(partition.replicas) - set(partition.adding))
    if len(replicas) != present:
        raise InvalidReplicationFactor(f"the replication factor may not change from {present} to {len(replicas)}")


def _moved(image: ClusterImage, partition: Partition, target: tuple[int, ...]) -> Partition:
    before = tuple(each for each in partition.replicas if each not in partition.adding)
    adding = tuple(each for each in target if each not in before)
    removing = tuple(each for each in before if each not in target)
    if not adding and any(each in partition.isr for each in target):
        return _completed(image, partition, target)
    return replace(
        _with_replicas(image, partition, (*target, *removing)),
        adding=adding,
        removing=removing,
        partition_epoch=partition.partition_epoch + 1,
    )


def _cancelled(image: ClusterImage, partition: Partition) -> Partition:
    if not partition.is_reassigning:
        raise NoReassignmentInProgress
    before = tuple(each for each in partition.replicas if each not in partition.adding)
    if not any(each in partition.isr for each in before):
        raise InvalidReplicaAssignment("going back would need an unclean leader election")
    return _completed(image, partition, before)


def _completed(image: ClusterImage, partition: Partition, replicas: tuple[int, ...]) -> Partition:
    """The partition on exactly these brokers, led by one that is in sync."""
    isr = tuple(each for each in partition.isr if each in replicas)
    completed = replace(_with_replicas(image, partition, replicas), isr=isr, adding=(), removing=())
    if completed == partition:
        return partition
    if partition.leader in replicas:
        return replace(completed, partition_epoch=partition.partition_epoch + 1)
    able = (each for each in replicas if each in isr and image.is_active(each))
    return led_by(completed, next(able, NO_LEADER))


def _with_replicas(image: ClusterImage, partition: Partition, replicas: tuple[int, ...]) -> Partition:
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    directories = tuple(known[each] if each in known else default_directory(image, each) for each in replicas)
    return replace(partition, replicas=replicas, directories=directories if partition.directories else ())


def list_partition_reassignments(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> list[OngoingTopicReassignment]:
    """The moves under way; no topics asks for all."""
    if request.topics is None:
        asked = [(name, range(len(topic.partitions))) for name, topic in image.topics_by_name.items()]
    else:
        asked = [(each.name, each.partition_indexes) for each in request.topics]  # type: ignore[misc]
    ongoing_topics = []
    for name, indexes in asked:
        ongoing = [_ongoing(index, found) for index in indexes if (found := _reassigning(image, name, index))]
        if ongoing:
            ongoing_topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return ongoing_topics


def _reassigning(image: ClusterImage, name: str, index: int) -> Partition | None:
    partition = image.partition(name, index)
    return partition if partition is not None and partition.is_reassigning else None


def _ongoing(index: int, partition: Partition) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
    )
