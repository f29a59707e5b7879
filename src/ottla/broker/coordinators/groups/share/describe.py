"""ShareGroupDescribe: a share group as tools show it, as far as it is committed. Partitions of topics that are gone are
left out, they have no name any more."""

from __future__ import annotations

from ottla.broker.coordinators.effects import ClusterView
from ottla.broker.coordinators.groups.consumer.member import Target
from ottla.broker.coordinators.groups.group import Group
from ottla.broker.coordinators.groups.share.group import ShareGroup
from ottla.broker.coordinators.groups.share.member import ShareMember
from ottla.errors import NONE, BrokerError, GroupIdNotFound
from ottla.protocol.messages.share_group_describe import Assignment, DescribedGroup, Member, TopicPartitions


def describe(group_id: str, group: Group | None, cluster: ClusterView, assignor: str) -> DescribedGroup:
    if not isinstance(group, ShareGroup):
        why = "not found" if group is None else "is not a share group"
        return describe_error(group_id, GroupIdNotFound(f"Group {group_id} {why}."))
    return DescribedGroup(
        error_code=NONE,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[_member(member, cluster) for _, member in sorted(group.members.items())],
    )


def describe_error(group_id: str, error: BrokerError) -> DescribedGroup:
    return DescribedGroup(
        error_code=error.code,
        error_message=error.brief,
        group_id=group_id,
        group_state="",  # where consumer groups are Dead, Kafka's share groups have none
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _member(member: ShareMember, cluster: ClusterView) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=_assignment(member.assigned, cluster),
    )


def _assignment(partitions: Target, cluster: ClusterView) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(each))
            for topic_id, each in sorted(partitions.items())
            if (name := cluster.topic_name(topic_id)) is not None
        ]
    )
