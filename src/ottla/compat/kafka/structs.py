"""kafka.structs: the small values, with kafka-python's order of fields."""

from __future__ import annotations

from ottla.client.group_metadata import GroupMetadata
from ottla.light_tuples import NamedTuple
from ottla.values import OffsetAndMetadata as OurOffset
from ottla.values import TopicPartition

__all__ = [
    "ConsumerGroupMetadata",
    "MemberState",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
    "TopicPartitionReplica",
]


class MemberState:
    """How far a consumer is in its group."""

    UNJOINED = "<unjoined>"
    REBALANCING = "<rebalancing>"
    STABLE = "<stable>"


class TopicPartitionReplica(NamedTuple):
    """A copy of a partition on a broker."""

    topic: str
    partition: int
    broker_id: int


class OffsetAndMetadata(NamedTuple):
    """A committed position."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1

    @property
    def ours(self) -> OurOffset:
        return OurOffset(self.offset, self.metadata, None if self.leader_epoch < 0 else self.leader_epoch)


class OffsetAndTimestamp(NamedTuple):
    """Where a time is."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's place in its group, for send_offsets_to_transaction()."""

    group_id: str | None = None
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    state: str = MemberState.UNJOINED

    @property
    def ours(self) -> GroupMetadata:
        return GroupMetadata(self.group_id or "", self.generation_id, self.member_id, self.group_instance_id)


def group_metadata(ours: GroupMetadata | None) -> ConsumerGroupMetadata:
    """Ours as theirs; without a group it is empty."""
    if ours is None:
        return ConsumerGroupMetadata()
    state = MemberState.STABLE if ours.generation_id >= 0 else MemberState.UNJOINED
    return ConsumerGroupMetadata(ours.group_id, ours.generation_id, ours.member_id, ours.group_instance_id, state)
