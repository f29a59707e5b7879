"""The target assignment of a group: made again when the group epoch has moved on, and written as what changed.

Not more often than every consumer.assignment.interval.ms of the group: until then members are reconciled with the last
one, and the group is Assigning.
"""

from __future__ import annotations

from ottla.broker.coordinators.effects import ClusterView
from ottla.broker.coordinators.groups.consumer.assignors import ASSIGNORS, GroupSpec, MemberSpec
from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.broker.coordinators.groups.consumer.heartbeat_steps import Environment
from ottla.broker.coordinators.groups.consumer.member import NOTHING
from ottla.broker.coordinators.groups.consumer.records import target_epoch_record, target_record
from ottla.broker.coordinators.groups.consumer.subscriptions import topic_ids
from ottla.broker.coordinators.groups.modern_group import Draft
from ottla.broker.settings.groups import GroupCoordinatorSettings


def update_target(draft: Draft[ConsumerGroup], environment: Environment) -> None:
    """Make the target follow the group, if it is behind and its time has come."""
    group = draft.group
    if group.assignment_epoch >= group.epoch or not _may_assign(group, environment):
        return
    assign = ASSIGNORS[assignor_name(group, environment.settings)]
    targets = assign(_spec(group, environment.cluster))
    for member_id in sorted(group.members):
        target = targets.get(member_id, NOTHING)
        if group.targets.get(member_id) != target:
            draft.write(target_record(group.group_id, member_id, target))
    draft.write(target_epoch_record(group.group_id, group.epoch, environment.now_ms))


def assignor_name(group: ConsumerGroup, settings: GroupCoordinatorSettings) -> str:
    """What most members ask for, if it is still offered here; else the first in group.consumer.assignors."""
    offered = settings.group_consumer_assignors
    asked = group.preferred_assignor()
    return asked if asked in offered else offered[0]


def _may_assign(group: ConsumerGroup, environment: Environment) -> bool:
    last_ms, interval_ms = group.assignment_timestamp_ms, environment.times_of(group.group_id).assignment_interval_ms
    return last_ms == 0 or interval_ms == 0 or environment.now_ms >= last_ms + interval_ms


def _spec(group: ConsumerGroup, cluster: ClusterView) -> GroupSpec:
    by_topics: dict[frozenset[str], frozenset[bytes]] = {}  # members mostly subscribe alike
    members = {}
    for member_id, member in group.members.items():
        names = group.topics_of(member)
        if names not in by_topics:
            by_topics[names] = topic_ids(cluster, names)
        members[member_id] = MemberSpec(by_topics[names], group.targets.get(member_id, NOTHING), member.instance_id)
    counts = {}
    for names in by_topics:
        for name in names:
            topic_id, count = cluster.topic_id(name), cluster.partition_count(name)
            if topic_id is not None and count is not None:
                counts[topic_id] = count
    return GroupSpec(members, counts)
