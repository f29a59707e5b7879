"""AlterPartition: a leader proposes another in-sync set, and the controller makes it true or says why not.

1. The checks and their order are Apache Kafka 3.9's, because a leader does different things for different errors:
   a newer epoch than ours means that we are a controller of yesterday (NOT_CONTROLLER), an older leader epoch that it
   is a leader of yesterday (FENCED_LEADER_EPOCH), an older partition epoch that it missed a change
   (INVALID_UPDATE_VERSION), members that are not there or are not who they were cannot be in sync (INELIGIBLE_REPLICA).
2. What is so already is answered as done, whatever partition epoch it came with: an answer was lost.
3. The leader epoch stays; the partition epoch is the next. Brokers hear of it by UpdateMetadata, the leader by the
   answer. Moves that waited for a replica to be in sync are checked next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.cluster.changes import Change, ChangePartition
from ottla.cluster.controller.events import AlterPartitionAsked, ReassignmentsDue
from ottla.cluster.controller.leaders import with_isr
from ottla.cluster.controller.state import ControllerState, Decided, is_being_deleted
from ottla.cluster.model import Partition, Topic
from ottla.errors import (
    NONE,
    BrokerError,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.light_dataclasses import replace
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.values import TopicPartition

RECOVERING: Final = 1
UNKNOWN_EPOCH: Final = -1


def alter_partition(state: ControllerState, event: AlterPartitionAsked) -> Decided:
    """Every partition stands for itself; only a broker that is not who it was is refused as a whole."""
    request = event.request
    broker = state.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return Decided(state, replies=(AlterPartitionResponse(error_code=StaleBrokerEpoch.code, topics=[]),))
    changes: list[Change] = []
    answers = []
    moving = []
    for asked in request.topics:
        topic = state.image.topic_by_id(asked.topic_id)
        results = []
        for data in asked.partitions:
            results.append(_answer(state, topic, data, request, changes))
            if topic is not None and results[-1].error_code == NONE:
                moving.append(TopicPartition(topic.name, data.partition_index))
        answers.append(ResponseTopicData(topic_id=asked.topic_id, partitions=results))
    return Decided(
        state,
        tuple(changes),
        (AlterPartitionResponse(error_code=NONE, topics=answers),),
        then=_due(state, moving),
    )


def _due(state: ControllerState, names: Iterable[TopicPartition]) -> tuple[ReassignmentsDue, ...]:
    found = tuple(each for each in names if (partition := state.image.partition(*each)) and partition.is_reassigning)
    return (ReassignmentsDue(found),) if found else ()


def _answer(
    state: ControllerState,
    topic: Topic | None,
    data: PartitionData,
    request: AlterPartitionRequest,
    changes: list[Change],
) -> ResponsePartitionData:
    try:
        if topic is None:
            raise UnknownTopicId
        before = state.image.partition(topic.name, data.partition_index)
        if before is None or is_being_deleted(state.image, topic.name):
            raise UnknownTopicOrPartition
        after = _altered(state, TopicPartition(topic.name, data.partition_index), before, data, request)
    except BrokerError as error:
        return _refused(data.partition_index, error)
    if after is not before:
        changes.append(ChangePartition(topic.id, data.partition_index, after))
    return ResponsePartitionData(
        partition_index=data.partition_index,
        error_code=NONE,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=list(after.isr),
        leader_recovery_state=int(after.recovering),
        partition_epoch=after.partition_epoch,
    )


def _refused(index: int, error: BrokerError) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=index, error_code=error.code, leader_id=0, leader_epoch=0, isr=[], partition_epoch=0
    )


def _altered(
    state: ControllerState, name: TopicPartition, before: Partition, data: PartitionData, request: AlterPartitionRequest
) -> Partition:
    proposed = _proposed(data)
    isr = tuple(each.broker_id for each in proposed)
    recovering = data.leader_recovery_state == RECOVERING
    if data.partition_epoch > before.partition_epoch or data.leader_epoch > before.leader_epoch:
        raise NotController("the request knows a newer epoch than this controller")
    if data.leader_epoch < before.leader_epoch:
        raise FencedLeaderEpoch
    if before.leader == request.broker_id and set(isr) == set(before.isr) and recovering == before.recovering:
        return before
    if data.partition_epoch < before.partition_epoch:
        raise InvalidUpdateVersion
    _check_proposal(before, isr, request.broker_id, recovering=recovering)
    _check_eligible(state, name, before, proposed)
    topic_min = state.rules.min_insync_replicas(state.image, name.topic)
    ordered = [each for each in before.isr if each in isr] + [each for each in isr if each not in before.isr]
    after = with_isr(before, ordered, topic_min)
    return replace(after, recovering=recovering, partition_epoch=before.partition_epoch + 1)


def _proposed(data: PartitionData) -> list[BrokerState]:
    old = [BrokerState(broker_id=each, broker_epoch=UNKNOWN_EPOCH) for each in data.new_isr]
    return data.new_isr_with_epochs or old


def _check_proposal(before: Partition, isr: tuple[int, ...], sender: int, *, recovering: bool) -> None:
    if sender != before.leader:
        raise InvalidRequest(f"broker {sender} proposes an in-sync set, but the leader is {before.leader}")
    if before.leader not in isr or not set(isr) <= set(before.replicas) or len(set(isr)) != len(isr):
        raise InvalidRequest(f"{list(isr)} cannot be in sync: the leader and none but replicas must be in it, once")
    if recovering and len(isr) > 1:
        raise InvalidRequest("while the leader recovers nobody else can be in sync")
    if recovering and not before.recovering:
        raise InvalidRequest("a leader that has recovered does not recover again")


def _check_eligible(
    state: ControllerState, name: TopicPartition, before: Partition, proposed: Iterable[BrokerState]
) -> None:
    for each in proposed:
        if each.broker_id != before.leader and not state.may_lead(name, each.broker_id):
            raise IneligibleReplica(f"broker {each.broker_id} is not there, or shutting down")
        known = state.image.brokers.get(each.broker_id)
        if known is not None and each.broker_epoch not in (UNKNOWN_EPOCH, known.epoch):
            raise IneligibleReplica(f"broker {each.broker_id} came back since it was seen in sync")
