"""One consumer group: the replay of its records, and a few things that follow from it.

1. Only `replay` changes what must survive. Two records of one member (what it reported, what it has) make one
   ConsumerMember; a member is gone with the tombstone of the first.
2. `owners` says which member has a partition, or still has to release it. A partition with an owner is not assigned to
   anybody else: that is all that keeps two members from reading the same partition.
3. Soft: `checked_epoch` (modern_group.py), `has_new_topics` (topics were made since the regular expressions were
   matched) and `called`. Losing them costs one comparison, or one more rebalance time-out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from typing import Any, Final

from ottla.broker.coordinators.effects import StoredRecord
from ottla.broker.coordinators.groups.classic_group import LAST_GENERATION
from ottla.broker.coordinators.groups.consumer.member import (
    NOTHING,
    ConsumerMember,
    Target,
    partitions_of,
    with_assignment_record,
    with_member_record,
)
from ottla.broker.coordinators.groups.consumer.records import (
    epoch_tombstone,
    member_tombstones,
    partition_metadata_tombstone,
    regex_tombstone,
    target_epoch_tombstone,
)
from ottla.broker.coordinators.groups.consumer.state import LEAVE, STATIC_LEAVE, ConsumerGroupState
from ottla.broker.coordinators.groups.group import GroupKind
from ottla.broker.coordinators.groups.modern_group import ModernGroup
from ottla.errors import (
    BrokerError,
    FencedInstanceId,
    IllegalGeneration,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.schema import Message
from ottla.protocol.stored import consumer_groups as stored

PROTOCOL_TYPE: Final = "consumer"
MEMBER_EPOCH_SINCE: Final = 9  # OffsetCommit
NO_ASSIGNMENT: Final = -1


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, and when that was found."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup(ModernGroup[ConsumerMember, Target]):
    kind = GroupKind.CONSUMER

    def __init__(self, group_id: str, epochs_before: int = 0) -> None:
        """`epochs_before`: what is left to epochs that began under earlier leaders (classic_group.py)."""
        super().__init__(group_id)
        self._epochs_before = epochs_before
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False  # a record of Kafka before 4.1; the next change removes it
        # follows from the members
        self.static_ids: dict[str, str] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        self.regex_members: Counter[str] = Counter()
        # soft
        self.has_new_topics = False
        self.matching: Generator[None, None, dict[str, frozenset[str]]] | None = None  # of the expressions (regex.py)
        self.called: set[str] = set()  # members of the classic protocol whose time to join again runs

    @property
    def next_epoch(self) -> int:
        return max(self.epoch % LAST_GENERATION, self._epochs_before) + 1

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, key: Message, value: Message | None) -> None:
        _REPLAYS[type(key)](self, key, value)

    def _replay_epoch(self, key: Message, value: stored.ConsumerGroupMetadataValue | None) -> None:
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _replay_partition_metadata(self, key: Message, value: Message | None) -> None:
        self.has_partition_metadata = value is not None

    def _replay_member(
        self, key: stored.ConsumerGroupMemberMetadataKey, value: stored.ConsumerGroupMemberMetadataValue | None
    ) -> None:
        if value is None:
            self._remove(key.member_id)
        else:
            member = self.members.get(key.member_id) or ConsumerMember(key.member_id)
            self._put(with_member_record(member, value))

    def _replay_target_epoch(
        self, key: Message, value: stored.ConsumerGroupTargetAssignmentMetadataValue | None
    ) -> None:
        self.assignment_epoch = NO_ASSIGNMENT if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _replay_target(
        self,
        key: stored.ConsumerGroupTargetAssignmentMemberKey,
        value: stored.ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            target = {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}
            self.targets[key.member_id] = target

    def _replay_current(
        self,
        key: stored.ConsumerGroupCurrentMemberAssignmentKey,
        value: stored.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        member = self.members.get(key.member_id)
        if value is not None:
            self._put(with_assignment_record(member or ConsumerMember(key.member_id), value))
        elif member is not None:
            self._put(replace(member, epoch=LEAVE, previous_epoch=LEAVE, assigned=NOTHING, revoking=NOTHING))

    def _replay_regex(
        self, key: stored.ConsumerGroupRegularExpressionKey, value: stored.ConsumerGroupRegularExpressionValue | None
    ) -> None:
        if value is None:
            self.regexes.pop(key.regular_expression, None)
        else:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self.regexes[key.regular_expression] = resolved

    def _put(self, member: ConsumerMember) -> None:
        self._remove(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if member.regex:
            self.regex_members[member.regex] += 1
        for owned in (member.assigned, member.revoking):
            self.owners.update(dict.fromkeys(partitions_of(owned), member.member_id))

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        if member.regex:
            self.regex_members[member.regex] -= 1
            self.regex_members += Counter()  # drops what nobody subscribes to any more
        for owned in (member.assigned, member.revoking):
            for partition in partitions_of(owned):
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]

    # -- questions ---------------------------------------------------------------------------------------------------

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """All that a member subscribes to, by name and by regular expression."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(self.topics_of(member) for member in self.members.values()))

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        return (topic_id, partition) not in self.owners

    def static_member(self, instance_id: str, member_id: str) -> ConsumerMember:
        """The member with that instance id; it must have that member id."""
        known_id = self.static_ids.get(instance_id)
        if known_id is None:
            raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
        if known_id != member_id:
            raise FencedInstanceId(
                f"Static member {member_id} with instance id {instance_id} was fenced by member {known_id}."
            )
        return self.member(known_id)

    def preferred_assignor(self) -> str | None:
        """The assignor that most members ask for; None when nobody asks."""
        asked = Counter(each.server_assignor for each in self.members.values() if each.server_assignor is not None)
        return min(asked, key=lambda name: (-asked[name], name), default=None)

    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    # -- the interface of every group ----------------------------------------------------------------------------------

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
            return  # an administrator, or a consumer that chose its partitions itself
        if transactional and generation == LEAVE and not member_id and instance_id is None:
            return  # a producer before KIP-447 does not say for whom it commits
        member = self.member(member_id)
        if not transactional and not member.speaks_classic and api_version < MEMBER_EPOCH_SINCE:
            raise UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            )
        if generation > member.epoch:
            raise _wrong_epoch(member, generation)

    def why_not_commit(
        self, member_id: str, generation: int, topic: str, topic_id: bytes, partition: int
    ) -> BrokerError | None:
        """A member that has not heard of its new epoch yet may commit what it has had since the old one (KIP-1251)."""
        member = self.members.get(member_id)
        if member is None or generation == member.epoch:
            return None
        owned = {**(member.assigned.get(topic_id) or {}), **(member.revoking.get(topic_id) or {})}
        return None if owned.get(partition, generation + 1) <= generation else _wrong_epoch(member, generation)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise _wrong_epoch(member, member_epoch)

    def check_offset_delete(self) -> None:
        """Topics that nobody subscribes to may always be forgotten; `is_subscribed_to` says which."""

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    def retention_start_ms(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> tuple[StoredRecord, ...]:
        gone = [each for member_id in self.members for each in member_tombstones(self.group_id, member_id)]
        gone.append(target_epoch_tombstone(self.group_id))
        gone += [regex_tombstone(self.group_id, regex) for regex in self.regexes]
        if self.has_partition_metadata:
            gone.append(partition_metadata_tombstone(self.group_id))
        return (*gone, epoch_tombstone(self.group_id))

    def is_away(self, member: ConsumerMember) -> bool:
        """A static member that said it comes back."""
        return member.epoch == STATIC_LEAVE


def _wrong_epoch(member: ConsumerMember, received: int) -> BrokerError:
    error = IllegalGeneration if member.speaks_classic else StaleMemberEpoch
    return error(f"The received epoch {received} does not match the expected member epoch {member.epoch}.")


_REPLAYS: Final[dict[type[Message], Callable[[ConsumerGroup, Any, Any], None]]] = {
    stored.ConsumerGroupMetadataKey: ConsumerGroup._replay_epoch,
    stored.ConsumerGroupPartitionMetadataKey: ConsumerGroup._replay_partition_metadata,
    stored.ConsumerGroupMemberMetadataKey: ConsumerGroup._replay_member,
    stored.ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroup._replay_target_epoch,
    stored.ConsumerGroupTargetAssignmentMemberKey: ConsumerGroup._replay_target,
    stored.ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroup._replay_current,
    stored.ConsumerGroupRegularExpressionKey: ConsumerGroup._replay_regex,
}
