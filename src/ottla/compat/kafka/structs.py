"""kafka.structs: the small values, with kafka-python's order of fields."""

from __future__ import annotations

from ottla.client.group_metadata import GroupMetadata as ConsumerGroupMetadata
from ottla.light_tuples import NamedTuple
from ottla.values import OffsetAndMetadata as OurOffset
from ottla.values import TopicPartition

__all__ = ["ConsumerGroupMetadata", "OffsetAndMetadata", "OffsetAndTimestamp", "TopicPartition"]


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
