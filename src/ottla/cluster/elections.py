"""The plan for ElectLeaders.

1. Preferred: the first replica leads, if it is alive and in sync. Unclean: a partition without a leader gets one, from
   the in-sync set, else from the eligible ones, else any replica that lives, which may lose records.
2. A partition that has what it should have is ELECTION_NOT_NEEDED; when all partitions were meant, it is left out.
3. Every new leader begins a new leader epoch.
4. The only broker of a cluster leads again, after a start, what it can lead: what it led before a crash in a new epoch,
   because records that nobody was promised may be gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from ottla.cluster.changes import Change, ChangePartition
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import NO_LEADER, Partition
from ottla.cluster.plan import FINE, Plan, refusal
from ottla.errors import (
    BrokerError,
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ottla.light_dataclasses import replace
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, PartitionResult, ReplicaElectionResult


class ElectionType(IntEnum):
    """Who may win."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(image: ClusterImage, request: ElectLeadersRequest) -> Plan[ReplicaElectionResult]:
    """Elect leaders for the partitions of the request, or for all when it names none."""
    if request.election_type not in tuple(ElectionType):
        raise InvalidRequest(f"unknown election type {request.election_type}")
    kind = ElectionType(request.election_type)
    changes: list[Change] = []
    answers = []
    for name, indexes in _asked(image, request):
        results = [_elected(image, name, index, kind, changes) for index in indexes]
        if request.topic_partitions is None:
            results = [each for each in results if each.error_code != ElectionNotNeeded.code]
        answers.append(ReplicaElectionResult(topic=name, partition_result=results))
    return Plan(tuple(changes), answers)


def _asked(image: ClusterImage, request: ElectLeadersRequest) -> list[tuple[str, list[int]]]:
    if request.topic_partitions is None:
        return [(name, list(range(len(topic.partitions)))) for name, topic in image.topics_by_name.items()]
    return [(each.topic, each.partitions) for each in request.topic_partitions]


def _elected(image: ClusterImage, name: str, index: int, kind: ElectionType, changes: list[Change]) -> PartitionResult:
    try:
        topic, partition = image.topic(name), image.partition(name, index)
        if topic is None or partition is None:
            raise UnknownTopicOrPartition(f"no such partition as {name}-{index}")
        changes.append(ChangePartition(topic.id, index, _with_leader(image, partition, kind)))
        return PartitionResult(partition_id=index, **FINE)
    except BrokerError as error:
        return PartitionResult(partition_id=index, **refusal(error))


def _with_leader(image: ClusterImage, partition: Partition, kind: ElectionType) -> Partition:
    if kind is ElectionType.PREFERRED:
        preferred = partition.replicas[0]
        if partition.leader == preferred:
            raise ElectionNotNeeded
        if preferred not in partition.isr or not image.is_active(preferred):
            raise PreferredLeaderNotAvailable
        return led_by(partition, preferred)
    if partition.leader != NO_LEADER:
        raise ElectionNotNeeded
    return _uncleanly_led(image, partition)


def _uncleanly_led(image: ClusterImage, partition: Partition) -> Partition:
    alive = [broker_id for broker_id in partition.replicas if image.is_active(broker_id)]
    for known in (partition.isr, partition.elr):
        if clean := [broker_id for broker_id in alive if broker_id in known]:
            isr = partition.isr if clean[0] in partition.isr else (clean[0],)
            return led_by(replace(partition, isr=isr), clean[0])
    if not alive:
        raise EligibleLeadersNotAvailable
    return led_by(replace(partition, isr=(alive[0],), elr=(), recovering=True), alive[0])


def led_again(image: ClusterImage, broker_id: int, *, stopped_in_order: bool) -> Iterator[ChangePartition]:
    """The partitions that the only broker leads from this start on, and did not lead or led until a crash."""
    for topic in image.topics_by_name.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader == broker_id and stopped_in_order:
                continue
            if partition.leader == broker_id or broker_id in (
                *partition.isr,
                *partition.elr,
                *partition.last_known_elr,
            ):
                isr = partition.isr if broker_id in partition.isr else (broker_id,)
                after = replace(partition, isr=isr, elr=(), last_known_elr=(), recovering=False)
                yield ChangePartition(topic.id, index, led_by(after, broker_id))


def led_by(partition: Partition, leader: int) -> Partition:
    """The partition with another leader, in a new leader epoch."""
    return replace(
        partition,
        leader=leader,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
    )
