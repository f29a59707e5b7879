"""A topic goes in steps: a note, the end of service, the replicas, and last the topic itself.

    note       somebody asked; the topic keeps serving while one of its partitions moves
    end        brokers learn that it has no leaders any more (leader -2), and are ordered to delete their replicas
    replicas   each goes from DELETION_STARTED to DELETION_SUCCESSFUL when its broker says so, or is
               DELETION_INELIGIBLE while its broker is away or failed to do it
    topic      when the last replica is gone: the topic, its settings and the note, in one change

1. A broker that is away is waited for, because else it would come back with a topic nobody knows. When it comes back,
   it gets the order. So does one that asks for its orders again, because its disk had no room and may have it now.
2. The note is in the image. A controller that takes over orders every broker again; a broker that has deleted its
   replica says so.
3. Where topics may not be deleted (delete.topic.enable), the note is removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ottla.cluster.changes import Change, RemoveTopic, SetStoredValue
from ottla.cluster.controller import replica_states
from ottla.cluster.controller.events import ReplicasStopped
from ottla.cluster.controller.replica_states import (
    DELETION_INELIGIBLE,
    DELETION_STARTED,
    DELETION_SUCCESSFUL,
    NON_EXISTENT,
    OFFLINE,
    ReplicaState,
)
from ottla.cluster.controller.state import ControllerState, Decided, Replica, is_being_deleted
from ottla.cluster.image import ClusterImage
from ottla.cluster.store.events import DELETION_ASKED, DeletionsAsked, deletion_asked
from ottla.errors import NONE
from ottla.light_dataclasses import replace
from ottla.values import TopicPartition


def deletions_asked(state: ControllerState, event: DeletionsAsked) -> Decided:
    """Observe the notes; those about unknown topics are removed."""
    known = [each for each in event.names if state.image.topic(each) is not None and state.rules.deletion_enabled]
    noted = [SetStoredValue(deletion_asked(each), "") for each in known]
    new = tuple(each for each in noted if each.key not in state.image.stored_values)
    useless = [SetStoredValue(deletion_asked(each), None) for each in event.names if each not in known]
    return Decided(state, tuple(useless), observed=new)


def continued(before: ControllerState, after: ControllerState) -> ControllerState:
    """`after` with the deletions as far as they get with the brokers that are there now."""
    going = [key.key for key in after.image.stored_values if key.kind == DELETION_ASKED]
    if not going and not before.deletions:
        return after
    states: dict[Replica, ReplicaState] = {}
    for topic in going:
        if is_being_deleted(after.image, topic):
            states |= {each: _step(before, after, each) for each in replicas_of(after.image, topic)}
    return replace(after, deletions=_check_removed(after, states))


def _step(before: ControllerState, after: ControllerState, replica: Replica) -> ReplicaState:
    name = TopicPartition(replica.topic, replica.partition)
    was = after.deletions.get(replica)
    alive = after.is_alive(name, replica.broker_id)
    if was is None:
        return replica_states.move_replica(replica, OFFLINE, DELETION_STARTED if alive else DELETION_INELIGIBLE)
    if was is DELETION_SUCCESSFUL:
        return was
    came_back = alive and (
        _epoch(before, replica) != _epoch(after, replica) or not before.is_alive(*_location(replica))
    )
    if was is DELETION_STARTED and (came_back or not alive):
        was = replica_states.move_replica(replica, was, DELETION_INELIGIBLE)
    return replica_states.move_replica(replica, was, OFFLINE, DELETION_STARTED) if came_back else was


def tried_again(state: ControllerState, broker_ids: Collection[int]) -> ControllerState:
    """Order these brokers to delete what they could not: only they know whether their disks are well now."""
    states = {each: was for each, was in state.deletions.items() if each.broker_id in broker_ids}
    if not states:
        return state
    for replica, was in states.items():
        if was is DELETION_INELIGIBLE:
            states[replica] = replica_states.move_replica(replica, was, OFFLINE, DELETION_STARTED)
    return replace(
        state, deletions={**state.deletions, **states}, offline_replicas=state.offline_replicas - states.keys()
    )


def _location(replica: Replica) -> tuple[TopicPartition, int]:
    return TopicPartition(replica.topic, replica.partition), replica.broker_id


def _epoch(state: ControllerState, replica: Replica) -> int | None:
    broker = state.image.brokers.get(replica.broker_id)
    return None if broker is None else broker.epoch


def _check_removed(after: ControllerState, states: Mapping[Replica, ReplicaState]) -> Mapping[Replica, ReplicaState]:
    """A replica leaves the books only with its topic, and its topic only when all are deleted."""
    for replica, state in after.deletions.items():
        if after.image.topic(replica.topic) is None:
            replica_states.move_replica(replica, state, NON_EXISTENT)
    return states


def replicas_of(image: ClusterImage, topic: str) -> Iterator[Replica]:
    """Every replica of a topic."""
    found = image.topic(topic)
    for index, partition in enumerate(found.partitions if found is not None else ()):
        for broker_id in partition.replicas:
            yield Replica(topic, index, broker_id)


def replicas_stopped(state: ControllerState, event: ReplicasStopped) -> Decided:
    """Count what was deleted; the topic that has nothing left goes."""
    broker = state.image.brokers.get(event.broker_id)
    if broker is None or broker.epoch != event.broker_epoch:
        return Decided(state)
    states = dict(state.deletions)
    for replica, succeeded in _deletion_results(event):
        if states.get(replica) is DELETION_STARTED:
            outcome = DELETION_SUCCESSFUL if succeeded else DELETION_INELIGIBLE
            states[replica] = replica_states.move_replica(replica, DELETION_STARTED, outcome)
    after = replace(state, deletions=states)
    return Decided(after, tuple(_removals(after)))


def _deletion_results(event: ReplicasStopped) -> Iterator[tuple[Replica, bool]]:
    failed = {(each.topic_name, each.partition_index) for each in event.response.partition_errors if each.error_code}
    for topic in event.request.topic_states:
        for each in topic.partition_states:
            if each.delete_partition:
                name = (topic.topic_name, each.partition_index)
                yield Replica(*name, event.broker_id), event.response.error_code == NONE and name not in failed


def _removals(state: ControllerState) -> Iterator[Change]:
    for name in sorted({each.topic for each in state.deletions}):
        topic = state.image.topic(name)
        if topic is not None and all(
            state.deletions.get(each) is DELETION_SUCCESSFUL for each in replicas_of(state.image, name)
        ):
            yield RemoveTopic(topic.id)
            yield SetStoredValue(deletion_asked(name), None)
