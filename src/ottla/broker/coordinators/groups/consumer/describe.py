"""ConsumerGroupDescribe: a consumer group as tools show it.

Told is what is committed: the answer waits for what was written before. Partitions of topics that are gone are left
out, they have no name any more.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.coordinators.effects import ClusterView
from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.broker.coordinators.groups.consumer.member import NOTHING, ConsumerMember, Owned, Target
from ottla.broker.coordinators.groups.consumer.target import assignor_name
from ottla.broker.coordinators.groups.group import Group
from ottla.broker.settings.groups import GroupCoordinatorSettings
from ottla.errors import NONE, BrokerError, GroupIdNotFound
from ottla.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe(
    group_id: str, group: Group | None, cluster: ClusterView, settings: GroupCoordinatorSettings
) -> DescribedGroup:
    if not isinstance(group, ConsumerGroup):
        why = "not found" if group is None else "is not a consumer group"
        return describe_error(group_id, GroupIdNotFound(f"Group {group_id} {why}."))
    return DescribedGroup(
        error_code=NONE,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor_name(group, settings),
        members=[_member(group, member, cluster) for _, member in sorted(group.members.items())],
    )


def describe_error(group_id: str, error: BrokerError) -> DescribedGroup:
    return DescribedGroup(
        error_code=error.code,
        error_message=error.brief,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, cluster: ClusterView) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex or None,
        assignment=_assignment(member.assigned, cluster),
        target_assignment=_assignment(group.targets.get(member.member_id, NOTHING), cluster),
        member_type=CLASSIC_MEMBER if member.speaks_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Owned | Target, cluster: ClusterView) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(each))
            for topic_id, each in sorted(partitions.items())
            if (name := cluster.topic_name(topic_id)) is not None
        ]
    )
