"""Moving replicas: what AlterPartitionReassignments began (cluster/reassignments.py) is ended here, step by step.

    begin    replicas are target and those that will go; the new ones are `adding`. A new leader epoch makes them all
             act.
    wait     the new replicas fetch, and join the in-sync set one by one (AlterPartition)
    end      when all of the target is in sync: the replicas are the target, one of them leads, in a new leader epoch;
             those that were removed are ordered to delete what they have

1. Every step is one change of one partition, so there is nothing between them, and who takes over in the middle sees
   from `adding` and `removing` where it is.
2. A move ends only when one of the target can lead; otherwise it waits, and the old replicas stay.
3. Brokers listen only to a leader epoch that is larger than theirs, so whatever changes the replicas begins a new one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cluster.changes import Change, ChangePartition, SetStoredValue, apply_all
from ottla.cluster.controller.admin_changes import admitted
from ottla.cluster.controller.events import ReassignmentsDue
from ottla.cluster.controller.leaders import in_next_epoch
from ottla.cluster.controller.state import ControllerState, Decided
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Partition
from ottla.cluster.reassignments import alter_partition_reassignments
from ottla.cluster.store.events import REASSIGNMENT_ASKED, ReassignmentAsked
from ottla.light_dataclasses import replace
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.values import TopicPartition


def target_of(partition: Partition) -> tuple[int, ...]:
    """Where its replicas shall be."""
    return tuple(each for each in partition.replicas if each not in partition.removing)


def ended(state: ControllerState, name: TopicPartition, partition: Partition) -> Partition | None:
    """The partition at the end of its move; None while the move cannot end."""
    target = target_of(partition)
    if not partition.is_reassigning or not set(target) <= set(partition.isr):
        return None
    leader = partition.leader
    if leader not in target or not state.is_alive(name, leader):
        able = [each for each in target if state.may_lead(name, each)]
        if not able:
            return None
        leader = able[0]
    isr = tuple(each for each in partition.isr if each in target)
    places = dict(zip(partition.replicas, partition.directories, strict=False))
    directories = tuple(places[each] for each in target) if partition.directories else ()
    after = replace(partition, replicas=target, isr=isr, leader=leader, directories=directories, adding=(), removing=())
    return in_next_epoch(partition, replace(after, elr=tuple(each for each in partition.elr if each in target)))


def reassignments_due(state: ControllerState, event: ReassignmentsDue) -> Decided:
    """End the moves that are done."""
    changes: list[Change] = []
    for name in event.partitions:
        topic, partition = state.image.topic(name.topic), state.image.partition(*name)
        if topic is not None and partition is not None and (after := ended(state, name, partition)) is not None:
            changes.append(ChangePartition(topic.id, name.partition, after))
    return Decided(state, (*changes, *_note_done(apply_all(state.image, changes))))


def _note_done(image: ClusterImage) -> Sequence[Change]:
    """Tools of old wait until the node with their request is gone."""
    if REASSIGNMENT_ASKED not in image.stored_values or any(each.is_reassigning for _, each in image.partitions()):
        return ()
    return (SetStoredValue(REASSIGNMENT_ASKED, None),)


def reassignment_asked(state: ControllerState, event: ReassignmentAsked) -> Decided:
    """Somebody wrote targets into the truth, as tools before AlterPartitionReassignments did: the same plan."""
    noted = () if REASSIGNMENT_ASKED in state.image.stored_values else (SetStoredValue(REASSIGNMENT_ASKED, ""),)
    image = apply_all(state.image, noted)
    plan = alter_partition_reassignments(image, _as_request(event))
    changes = admitted(image, plan.changes)
    done = _note_done(apply_all(image, changes))
    return Decided(state, (*changes, *done), observed=noted)


def _as_request(event: ReassignmentAsked) -> AlterPartitionReassignmentsRequest:
    topics: dict[str, list[ReassignablePartition]] = {}
    for name, replicas in event.targets:
        target = ReassignablePartition(partition_index=name.partition, replicas=list(replicas))
        topics.setdefault(name.topic, []).append(target)
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    )
