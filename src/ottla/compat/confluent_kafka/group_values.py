"""What confluent_kafka.admin gives for groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.client.admin import groups
from ottla.client.connections import COORDINATOR_IDS
from ottla.compat.confluent_kafka.admin_values import operations
from ottla.compat.confluent_kafka.cluster import BrokerMetadata
from ottla.compat.confluent_kafka.errors import KafkaError
from ottla.compat.confluent_kafka.messages import TopicPartition
from ottla.compat.confluent_kafka.model import ConsumerGroupState, ConsumerGroupType, Node, member
from ottla.values import TopicPartition as OurPartition

STATES: Final = {
    "PreparingRebalance": ConsumerGroupState.PREPARING_REBALANCING,
    "CompletingRebalance": ConsumerGroupState.COMPLETING_REBALANCING,
    "Stable": ConsumerGroupState.STABLE,
    "Dead": ConsumerGroupState.DEAD,
    "Empty": ConsumerGroupState.EMPTY,
}
STATE_NAMES: Final = {state: name for name, state in STATES.items()}
TYPES: Final = {"consumer": ConsumerGroupType.CONSUMER, "classic": ConsumerGroupType.CLASSIC}
TYPE_NAMES: Final = {kind: name for name, kind in TYPES.items()}


def state_of(name: str | None) -> ConsumerGroupState:
    return STATES.get(name or "", ConsumerGroupState.UNKNOWN)


def type_of(name: str | None) -> ConsumerGroupType:
    return TYPES.get((name or "").lower(), ConsumerGroupType.UNKNOWN)


class ConsumerGroupListing:
    """A group in a list."""

    def __init__(self, group_id: str, is_simple_consumer_group: bool, state: Any = None, type: Any = None) -> None:
        self.group_id = group_id
        self.is_simple_consumer_group = is_simple_consumer_group
        if state is not None:
            self.state = member(state, ConsumerGroupState)
        if type is not None:
            self.type = member(type, ConsumerGroupType)


class ListConsumerGroupsResult:
    """The groups that answered, and what went wrong with the others."""

    def __init__(self, valid: list[ConsumerGroupListing] | None = None, errors: list[Exception] | None = None) -> None:
        self.valid = valid
        self.errors = errors


class MemberAssignment:
    """What a member reads."""

    def __init__(self, topic_partitions: list[TopicPartition] | None) -> None:
        self.topic_partitions = topic_partitions or []


class MemberDescription:
    """A member of a group."""

    def __init__(
        self,
        member_id: str,
        client_id: str,
        host: str,
        assignment: MemberAssignment,
        group_instance_id: str | None = None,
        target_assignment: MemberAssignment | None = None,
    ) -> None:
        self.member_id = member_id
        self.client_id = client_id
        self.host = host
        self.assignment = assignment
        self.target_assignment = target_assignment
        self.group_instance_id = group_instance_id


class ConsumerGroupDescription:
    """A group and its members."""

    def __init__(
        self,
        group_id: str,
        is_simple_consumer_group: bool,
        members: list[MemberDescription],
        partition_assignor: str,
        state: Any,
        coordinator: Node | None,
        authorized_operations: list[Any] | None = None,
        type: Any = ConsumerGroupType.UNKNOWN,
    ) -> None:
        self.group_id = group_id
        self.is_simple_consumer_group = is_simple_consumer_group
        self.members = members
        self.authorized_operations = operations(authorized_operations)
        self.partition_assignor = partition_assignor
        if state is not None:
            self.state = member(state, ConsumerGroupState)
        if type is not None:
            self.type = member(type, ConsumerGroupType)
        self.coordinator = coordinator


class GroupMember:
    """A member as list_groups() shows it."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.client_id: str | None = None
        self.client_host: str | None = None
        self.metadata: bytes | None = None
        self.assignment: bytes | None = None


class GroupMetadata:
    """A group as list_groups() shows it."""

    def __init__(self) -> None:
        self.broker: BrokerMetadata | None = None
        self.id: str | None = None
        self.error: KafkaError | None = None
        self.state: str | None = None
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members: list[GroupMember] = []

    def __repr__(self) -> str:
        return f"GroupMetadata({self.id})" if self.error is None else f"GroupMetadata({self.id}, {self.error})"

    def __str__(self) -> str:
        return str(self.id)


def group_listing(found: groups.GroupListing) -> ConsumerGroupListing:
    """Ours as theirs."""
    return ConsumerGroupListing(found.group_id, found.protocol_type == "", state_of(found.state), type_of(found.type))


def group_description(found: groups.GroupDescription, nodes: Mapping[int, Node]) -> ConsumerGroupDescription:
    """Ours as theirs."""
    allowed = None if found.authorized_operations is None else [int(each) for each in found.authorized_operations]
    return ConsumerGroupDescription(
        found.group_id,
        found.protocol_type == "",
        [_member(each) for each in found.members],
        found.assignor,
        state_of(found.state),
        coordinator_of(found, nodes),
        allowed,
        type_of(found.type),
    )


def coordinator_of(found: groups.GroupDescription, nodes: Mapping[int, Node]) -> Node | None:
    """The broker that looks after a group; its connection may have been the second one to that broker."""
    if found.coordinator is None:
        return None
    is_second = found.coordinator > COORDINATOR_IDS // 2
    return nodes.get(COORDINATOR_IDS - found.coordinator if is_second else found.coordinator)


def _member(found: groups.MemberDescription) -> MemberDescription:
    target = None if found.target_assignment is None else _assignment(found.target_assignment)
    return MemberDescription(
        found.member_id,
        found.client_id,
        found.host,
        _assignment(found.assignment),
        found.group_instance_id,
        target,
    )


def _assignment(partitions: frozenset[OurPartition]) -> MemberAssignment:
    return MemberAssignment([TopicPartition(*each) for each in sorted(partitions)])


def group_metadata(found: groups.GroupDescription, broker: BrokerMetadata | None) -> GroupMetadata:
    """Ours as list_groups() has it."""
    made = GroupMetadata()
    made.broker, made.id, made.state = broker, found.group_id, found.state
    made.protocol_type, made.protocol = found.protocol_type, found.assignor
    for each in found.members:
        shown = GroupMember()
        shown.id, shown.client_id, shown.client_host = each.member_id, each.client_id, each.host
        made.members.append(shown)
    return made
