"""decide: an event and what the controller knows give changes, replies and what it knows next.

    decided = decide(state, event)                        nothing has happened yet
    image = store.observe(decided.observed), then store.commit(decided.changes)
    after = advanced(state, decided, image)
    for order in orders(state, after, ...): channel.put(order)

This file only finds the one who decides; see the package's story for the files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ottla.cluster.brokers import allocate_producer_ids
from ottla.cluster.changes import (
    AddPartitions,
    Change,
    ChangePartition,
    CreateTopic,
    RemoveTopic,
    SetStoredValue,
    apply_all,
)
from ottla.cluster.controller import broker_changes, controlled_shutdown, isr_changes, leader_rebalance, reassignment
from ottla.cluster.controller import partition_states as partitions
from ottla.cluster.controller import topic_deletion as deletion
from ottla.cluster.controller import topics_found as found
from ottla.cluster.controller.admin_changes import admitted
from ottla.cluster.controller.events import (
    AlterPartitionAsked,
    BrokerFellBehind,
    ChangeAsked,
    ControllerEvent,
    LeaderAndIsrAnswered,
    ProducerIdsAsked,
    ReassignmentsDue,
    RebalanceDue,
    ReplicasStopped,
    SettingsChanged,
    ShutdownAsked,
    TookOver,
)
from ottla.cluster.controller.settings_changes import affect_elections, settings_changed, without_eligible
from ottla.cluster.controller.state import ControllerState, Decided
from ottla.cluster.image import ClusterImage
from ottla.cluster.store.events import (
    DELETION_ASKED,
    BrokersChanged,
    DeletionsAsked,
    ElectionAsked,
    LogDirFailed,
    PartitionStatesChanged,
    ReassignmentAsked,
    TopicsChanged,
)
from ottla.errors import NONE, BrokerError
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from ottla.values import TopicPartition


def decide(state: ControllerState, event: ControllerEvent) -> Decided:
    """What follows from the event. Nothing has happened yet when it returns.

    A BrokerError of an administrator's plan goes to the requester. IllegalMove when a partition or replica would move
    as its table does not allow: then the decision is wrong, and must not be committed."""
    decided = _DECIDERS[type(event)](state, event)
    observed = apply_all(state.image, decided.observed)
    image = apply_all(observed, decided.changes)
    for name in touched(observed, image, decided.changes):
        partitions.check(name, observed, image)
    advanced(state, decided, image)
    return decided


def advanced(before: ControllerState, decided: Decided, image: ClusterImage) -> ControllerState:
    """What the controller knows when the decision is true."""
    return deletion.continued(before, decided.state.with_image(image))


def topics_of(before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> set[str]:
    """The names of the topics that changes are about."""
    return {name.topic for name in touched(before, after, changes)}


def touched(before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> set[TopicPartition]:
    """The partitions that changes are about; of whole topics where all of it changes."""
    names: set[TopicPartition] = set()
    for change in changes:
        if isinstance(change, ChangePartition):
            names.add(TopicPartition(_name(before, after, change.topic_id), change.index))
        elif isinstance(change, CreateTopic):
            names |= _all(after, change.topic.name)
        elif isinstance(change, AddPartitions):
            names |= _all(after, _name(before, after, change.topic_id))
        elif isinstance(change, RemoveTopic):
            names |= _all(before, _name(before, after, change.topic_id))
        elif isinstance(change, SetStoredValue) and change.key.kind == DELETION_ASKED:
            names |= _all(before, change.key.key)
    return names


def _name(before: ClusterImage, after: ClusterImage, topic_id: bytes) -> str:
    return after.topic_name(topic_id) or before.topic_name(topic_id) or ""


def _all(image: ClusterImage, topic: str) -> set[TopicPartition]:
    return {TopicPartition(topic, index) for index in range(image.partition_count(topic) or 0)}


# --- the small decisions ---------------------------------------------------------------------------------------------


def _took_over(state: ControllerState, event: TookOver) -> Decided:
    moving = tuple(name for name, partition in state.image.partitions() if partition.is_reassigning)
    notes = DeletionsAsked(tuple(key.key for key in state.image.stored_values if key.kind == DELETION_ASKED))
    useless = deletion.deletions_asked(state, notes).changes
    after = state.with_image(apply_all(state.image, useless))
    return Decided(
        state,
        (*useless, *broker_changes.changes_on_takeover(after)),
        resend_partitions=frozenset(state.image.brokers),
        then=(ReassignmentsDue(moving),),
    )


def _log_dir_failed(state: ControllerState, event: LogDirFailed) -> Decided:
    """Only the brokers know which replicas are lost: they report it when they get their partitions again."""
    known = frozenset(each for each in event.broker_ids if each in state.image.brokers)
    return Decided(deletion.tried_again(state, known), resend_partitions=known)


def _fell_behind(state: ControllerState, event: BrokerFellBehind) -> Decided:
    broker = state.image.brokers.get(event.broker_id)
    is_same = broker is not None and broker.epoch == event.broker_epoch
    return Decided(state, resend_everything=frozenset([event.broker_id] if is_same else ()))


def _producer_ids(state: ControllerState, event: ProducerIdsAsked) -> Decided:
    request = event.request
    try:
        change, block = allocate_producer_ids(state.image, request.broker_id, request.broker_epoch)
    except BrokerError as error:
        refused = AllocateProducerIdsResponse(error_code=error.code, producer_id_start=-1, producer_id_len=0)
        return Decided(state, replies=(refused,))
    allocated = AllocateProducerIdsResponse(error_code=NONE, producer_id_start=block.first, producer_id_len=block.size)
    return Decided(state, (change,), (allocated,))


def _change_asked(state: ControllerState, event: ChangeAsked) -> Decided:
    plan = event.make_plan(state.image)
    changes = admitted(state.image, plan.changes)
    then = (SettingsChanged(changes),) if affect_elections(changes) else ()
    return Decided(state, (*without_eligible(state.image, changes), *changes), (plan,), then=then)


_DECIDERS: Final[Mapping[type, Callable[[ControllerState, Any], Decided]]] = {
    TookOver: _took_over,
    BrokersChanged: broker_changes.brokers_changed,
    LeaderAndIsrAnswered: broker_changes.leader_and_isr_answered,
    LogDirFailed: _log_dir_failed,
    BrokerFellBehind: _fell_behind,
    AlterPartitionAsked: isr_changes.alter_partition,
    ShutdownAsked: controlled_shutdown.shut_down,
    ProducerIdsAsked: _producer_ids,
    ChangeAsked: _change_asked,
    DeletionsAsked: deletion.deletions_asked,
    ReplicasStopped: deletion.replicas_stopped,
    ReassignmentAsked: reassignment.reassignment_asked,
    ReassignmentsDue: reassignment.reassignments_due,
    SettingsChanged: settings_changed,
    ElectionAsked: leader_rebalance.election_asked,
    RebalanceDue: leader_rebalance.rebalance_due,
    TopicsChanged: found.topics_changed,
    PartitionStatesChanged: found.partition_states_changed,
}
