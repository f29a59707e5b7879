"""Groups of Kafka Streams applications, whose tasks the brokers assign (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.client.admin.operations import AclOperation, operations_of
from ottla.client.admin.plans import Plan, Route, error_of
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import streams_group_describe
from ottla.protocol.schema import Message


class Task(NamedTuple):
    """One part of the work: a subtopology on one partition."""

    subtopology_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """The tasks of one member."""

    active: frozenset[Task]
    standby: frozenset[Task]
    warmup: frozenset[Task]


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One member and its tasks."""

    member_id: str
    client_id: str
    host: str
    process_id: str
    member_epoch: int
    topology_epoch: int
    group_instance_id: str | None
    rack: str | None
    client_tags: Mapping[str, str]
    user_endpoint: tuple[str, int] | None
    assignment: TaskAssignment
    target_assignment: TaskAssignment
    speaks_classic: bool


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the application makes for itself."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of the topology that runs together."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    changelog_topics: tuple[InternalTopic, ...]
    repartition_source_topics: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A group, what it computes, and its members."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    topology_epoch: int | None
    subtopologies: tuple[Subtopology, ...]
    members: tuple[StreamsMember, ...]
    authorized_operations: frozenset[AclOperation] | None = None
    coordinator: int | None = None
    """The broker that looks after the group: the one that told this."""


@dataclass(frozen=True)
class DescribeStreamsGroups(Plan[str, StreamsGroupDescription]):
    route = Route.GROUP

    include_authorized_operations: bool = False

    def answered_by(self, value: StreamsGroupDescription, node_id: int) -> StreamsGroupDescription:
        return replace(value, coordinator=node_id)

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        return streams_group_describe.StreamsGroupDescribeRequest(
            group_ids=list(keys), include_authorized_operations=self.include_authorized_operations
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, StreamsGroupDescription | OttlaError]]:
        for each in response.groups:
            yield each.group_id, error_of(each) or _described(each)


def _described(group: Any) -> StreamsGroupDescription:
    topology = group.topology
    return StreamsGroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology_epoch=None if topology is None else topology.epoch,
        subtopologies=tuple(map(_subtopology, [] if topology is None else topology.subtopologies or [])),
        members=tuple(map(_member, group.members)),
        authorized_operations=operations_of(group.authorized_operations),
    )


def _subtopology(part: Any) -> Subtopology:
    return Subtopology(
        subtopology_id=part.subtopology_id,
        source_topics=tuple(part.source_topics),
        repartition_sink_topics=tuple(part.repartition_sink_topics),
        changelog_topics=tuple(map(_topic, part.state_changelog_topics)),
        repartition_source_topics=tuple(map(_topic, part.repartition_source_topics)),
    )


def _topic(topic: Any) -> InternalTopic:
    configs = {each.key: each.value for each in topic.topic_configs}
    return InternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)


def _member(member: Any) -> StreamsMember:
    endpoint = member.user_endpoint
    return StreamsMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        process_id=member.process_id,
        member_epoch=member.member_epoch,
        topology_epoch=member.topology_epoch,
        group_instance_id=member.instance_id,
        rack=member.rack_id,
        client_tags={each.key: each.value for each in member.client_tags},
        user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target_assignment),
        speaks_classic=member.is_classic,
    )


def _assignment(tasks: Any) -> TaskAssignment:
    return TaskAssignment(_tasks(tasks.active_tasks), _tasks(tasks.standby_tasks), _tasks(tasks.warmup_tasks))


def _tasks(parts: Sequence[Any]) -> frozenset[Task]:
    return frozenset(Task(part.subtopology_id, index) for part in parts for index in part.partitions)
