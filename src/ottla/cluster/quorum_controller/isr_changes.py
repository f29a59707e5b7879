"""AlterPartition: a leader proposes another in-sync set, and the controller makes it true or says why not.

1. The checks and their order are Apache Kafka 4.3's, because a leader does different things for different errors: a
   newer epoch than ours means that we are a controller of yesterday (NOT_CONTROLLER), an older leader epoch that it is
   a leader of yesterday (FENCED_LEADER_EPOCH), an older partition epoch that it missed a change
   (INVALID_UPDATE_VERSION), members that are not there or are not who they were cannot be in sync (INELIGIBLE_REPLICA).
2. A change may end a reassignment, and so take the leadership from who asked: NEW_LEADER_ELECTED, though it was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.cluster.changes import Change, ChangePartition
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Partition, Topic
from ottla.cluster.plan import Plan
from ottla.cluster.quorum_controller.partition_changes import Wanted
from ottla.cluster.quorum_controller.registrations import registered_broker
from ottla.cluster.quorum_controller.rules import ControllerRules, Decider
from ottla.errors import (
    NONE,
    BrokerError,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotController,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

RECOVERING: Final = 1
UNKNOWN_EPOCH: Final = -1


def alter_partitions(
    image: ClusterImage, request: AlterPartitionRequest, rules: ControllerRules
) -> Plan[ResponseTopicData]:
    """Every partition stands for itself; only a broker that is not who it was is refused as a whole."""
    registered_broker(image, request.broker_id, request.broker_epoch)
    decider = Decider(image, rules)
    changes: list[Change] = []
    answers = []
    for asked in request.topics:
        topic = image.topic_by_id(asked.topic_id)
        results = [_answer(decider, topic, data, request.broker_id, changes) for data in asked.partitions]
        answers.append(ResponseTopicData(topic_id=asked.topic_id, partitions=results))
    return Plan(tuple(changes), answers)


def _answer(
    decider: Decider, topic: Topic | None, data: PartitionData, sender: int, changes: list[Change]
) -> ResponsePartitionData:
    index = data.partition_index
    try:
        if topic is None:
            raise UnknownTopicId
        if not 0 <= index < len(topic.partitions):
            raise UnknownTopicOrPartition
        before = topic.partitions[index]
        after = _altered(decider, topic, before, data, sender)
        if after is not before:
            changes.append(ChangePartition(topic.id, index, after))
        if after.leader != sender:
            raise NewLeaderElected
    except BrokerError as error:
        return ResponsePartitionData(
            partition_index=index, error_code=error.code, leader_id=0, leader_epoch=0, isr=[], partition_epoch=0
        )
    return ResponsePartitionData(
        partition_index=index,
        error_code=NONE,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=list(after.isr),
        leader_recovery_state=int(after.recovering),
        partition_epoch=after.partition_epoch,
    )


def _altered(decider: Decider, topic: Topic, before: Partition, data: PartitionData, sender: int) -> Partition:
    if data.leader_epoch > before.leader_epoch or data.partition_epoch > before.partition_epoch:
        raise NotController("the request knows a newer epoch than this controller")
    if data.leader_epoch < before.leader_epoch:
        raise FencedLeaderEpoch
    if sender != before.leader:
        raise InvalidRequest(f"broker {sender} proposes an in-sync set, but the leader is {before.leader}")
    if data.partition_epoch < before.partition_epoch:
        raise InvalidUpdateVersion
    proposed = _proposed(data)
    isr = tuple(each.broker_id for each in proposed)
    recovering = data.leader_recovery_state == RECOVERING
    _check_proposal(before, isr, recovering=recovering)
    _check_eligible(decider.image, proposed)
    return decider.changed(topic, before, Wanted(isr=isr, recovering=recovering))


def _proposed(data: PartitionData) -> list[BrokerState]:
    old = [BrokerState(broker_id=each, broker_epoch=UNKNOWN_EPOCH) for each in data.new_isr]
    return data.new_isr_with_epochs or old


def _check_proposal(before: Partition, isr: tuple[int, ...], *, recovering: bool) -> None:
    if before.leader not in isr or not set(isr) <= set(before.replicas) or len(set(isr)) != len(isr):
        raise InvalidRequest(f"{list(isr)} cannot be in sync: the leader and none but replicas must be in it, once")
    if recovering and len(isr) > 1:
        raise InvalidRequest("while the leader recovers nobody else can be in sync")
    if recovering and not before.recovering:
        raise InvalidRequest("a leader that has recovered does not recover again")


def _check_eligible(image: ClusterImage, proposed: Sequence[BrokerState]) -> None:
    for each in proposed:
        broker = image.brokers.get(each.broker_id)
        if broker is None or not broker.is_active:
            raise IneligibleReplica(f"broker {each.broker_id} is not there, fenced, or stopping")
        if each.broker_epoch not in (UNKNOWN_EPOCH, broker.epoch):
            raise IneligibleReplica(f"broker {each.broker_id} came back since it was seen in sync")
