"""One classic group: its members, their votes, and what of it is kept in the log.

1. `stored` is what the last GroupMetadata record says, and only `replay` sets it. Everything else may be ahead of it
   while the members come together: a generation is soft until its leader has handed out the assignment, and a crash
   returns the group to the generation before.
2. A record with members is the whole truth about them: after `replay` the group has exactly these members, Stable.
   What a member reported beyond the record (its other protocols) is kept when it is already here.
3. Every waiting request is held by exactly one member, as `waiting_join` or `waiting_sync`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.broker.coordinators.effects import StoredRecord
from ottla.broker.coordinators.groups.classic_member import (
    ClassicMember,
    Protocols,
    common_protocols,
    member_of_record,
    topics_of,
)
from ottla.broker.coordinators.groups.group import Group, GroupKind
from ottla.broker.coordinators.groups.records import group_record, group_tombstone
from ottla.broker.coordinators.groups.state import COMPLETING_REBALANCE, DEAD, EMPTY, STABLE, ClassicState
from ottla.errors import (
    FencedInstanceId,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.protocol.messages.join_group import JoinGroupResponseMember
from ottla.protocol.stored.classic_groups import GroupMetadataValue, MemberMetadata

CONSUMER: Final = "consumer"  # the protocol type of consumers: their subscriptions can be read
GENERATIONS: Final = 1 << 16
"""So many a group has room for under one leader of its coordinator's partition."""
EPOCHS: Final = 1 << 15
LAST_GENERATION: Final = GENERATIONS * EPOCHS - 1


def generations_before(leader_epoch: int) -> int:
    """What is left to generations that began under earlier leaders of the coordinator's partition. A leader may know
    less than they did, where copies were lost: a number that one of them gave to members, who are still there, is never
    given to others."""
    return max(leader_epoch, 0) % EPOCHS * GENERATIONS


class ClassicGroup(Group):
    kind = GroupKind.CLASSIC

    def __init__(self, group_id: str, since_ms: int = -1) -> None:
        self.group_id = group_id
        self.state = ClassicState(since_ms)
        self.stored: GroupMetadataValue | None = None
        self.generation = 0
        self.generations_before = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}  # instance id to member id
        self.pending: set[str] = set()  # ids handed out to clients that have not come back with them
        self.pending_sync: set[str] = set()  # members whose SyncGroup has not come yet
        self.subscribed_topics: frozenset[str] | None = None  # None: not known
        self.replacement: ClassicMember | None = None  # the static member that the record being written brings in
        self.more_came = False  # during the first rebalance: somebody joined since the timer was set
        self.first_delay_ms = 0
        self.first_delay_left_ms = 0

    # -- members -----------------------------------------------------------------------------------------------------

    def add(self, member: ClassicMember) -> None:
        self.members[member.member_id] = member
        self.pending.discard(member.member_id)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> ClassicMember | None:
        """Take a member or a pending one out; the first of the others leads when it was the leader."""
        self.pending.discard(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        if instance_id is not None:
            known_id = self.static_ids.get(instance_id)
            if known_id is None:
                raise UnknownMemberId(f"group {self.group_id} has no static member {instance_id}")
            if known_id != member_id:
                raise FencedInstanceId(f"{instance_id} of group {self.group_id} is another process now")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"group {self.group_id} has no member {member_id}")
        return member

    @property
    def waiting_to_join(self) -> list[ClassicMember]:
        return [member for member in self.members.values() if member.waiting_join is not None]

    @property
    def all_have_joined(self) -> bool:
        return not self.pending and all(member.waiting_join is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it joined again, else choose the first member that did; False when none did."""
        if self.leader is None:
            return False
        if self.members[self.leader].waiting_join is None:
            joined = self.waiting_to_join
            if not joined:
                return False
            self.leader = joined[0].member_id
        return True

    # -- protocols ---------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols could work together with the present members."""
        if self.state.current is EMPTY:
            return bool(protocol_type and protocols)
        common = common_protocols(self.members.values())
        return protocol_type == self.protocol_type and any(common is None or name in common for name, _ in protocols)

    def chosen_protocol(self, members: Iterable[ClassicMember] | None = None) -> str:
        """Each member votes for its best protocol that all can speak; most votes win, the earlier on a tie."""
        voters = list(self.members.values() if members is None else members)
        common = common_protocols(voters) or set()
        votes = Counter(next(name for name, _ in voter.protocols if name in common) for voter in voters)
        return votes.most_common(1)[0][0]

    def joined_members(self, members: Iterable[ClassicMember], protocol: str) -> list[JoinGroupResponseMember]:
        """The members as the leader gets them."""
        return [
            JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata(protocol)
            )
            for each in members
        ]

    def begin_generation(self, now_ms: int) -> None:
        """All are here, or nobody: the next generation begins, and is soft until its assignment is written."""
        self.generation = max(self.generation % LAST_GENERATION, self.generations_before) + 1
        self.pending_sync.clear()
        self.protocol_name = self.chosen_protocol() if self.members else None
        self.state.move_to(COMPLETING_REBALANCE if self.members else EMPTY, now_ms)
        self._read_subscriptions()

    def _read_subscriptions(self) -> None:
        if self.protocol_type != CONSUMER:
            self.subscribed_topics = None
        elif not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is None:
            self.subscribed_topics = None
        else:
            self.subscribed_topics = topics_of([each.metadata(self.protocol_name) for each in self.members.values()])

    # -- the log -----------------------------------------------------------------------------------------------------

    def record(
        self,
        members: Sequence[ClassicMember] | None = None,
        *,
        assignments: Mapping[str, bytes] | None = None,
        leader: str | None = None,
    ) -> StoredRecord:
        """The group as it is, or with these members, assignments and leader instead."""
        members = list(self.members.values()) if members is None else members
        return group_record(
            self.group_id,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=leader or self.leader,
            since_ms=self.state.since_ms,
            members=[self._member_metadata(each, assignments) for each in members],
        )

    def _member_metadata(self, member: ClassicMember, assignments: Mapping[str, bytes] | None) -> MemberMetadata:
        assignment = member.assignment if assignments is None else assignments.get(member.member_id, b"")
        return MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=b"" if self.protocol_name is None else member.metadata(self.protocol_name),
            assignment=assignment,
        )

    def replay(self, value: GroupMetadataValue) -> None:
        is_founding = self.stored is None and bool(self.members)
        self.stored = value
        if value.members:
            self._replay_members(value)
        elif not is_founding:
            self._replay_empty(value)
        # A founding record of a group that somebody is joining already has nothing new to say.

    def _replay_members(self, value: GroupMetadataValue) -> None:
        known = dict(self.members)
        if self.replacement is not None:
            known[self.replacement.member_id] = self.replacement
            self.replacement = None
        self.members.clear()
        self.static_ids.clear()
        self._replay_header(value)
        for stored in value.members:
            self.add(member_of_record(stored, value.protocol, known.get(stored.member_id)))
        if self.state.current is COMPLETING_REBALANCE:
            self.state.move_to(STABLE, value.current_state_timestamp)
        elif self.state.current is not STABLE:
            self.state.begin(STABLE, value.current_state_timestamp)
        self._read_subscriptions()

    def _replay_empty(self, value: GroupMetadataValue) -> None:
        self.members.clear()
        self.static_ids.clear()
        self._replay_header(value)
        self.state.begin(EMPTY, value.current_state_timestamp)
        self._read_subscriptions()

    def _replay_header(self, value: GroupMetadataValue) -> None:
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.leader = value.leader

    # -- the interface of every group ----------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return self.state.current.value

    @property
    def is_empty(self) -> bool:
        return self.state.current is EMPTY

    @property
    def listed_protocol_type(self) -> str:
        return self.protocol_type or ""

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, api_version: int
    ) -> None:
        if generation < 0 and self.is_empty:
            return  # an administrator, or a consumer that chose its partitions itself
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise IllegalGeneration(f"group {self.group_id} is at {self.generation}, not at {generation}")
        elif not transactional:
            # Producers before KIP-447 commit without saying for whom; consumers always say it.
            raise UnknownMemberId(f"group {self.group_id} has members, only they may commit")
        if not transactional and self.state.current is COMPLETING_REBALANCE:
            raise RebalanceInProgress(f"group {self.group_id} has no assignment yet")

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anybody may read the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        if not self.is_empty and self.protocol_type != CONSUMER:
            raise NonEmptyGroup(f"group {self.group_id} is {self.state_name}; what it reads is not known")

    def check_delete(self) -> None:
        if not self.is_empty:
            raise NonEmptyGroup(f"group {self.group_id} is {self.state_name}")

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER  # not readable: better keep an offset than lose it
        return topic in self.subscribed_topics

    def retention_start_ms(self, commit_timestamp_ms: int) -> int | None:
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.is_empty:
            return commit_timestamp_ms if self.state.since_ms == -1 else self.state.since_ms
        knows_topics = self.protocol_type == CONSUMER and self.subscribed_topics is not None
        return commit_timestamp_ms if knows_topics and self.state.current is STABLE else None

    def tombstones(self) -> tuple[StoredRecord, ...]:
        return (group_tombstone(self.group_id),)

    def die(self, now_ms: int) -> None:
        self.state.move_to(DEAD, now_ms)
