"""Share groups: consumers that take records one by one instead of whole partitions (KIP-932).

What a group remembers of a partition is where it starts to look for records: everything before is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.client.admin.operations import AclOperation, operations_of
from ottla.client.admin.plans import Plan, Route, by_topic, error_of
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_group_describe,
)
from ottla.protocol.schema import Message
from ottla.values import TopicPartition


@dataclass(frozen=True, slots=True)
class ShareMember:
    """One member and the partitions it may take records from; others may have them too."""

    member_id: str
    client_id: str
    host: str
    rack: str | None
    member_epoch: int
    subscription: tuple[str, ...]
    assignment: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """A share group and its members."""

    group_id: str
    state: str
    assignor: str
    group_epoch: int
    assignment_epoch: int
    members: tuple[ShareMember, ...]
    authorized_operations: frozenset[AclOperation] | None = None
    coordinator: int | None = None
    """The broker that looks after the group: the one that told this."""


class ShareOffset(NamedTuple):
    """Where a group starts in a partition, and how much is left; None what the broker does not tell."""

    offset: int
    leader_epoch: int | None
    lag: int | None


@dataclass(frozen=True)
class DescribeShareGroups(Plan[str, ShareGroupDescription]):
    route = Route.GROUP

    include_authorized_operations: bool = False

    def answered_by(self, value: ShareGroupDescription, node_id: int) -> ShareGroupDescription:
        return replace(value, coordinator=node_id)

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        return share_group_describe.ShareGroupDescribeRequest(
            group_ids=list(keys), include_authorized_operations=self.include_authorized_operations
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, ShareGroupDescription | OttlaError]]:
        for each in response.groups:
            yield each.group_id, error_of(each) or _described(each)


def _described(group: Any) -> ShareGroupDescription:
    members = tuple(
        ShareMember(
            member_id=each.member_id,
            client_id=each.client_id,
            host=each.client_host,
            rack=each.rack_id,
            member_epoch=each.member_epoch,
            subscription=tuple(each.subscribed_topic_names),
            assignment=frozenset(
                TopicPartition(topic.topic_name, index)
                for topic in each.assignment.topic_partitions
                for index in topic.partitions
            ),
        )
        for each in group.members
    )
    return ShareGroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        assignor=group.assignor_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=members,
        authorized_operations=operations_of(group.authorized_operations),
    )


@dataclass(frozen=True)
class ListShareOffsets(Plan[str, dict[TopicPartition, ShareOffset | None]]):
    """Where groups start: everywhere they were, or in the partitions that are named (None where they never were)."""

    route = Route.GROUP

    partitions: Mapping[str, Sequence[TopicPartition] | None]

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        groups = [
            describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                group_id=group, topics=_named(self.partitions[group])
            )
            for group in keys
        ]
        return describe_share_group_offsets.DescribeShareGroupOffsetsRequest(groups=groups)

    def results(
        self, keys: Sequence[str], response: Any
    ) -> Iterator[tuple[str, dict[TopicPartition, ShareOffset | None] | OttlaError]]:
        for group in response.groups:
            yield group.group_id, error_of(group) or _offsets(group.topics)


def _named(partitions: Sequence[TopicPartition] | None) -> list[Any] | None:
    if partitions is None:
        return None
    return [
        describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=indexes)
        for topic, indexes in by_topic(partitions).items()
    ]


def _offsets(topics: Sequence[Any]) -> dict[TopicPartition, ShareOffset | None] | OttlaError:
    found: dict[TopicPartition, ShareOffset | None] = {}
    for topic in topics:
        for each in topic.partitions:
            if (error := error_of(each)) is not None:
                return error
            partition = TopicPartition(topic.topic_name, each.partition_index)
            epoch, lag = (None if number < 0 else number for number in (each.leader_epoch, each.lag))
            found[partition] = None if each.start_offset < 0 else ShareOffset(each.start_offset, epoch, lag)
    return found


@dataclass(frozen=True)
class AlterShareOffsets(Plan[str, dict[TopicPartition, OttlaError | None]]):
    """Let a group without members start elsewhere; returns what became of each partition."""

    route = Route.GROUP

    offsets: Mapping[TopicPartition, int]

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        topics = [
            alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(
                        partition_index=index, start_offset=self.offsets[TopicPartition(topic, index)]
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(self.offsets).items()
        ]
        return alter_share_group_offsets.AlterShareGroupOffsetsRequest(group_id=keys[0], topics=topics)

    def results(
        self, keys: Sequence[str], response: Any
    ) -> Iterator[tuple[str, dict[TopicPartition, OttlaError | None] | OttlaError]]:
        yield (
            keys[0],
            error_of(response)
            or {
                TopicPartition(topic.topic_name, each.partition_index): error_of(each)
                for topic in response.responses
                for each in topic.partitions
            },
        )


@dataclass(frozen=True)
class DeleteShareOffsets(Plan[str, dict[str, OttlaError | None]]):
    """Let a group without members forget topics; returns what became of each topic."""

    route = Route.GROUP

    topics: Sequence[str]

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        topics = [
            delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in self.topics
        ]
        return delete_share_group_offsets.DeleteShareGroupOffsetsRequest(group_id=keys[0], topics=topics)

    def results(
        self, keys: Sequence[str], response: Any
    ) -> Iterator[tuple[str, dict[str, OttlaError | None] | OttlaError]]:
        yield keys[0], error_of(response) or {each.topic_name: error_of(each) for each in response.responses}
