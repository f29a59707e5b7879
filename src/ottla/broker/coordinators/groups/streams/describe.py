"""StreamsGroupDescribe: a streams group as tools show it.

The answer waits for what was written before, so it says what is committed. The partitions of internal topics are those
that they have or will get, once the topology is ready; before, those that the topology asks for (0: as many as needed).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.broker.coordinators.groups.group import Group
from ottla.broker.coordinators.groups.streams.group import StreamsGroup
from ottla.broker.coordinators.groups.streams.member import StreamsMember
from ottla.broker.coordinators.groups.streams.tasks import Partitions, Tasks
from ottla.errors import NONE, BrokerError, GroupIdNotFound
from ottla.protocol.messages import streams_group_describe as wire
from ottla.protocol.messages.streams_group_describe import DescribedGroup
from ottla.protocol.stored.streams_groups import Subtopology, TopicInfo


def describe(group_id: str, group: Group | None) -> DescribedGroup:
    if not isinstance(group, StreamsGroup):
        why = "not found" if group is None else "is not a streams group"
        return describe_error(group_id, GroupIdNotFound(f"Group {group_id} {why}."))
    return DescribedGroup(
        error_code=NONE,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(group, member) for _, member in sorted(group.members.items())],
    )


def describe_error(group_id: str, error: BrokerError) -> DescribedGroup:
    return DescribedGroup(
        error_code=error.code,
        error_message=error.brief,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=[],
    )


def _topology(group: StreamsGroup) -> wire.Topology | None:
    if group.topology is None:
        return None
    configured = group.configured
    decided: Mapping[str, int] = {}
    if configured is not None and configured.is_ready:
        decided = configured.partitions
    subtopologies = [_subtopology(each, decided) for each in group.topology.subtopologies.values()]
    return wire.Topology(epoch=group.topology.epoch, subtopologies=subtopologies)


def _subtopology(each: Subtopology, decided: Mapping[str, int]) -> wire.Subtopology:
    return wire.Subtopology(
        subtopology_id=each.subtopology_id,
        source_topics=sorted(each.source_topics),
        repartition_sink_topics=sorted(each.repartition_sink_topics),
        state_changelog_topics=_topics(each.state_changelog_topics, decided),
        repartition_source_topics=_topics(each.repartition_source_topics, decided),
    )


def _topics(topics: Iterable[TopicInfo], decided: Mapping[str, int]) -> list[wire.TopicInfo]:
    return [
        wire.TopicInfo(
            name=topic.name,
            partitions=topic.partitions or decided.get(topic.name, 0),
            replication_factor=topic.replication_factor,
            topic_configs=[wire.KeyValue(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda it: it.name)
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> wire.Member:
    endpoint = member.endpoint
    return wire.Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else wire.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[wire.KeyValue(key=key, value=value) for key, value in sorted(member.client_tags.items())],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_assignment(member.assigned.tasks),
        target_assignment=_assignment(group.target_of(member.member_id)),
        is_classic=False,
    )


def _assignment(tasks: Tasks) -> wire.Assignment:
    return wire.Assignment(
        active_tasks=_task_ids(tasks.active),
        standby_tasks=_task_ids(tasks.standby),
        warmup_tasks=_task_ids(tasks.warmup),
    )


def _task_ids(tasks: Partitions) -> list[wire.TaskIds]:
    return [wire.TaskIds(subtopology_id=name, partitions=sorted(each)) for name, each in sorted(tasks.items())]
