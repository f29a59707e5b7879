"""One share group: the replay of its records, and a few things that follow from it.

1. Only `replay` changes what must survive. A member is gone with the tombstone of its member record.
2. Soft: `checked_epoch` (modern_group.py), `is_covered` (every partition that can be assigned is assigned) and
   `being_initialized` (the share coordinator is being asked). Losing them costs a comparison, or a request more.
3. A share group has no committed offsets, is never of another kind, and does not expire: with it the state of its
   partitions would be lost.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ottla.broker.coordinators.effects import StoredRecord
from ottla.broker.coordinators.groups.consumer.member import Target, partitions_of
from ottla.broker.coordinators.groups.group import GroupKind
from ottla.broker.coordinators.groups.modern_group import ModernGroup
from ottla.broker.coordinators.groups.share.member import ShareMember
from ottla.broker.coordinators.groups.share.partitions import SharePartitions, read_partitions
from ottla.broker.coordinators.groups.share.records import group_tombstones, member_tombstones
from ottla.errors import GroupIdNotFound
from ottla.light_dataclasses import replace
from ottla.protocol.schema import Message
from ottla.protocol.stored import share_groups as stored

PROTOCOL_TYPE: Final = "share"


class ShareGroupState(Enum):
    """A group's state follows from its members."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(ModernGroup[ShareMember, Target]):
    kind = GroupKind.SHARE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.partitions = SharePartitions()
        # soft
        self.is_covered = False
        self.being_initialized: frozenset[tuple[bytes, int]] = frozenset()

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, key: Message, value: Message | None) -> None:
        self.is_covered = False
        replay = getattr(self, _REPLAYS[type(key)])
        replay(key, value)

    def _replay_epoch(self, key: Message, value: stored.ShareGroupMetadataValue | None) -> None:
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _replay_member(
        self, key: stored.ShareGroupMemberMetadataKey, value: stored.ShareGroupMemberMetadataValue | None
    ) -> None:
        if value is None:
            self.members.pop(key.member_id, None)
            return
        member = self.members.get(key.member_id) or ShareMember(key.member_id)
        self.members[key.member_id] = replace(
            member,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )

    def _replay_target_epoch(self, key: Message, value: stored.ShareGroupTargetAssignmentMetadataValue | None) -> None:
        self.assignment_epoch = 0 if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _replay_target(
        self,
        key: stored.ShareGroupTargetAssignmentMemberKey,
        value: stored.ShareGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            target = {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}
            self.targets[key.member_id] = target

    def _replay_current(
        self,
        key: stored.ShareGroupCurrentMemberAssignmentKey,
        value: stored.ShareGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self.members[key.member_id] = replace(
                member or ShareMember(key.member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                assigned={each.topic_id: frozenset(each.partitions) for each in value.assigned_partitions},
            )
        elif member is not None:
            self.members[key.member_id] = replace(member, epoch=0, previous_epoch=0, assigned={})

    def _replay_partitions(self, key: Message, value: stored.ShareGroupStatePartitionMetadataValue | None) -> None:
        self.partitions = SharePartitions() if value is None else read_partitions(value)

    # -- questions ---------------------------------------------------------------------------------------------------

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(member.topics for member in self.members.values()))

    def assigned_partitions(self) -> set[tuple[bytes, int]]:
        return {each for target in self.targets.values() for each in partitions_of(target)}

    # -- the interface of every group ----------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return ShareGroupState.STABLE.value if self.members else ShareGroupState.EMPTY.value

    @property
    def listed_protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, api_version: int
    ) -> None:
        raise self._no_offsets()

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        raise self._no_offsets()

    def check_offset_delete(self) -> None:
        raise self._no_offsets()

    def _no_offsets(self) -> GroupIdNotFound:
        return GroupIdNotFound(f"Group {self.group_id} is not a consumer group.")

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values())

    def retention_start_ms(self, commit_timestamp_ms: int) -> int | None:
        return None

    @property
    def expires(self) -> bool:
        return False

    def tombstones(self) -> tuple[StoredRecord, ...]:
        gone = [each for member_id in self.members for each in member_tombstones(self.group_id, member_id)]
        return (*gone, *group_tombstones(self.group_id))


_REPLAYS: Final[dict[type[Message], str]] = {
    stored.ShareGroupMetadataKey: "_replay_epoch",
    stored.ShareGroupMemberMetadataKey: "_replay_member",
    stored.ShareGroupTargetAssignmentMetadataKey: "_replay_target_epoch",
    stored.ShareGroupTargetAssignmentMemberKey: "_replay_target",
    stored.ShareGroupCurrentMemberAssignmentKey: "_replay_current",
    stored.ShareGroupStatePartitionMetadataKey: "_replay_partitions",
}
