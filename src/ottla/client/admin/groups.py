"""Groups of consumers: list, describe, delete, and their committed offsets.

A group is asked for in the new protocol first (ConsumerGroupDescribe) and, if it is none of that kind or the broker
does not know the question, in the classic one; what comes back has one shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.client.admin.operations import AclOperation, operations_of
from ottla.client.admin.plans import BrokerQuestion, Plan, Route, by_topic, error_of, raise_error_of
from ottla.errors import GroupIdNotFound, OttlaError, broker_error
from ottla.light_dataclasses import dataclass, replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from ottla.protocol.schema import Message
from ottla.protocol.stored import decode_newer_value
from ottla.protocol.stored.subscription import ConsumerProtocolAssignment
from ottla.values import OffsetAndMetadata, TopicPartition

CONSUMER_PROTOCOL = "consumer"
NO_OFFSET = -1
# From version 10 on OffsetFetch and OffsetCommit name topics by their ids. An administrator thinks in names.
BY_NAME_AT_MOST = 9


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list; what an old broker does not tell is None."""

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member and what it reads."""

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    rack: str | None = None
    assignment: frozenset[TopicPartition] = frozenset()
    target_assignment: frozenset[TopicPartition] | None = None
    member_epoch: int | None = None
    speaks_classic: bool = False


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members."""

    group_id: str
    type: str
    """`classic` or `consumer`: the protocol the group runs on."""
    state: str
    assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: int | None = None
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    protocol_type: str = CONSUMER_PROTOCOL
    authorized_operations: frozenset[AclOperation] | None = None


class MemberToRemove(NamedTuple):
    """A member by its static id (group.instance.id), or by the id the coordinator gave it."""

    group_instance_id: str | None = None
    member_id: str = ""


# --- list ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListGroups(BrokerQuestion[list[GroupListing]]):
    """Each broker knows the groups it coordinates; all must be asked."""

    states: Sequence[str] = ()
    types: Sequence[str] = ()

    def ask(self, timeout_ms: int) -> Message:
        return list_groups.ListGroupsRequest(states_filter=list(self.states), types_filter=list(self.types))

    def answer(self, response: Any) -> list[GroupListing]:
        raise_error_of(response)
        return [
            GroupListing(each.group_id, each.protocol_type, each.group_state or None, each.group_type or None)
            for each in response.groups
        ]


# --- describe --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DescribeConsumerGroups(Plan[str, GroupDescription]):
    """Groups of the new protocol; others answer GroupIdNotFound."""

    route = Route.GROUP

    include_authorized_operations: bool = False

    def answered_by(self, value: GroupDescription, node_id: int) -> GroupDescription:
        return replace(value, coordinator=node_id)

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        return consumer_group_describe.ConsumerGroupDescribeRequest(
            group_ids=list(keys), include_authorized_operations=self.include_authorized_operations
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, GroupDescription | OttlaError]]:
        for each in response.groups:
            yield each.group_id, error_of(each) or _described(each)


def _described(group: Any) -> GroupDescription:
    members = tuple(
        MemberDescription(
            member_id=each.member_id,
            client_id=each.client_id,
            host=each.client_host,
            group_instance_id=each.instance_id,
            rack=each.rack_id,
            assignment=_partitions(each.assignment.topic_partitions),
            target_assignment=_partitions(each.target_assignment.topic_partitions),
            member_epoch=each.member_epoch,
            speaks_classic=each.member_type == 0,
        )
        for each in group.members
    )
    return GroupDescription(
        group_id=group.group_id,
        type="consumer",
        state=group.group_state,
        assignor=group.assignor_name,
        members=members,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=operations_of(group.authorized_operations),
    )


def _partitions(topics: Sequence[Any]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.topic_name, index) for topic in topics for index in topic.partitions)


@dataclass(frozen=True)
class DescribeClassicGroups(Plan[str, GroupDescription]):
    """Groups of the classic protocol."""

    route = Route.GROUP

    include_authorized_operations: bool = False

    def answered_by(self, value: GroupDescription, node_id: int) -> GroupDescription:
        return replace(value, coordinator=node_id)

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        return describe_groups.DescribeGroupsRequest(
            groups=list(keys), include_authorized_operations=self.include_authorized_operations
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, GroupDescription | OttlaError]]:
        for each in response.groups:
            # Before version 6 a group that does not exist is described as a dead one.
            missing = GroupIdNotFound(f"there is no group {each.group_id!r}") if each.group_state == "Dead" else None
            yield each.group_id, error_of(each) or missing or _classic(each)


def _classic(group: Any) -> GroupDescription:
    speaks_consumer = group.protocol_type in (CONSUMER_PROTOCOL, "")
    members = tuple(
        MemberDescription(
            member_id=each.member_id,
            client_id=each.client_id,
            host=each.client_host,
            group_instance_id=each.group_instance_id,
            assignment=_assigned(each.member_assignment) if speaks_consumer else frozenset(),
            speaks_classic=True,
        )
        for each in group.members
    )
    return GroupDescription(
        group_id=group.group_id,
        type="classic",
        state=group.group_state,
        assignor=group.protocol_data,
        members=members,
        protocol_type=group.protocol_type,
        authorized_operations=operations_of(group.authorized_operations),
    )


def _assigned(data: bytes | memoryview) -> frozenset[TopicPartition]:
    """What the leader of the group gave a member; nothing while the group is rebalancing."""
    if not len(data):
        return frozenset()
    assignment = decode_newer_value(ConsumerProtocolAssignment, bytes(data))
    return frozenset(
        TopicPartition(each.topic, index) for each in assignment.assigned_partitions for index in each.partitions
    )


# --- delete and remove -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeleteGroups(Plan[str, None]):
    route = Route.GROUP
    presumed_done_after = (GroupIdNotFound,)

    def presumed(self, key: str, error: OttlaError) -> None:
        """It is gone, as was asked."""

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        return delete_groups.DeleteGroupsRequest(groups_names=list(keys))

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, OttlaError | None]]:
        for each in response.results:
            yield each.group_id, error_of(each)


@dataclass(frozen=True)
class RemoveMembers(Plan[str, dict[MemberToRemove, OttlaError | None]]):
    """The key is the group; returns what became of each member."""

    route = Route.GROUP

    members: Sequence[MemberToRemove]
    reason: str

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        identities = [
            leave_group.MemberIdentity(
                member_id=each.member_id, group_instance_id=each.group_instance_id, reason=self.reason
            )
            for each in self.members
        ]
        return leave_group.LeaveGroupRequest(group_id=keys[0], members=identities)

    def results(
        self, keys: Sequence[str], response: Any
    ) -> Iterator[tuple[str, dict[MemberToRemove, OttlaError | None] | OttlaError]]:
        if (error := error_of(response)) is not None:
            yield keys[0], error
            return
        ended = {(each.group_instance_id, each.member_id): error_of(each) for each in response.members}
        named = {instance: error for (instance, _), error in ended.items() if instance is not None}
        yield keys[0], {each: self._ending(each, ended, named) for each in self.members}

    @staticmethod
    def _ending(member: MemberToRemove, ended: Mapping[Any, Any], named: Mapping[Any, Any]) -> OttlaError | None:
        found: OttlaError | None
        if member.group_instance_id is not None:
            found = named.get(member.group_instance_id)
        else:
            found = ended.get((None, member.member_id))
        return found


# --- committed offsets -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListGroupOffsets(Plan[str, dict[TopicPartition, OffsetAndMetadata | None]]):
    """What groups have committed: all of it, or for the partitions that are named (None where nothing is)."""

    route = Route.GROUP
    one_key_per_request = True
    at_most = BY_NAME_AT_MOST

    partitions: Mapping[str, Sequence[TopicPartition] | None]
    require_stable: bool = False
    is_old: bool = False
    """Written as brokers before Kafka 3.0 want it, with one group on top of the request."""

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        (group,) = keys
        wanted = self.partitions[group]
        if self.is_old:
            return offset_fetch.OffsetFetchRequest(
                group_id=group,
                topics=_named(offset_fetch.OffsetFetchRequestTopic, wanted),
                require_stable=self.require_stable,
            )
        topics = _named(offset_fetch.OffsetFetchRequestTopics, wanted)
        one = offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=topics)
        return offset_fetch.OffsetFetchRequest(groups=[one], require_stable=self.require_stable)

    def results(
        self, keys: Sequence[str], response: Any
    ) -> Iterator[tuple[str, dict[TopicPartition, OffsetAndMetadata | None] | OttlaError]]:
        (group,) = keys
        answer = response.groups[0] if response.groups else response
        yield group, error_of(answer) or _committed(answer.topics)


def _named(kind: Any, partitions: Sequence[TopicPartition] | None) -> list[Any] | None:
    if partitions is None:
        return None
    return [kind(name=topic, partition_indexes=indexes) for topic, indexes in by_topic(partitions).items()]


def _committed(topics: Sequence[Any]) -> dict[TopicPartition, OffsetAndMetadata | None] | OttlaError:
    found: dict[TopicPartition, OffsetAndMetadata | None] = {}
    for topic in topics:
        for each in topic.partitions:
            if each.error_code:
                return broker_error(each.error_code, f"{topic.name}-{each.partition_index}")
            epoch = None if each.committed_leader_epoch < 0 else each.committed_leader_epoch
            has_one = each.committed_offset > NO_OFFSET
            partition = TopicPartition(topic.name, each.partition_index)
            found[partition] = OffsetAndMetadata(each.committed_offset, each.metadata or "", epoch) if has_one else None
    return found


@dataclass(frozen=True)
class AlterGroupOffsets(Plan[str, dict[TopicPartition, OttlaError | None]]):
    """Commit for a group that has no members; returns what became of each partition."""

    route = Route.GROUP
    at_most = BY_NAME_AT_MOST

    offsets: Mapping[TopicPartition, OffsetAndMetadata]

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        topics = [
            offset_commit.OffsetCommitRequestTopic(
                name=topic, partitions=[self._partition(TopicPartition(topic, each)) for each in indexes]
            )
            for topic, indexes in by_topic(self.offsets).items()
        ]
        return offset_commit.OffsetCommitRequest(group_id=keys[0], member_id="", topics=topics)

    def _partition(self, partition: TopicPartition) -> offset_commit.OffsetCommitRequestPartition:
        committed = self.offsets[partition]
        return offset_commit.OffsetCommitRequestPartition(
            partition_index=partition.partition,
            committed_offset=committed.offset,
            committed_leader_epoch=-1 if committed.leader_epoch is None else committed.leader_epoch,
            committed_metadata=committed.metadata,
        )

    def results(
        self, keys: Sequence[str], response: Any
    ) -> Iterator[tuple[str, dict[TopicPartition, OttlaError | None] | OttlaError]]:
        yield keys[0], _endings(response.topics)


@dataclass(frozen=True)
class DeleteGroupOffsets(Plan[str, dict[TopicPartition, OttlaError | None]]):
    """Forget what a group committed; returns what became of each partition."""

    route = Route.GROUP

    partitions: Sequence[TopicPartition]

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        topics = [
            offset_delete.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=each) for each in indexes],
            )
            for topic, indexes in by_topic(self.partitions).items()
        ]
        return offset_delete.OffsetDeleteRequest(group_id=keys[0], topics=topics)

    def results(
        self, keys: Sequence[str], response: Any
    ) -> Iterator[tuple[str, dict[TopicPartition, OttlaError | None] | OttlaError]]:
        yield keys[0], error_of(response) or _endings(response.topics)


def _endings(topics: Sequence[Any]) -> dict[TopicPartition, OttlaError | None] | OttlaError:
    """What became of each partition. One that may succeed later makes the whole request one to send again."""
    endings = {
        TopicPartition(topic.name, each.partition_index): error_of(each)
        for topic in topics
        for each in topic.partitions
    }
    return next((error for error in endings.values() if error is not None and error.retriable), endings)
