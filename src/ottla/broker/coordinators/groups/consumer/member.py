"""A member of a consumer group, as an immutable value: what it reported, and what it has.

Two kinds of partition sets: a `Target` is what somebody should have; `Owned` is what somebody has, with the epoch since
when. Both go by topic id, never hold empty topics, and are never changed once made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Never, TypeAlias

from ottla.broker.coordinators.groups.consumer.state import STABLE, MemberState, state_of_number
from ottla.light_dataclasses import dataclass, field, replace
from ottla.protocol.messages.consumer_group_heartbeat import TopicPartitions as WirePartitions
from ottla.protocol.stored.consumer_groups import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

Target: TypeAlias = Mapping[bytes, frozenset[int]]
Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]  # partition to the member epoch at which it was assigned

NOTHING: Final[Mapping[bytes, Never]] = {}


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    # what it reported
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None  # it speaks the classic protocol
    # what it has
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = STABLE
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)  # to be revoked, not yet acknowledged by the member

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is STABLE and self.epoch == assignment_epoch

    @property
    def speaks_classic(self) -> bool:
        return self.classic is not None


def with_member_record(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """The member after its member record is applied."""
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def with_assignment_record(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    """The member after its current assignment record is applied."""
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=state_of_number(value.state),
        assigned=_owned(value.assigned_partitions, value.member_epoch),
        revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
    )


def _owned(topics: Iterable[TopicPartitions], member_epoch: int) -> Owned:
    found: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        # Records before 4.3 do not say since when; the member's epoch is the strictest answer.
        epochs = topic.assignment_epochs or [member_epoch] * len(topic.partitions)
        if topic.partitions:
            found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found


def target_of(topics: Iterable[WirePartitions]) -> Target:
    """Partitions as a request names them."""
    found: dict[bytes, set[int]] = {}
    for topic in topics:
        found.setdefault(topic.topic_id, set()).update(topic.partitions)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items() if partitions}


def wire_partitions(owned: Owned | Target) -> list[WirePartitions]:
    """Partitions as an answer names them, in an order that does not depend on the past."""
    return [
        WirePartitions(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in sorted(owned.items())
    ]


def partitions_of(owned: Owned | Target) -> Iterable[tuple[bytes, int]]:
    return ((topic_id, partition) for topic_id, partitions in owned.items() for partition in partitions)
