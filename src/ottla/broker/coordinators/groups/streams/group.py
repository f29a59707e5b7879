"""One streams group: the replay of its records, and a few things that follow from it.

1. Only `replay` changes what must survive. Two records of one member (what it reported, what it has) make one
   StreamsMember; a member is gone with the tombstone of the first.
2. `owners` says which member has a task, or still has to release it. A task is not given to anybody else before.
3. Soft: `configured` (the topology on the topics of now), `checked_epoch` (the topics were compared with the cluster
   when the group was at that epoch), `delayed_until_ms` (the first assignment waits for more members),
   `endpoint_epoch`, and `shutdown_by` (a member asked that the whole application stops; it holds until the group is
   empty). Losing them costs a comparison, a delay, or one more request of the application's member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Self

from ottla.broker.coordinators.effects import StoredRecord
from ottla.broker.coordinators.groups.group import GroupKind
from ottla.broker.coordinators.groups.modern_group import ModernGroup
from ottla.broker.coordinators.groups.streams.configuring import ConfiguredTopology
from ottla.broker.coordinators.groups.streams.member import (
    StreamsMember,
    with_assignment_record,
    with_member_record,
    without_tasks,
)
from ottla.broker.coordinators.groups.streams.owners import Owners
from ottla.broker.coordinators.groups.streams.records import group_tombstones, member_tombstones
from ottla.broker.coordinators.groups.streams.state import LEAVE, StreamsGroupState
from ottla.broker.coordinators.groups.streams.tasks import NO_TASKS, Tasks, partitions_of
from ottla.broker.coordinators.groups.streams.topology import Topology, topology_of_record
from ottla.errors import BrokerError, StaleMemberEpoch, UnsupportedVersion
from ottla.protocol.schema import Message
from ottla.protocol.stored import streams_groups as stored

PROTOCOL_TYPE: Final = "streams"
MEMBER_EPOCH_SINCE: Final = 9  # OffsetCommit
FIRST_EPOCH: Final = 1  # of a group that nobody has joined yet, and of its assignment of nothing
NO_ASSIGNMENT: Final = -1
NOT_VALIDATED: Final = -1


class StreamsGroup(ModernGroup[StreamsMember, Tasks]):
    kind = GroupKind.STREAMS

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, FIRST_EPOCH)
        self.validated_topology_epoch = NOT_VALIDATED
        self.assignment_configs: dict[str, str] = {}
        self.topology: Topology | None = None
        self.owners = Owners()  # follows from the members
        # soft
        self.configured: ConfiguredTopology | None = None
        self.delayed_until_ms = 0
        self.endpoint_epoch = 0
        self.shutdown_by: str | None = None

    def copy(self) -> Self:
        other = super().copy()
        other.owners = self.owners.copy()
        return other

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, key: Message, value: Message | None) -> None:
        _REPLAYS[type(key)](self, key, value)

    def _replay_epoch(self, key: Message, value: stored.StreamsGroupMetadataValue | None) -> None:
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            self.validated_topology_epoch = value.validated_topology_epoch
            self.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}

    def _replay_topology(self, key: Message, value: stored.StreamsGroupTopologyValue | None) -> None:
        self.topology = None if value is None else topology_of_record(value)

    def _replay_member(
        self, key: stored.StreamsGroupMemberMetadataKey, value: stored.StreamsGroupMemberMetadataValue | None
    ) -> None:
        if value is not None:
            member = self.members.get(key.member_id) or StreamsMember(key.member_id)
            self._put(with_member_record(member, value))
        else:
            self._remove(key.member_id)
            if not self.members:
                self.shutdown_by = None

    def _replay_target_epoch(
        self, key: Message, value: stored.StreamsGroupTargetAssignmentMetadataValue | None
    ) -> None:
        self.assignment_epoch = NO_ASSIGNMENT if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _replay_target(
        self,
        key: stored.StreamsGroupTargetAssignmentMemberKey,
        value: stored.StreamsGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = Tasks(
                partitions_of(value.active_tasks),
                partitions_of(value.standby_tasks),
                partitions_of(value.warmup_tasks),
            )

    def _replay_current(
        self,
        key: stored.StreamsGroupCurrentMemberAssignmentKey,
        value: stored.StreamsGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self._put(with_assignment_record(member or StreamsMember(key.member_id), value))
        elif member is not None:
            self._put(without_tasks(member))

    def _put(self, member: StreamsMember) -> None:
        self._remove(member.member_id)
        self.members[member.member_id] = member
        self.owners.add(member)

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self.owners.remove(member)

    # -- questions ---------------------------------------------------------------------------------------------------

    def target_of(self, member_id: str) -> Tasks:
        return self.targets.get(member_id, NO_TASKS)

    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    # -- the interface of every group --------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return self.state().value

    @property
    def listed_protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, api_version: int
    ) -> None:
        if generation < 0 and not self.members:
            return  # an administrator
        if transactional and generation == LEAVE and not member_id and instance_id is None:
            return  # a producer before KIP-447 does not say for whom it commits
        member = self.member(member_id)
        if not transactional and api_version < MEMBER_EPOCH_SINCE:
            raise UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the streams group protocol"
            )
        if generation > member.epoch:
            raise StaleMemberEpoch(
                f"Received member epoch {generation} is newer than current member epoch {member.epoch}."
            )

    def why_not_commit(
        self, member_id: str, generation: int, topic: str, topic_id: bytes, partition: int
    ) -> BrokerError | None:
        """A member that has not heard of its new epoch yet may commit for tasks that it has had since the old one."""
        member = self.members.get(member_id)
        if member is None or generation == member.epoch:
            return None
        name = None if self.topology is None else self.topology.source_topics.get(topic)
        if name is None:
            return StaleMemberEpoch(f"Topic {topic} is not in the topology.")
        since = member.assigned.active.get(name, {}).get(partition)
        if since is None:
            since = member.revoking.active.get(name, {}).get(partition)
        if since is None:
            return StaleMemberEpoch(f"Task {name}-{partition} is not assigned or pending revocation for member.")
        if generation < since:
            return StaleMemberEpoch(
                f"Received member epoch {generation} is older than assignment epoch {since} for task "
                f"{name}-{partition}."
            )
        return None

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise StaleMemberEpoch(
                f"The received member epoch {member_epoch} does not match the expected member epoch {member.epoch}."
            )

    def check_offset_delete(self) -> None:
        """Topics that the topology does not read may always be forgotten; `is_subscribed_to` says which."""

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.source_topics

    def retention_start_ms(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> tuple[StoredRecord, ...]:
        gone = [each for member_id in self.members for each in member_tombstones(self.group_id, member_id)]
        return (*gone, *group_tombstones(self.group_id))


_REPLAYS: Final[Mapping[type[Message], Callable[..., None]]] = {
    stored.StreamsGroupMetadataKey: StreamsGroup._replay_epoch,
    stored.StreamsGroupTopologyKey: StreamsGroup._replay_topology,
    stored.StreamsGroupMemberMetadataKey: StreamsGroup._replay_member,
    stored.StreamsGroupTargetAssignmentMetadataKey: StreamsGroup._replay_target_epoch,
    stored.StreamsGroupTargetAssignmentMemberKey: StreamsGroup._replay_target,
    stored.StreamsGroupCurrentMemberAssignmentKey: StreamsGroup._replay_current,
}
