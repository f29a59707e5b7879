"""Who gets which partitions: range and round robin, and how an assignor is found by its name.

An assignor runs on the member that leads the group; all members must know one in common. It is a function of the
topics and the members, so equal questions get equal answers, on any machine and in any language: range and round
robin give exactly what Kafka's give.

    range               of each topic a run of neighbouring partitions per member, longer runs first; partition n of
                        topics with equally many partitions goes to the same member. With racks: neighbours if possible
    roundrobin          all partitions of all topics in turn
    sticky              even, and everybody keeps what he has as far as that goes (sticky.py)
    cooperative-sticky  the same, but nobody stops reading what he keeps: partitions change hands in two rebalances

EAGER: every member gives up everything before it joins. COOPERATIVE: members keep reading, and a partition is handed
out only after its owner gave it up. A group is cooperative when all its strategies are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import cycle
from typing import Protocol

from ottla.client.consumer.membership.decisions import GroupView
from ottla.client.consumer.membership.subscriptions import MemberSubscription
from ottla.errors import InvalidSetting
from ottla.values import TopicPartition

Members = Mapping[str, MemberSubscription]
Assignment = dict[str, list[TopicPartition]]


class RebalanceProtocol(Enum):
    EAGER = "eager"
    COOPERATIVE = "cooperative"


class Assignor(Protocol):
    """A strategy. Applications may bring their own; `user_data` travels with their subscription."""

    @property
    def name(self) -> str: ...
    @property
    def protocols(self) -> frozenset[RebalanceProtocol]: ...
    def user_data(
        self, topics: frozenset[str], last_assignment: frozenset[TopicPartition], last_generation: int
    ) -> bytes | None:
        """What the leader's assignor should know of this member besides topics and owned partitions."""

    def assign(self, view: GroupView, members: Members) -> Assignment:
        """Every member must be a key of the result; topics that the view lacks have no partitions."""


def in_order(members: Members) -> list[str]:
    """Kafka's order: static members by instance id, then the others by member id."""
    return sorted(members, key=lambda name: (members[name].group_instance_id is None, _key(name, members[name])))


def _key(member_id: str, member: MemberSubscription) -> str:
    return member.group_instance_id if member.group_instance_id is not None else member_id


def subscribed_topics(view: GroupView, members: Members) -> list[str]:
    """Topics with partitions that somebody wants, sorted."""
    wanted = {topic for member in members.values() for topic in member.topics}
    return sorted(topic for topic in wanted if topic in view and view[topic].partition_count)


class RangeAssignor:
    name = "range"
    protocols = frozenset({RebalanceProtocol.EAGER})

    def user_data(
        self, topics: frozenset[str], last_assignment: frozenset[TopicPartition], last_generation: int
    ) -> bytes | None:
        return None

    def assign(self, view: GroupView, members: Members) -> Assignment:
        shares = [_TopicShares(topic, view, members) for topic in subscribed_topics(view, members)]
        assignment: Assignment = {name: [] for name in members}
        for like in _alike(shares):
            if len(like) > 1 and any(share.wants_racks for share in like):
                _match_racks_together(like, assignment)
            elif like[0].wants_racks:
                like[0].hand_out(like[0].is_near, assignment)
        for share in shares:
            share.hand_out(lambda _member, _partition: True, assignment)
        return {name: sorted(found) for name, found in assignment.items()}


class _TopicShares:
    """One topic while it is handed out: who may still get how many of its partitions."""

    def __init__(self, topic: str, view: GroupView, members: Members) -> None:
        self.topic = topic
        self.members = [name for name in in_order(members) if topic in members[name].topics]
        self.racks = {name: members[name].rack for name in self.members}
        self.partition_racks = view[topic].partition_racks
        self.left = list(range(len(self.partition_racks)))
        self._count = dict.fromkeys(self.members, 0)
        self._each, self._extra = divmod(len(self.left), len(self.members))
        self.wants_racks = self._racks_matter()

    def _racks_matter(self) -> bool:
        member_racks = {rack for rack in self.racks.values() if rack}
        all_racks = frozenset(rack for racks in self.partition_racks for rack in racks)
        # When every partition has a replica in every rack, any member is near any partition.
        return bool(member_racks & all_racks) and any(racks != all_racks for racks in self.partition_racks)

    def is_near(self, member: str, partition: int) -> bool:
        rack = self.racks[member]
        return not rack or rack in self.partition_racks[partition]

    def room(self, member: str) -> int:
        return max(0, self._each + (1 if self._extra > 0 else 0) - self._count[member])

    def give(self, member: str, partitions: Sequence[int], assignment: Assignment) -> None:
        assignment[member].extend(TopicPartition(self.topic, partition) for partition in partitions)
        self._count[member] += len(partitions)
        if self._count[member] > self._each:
            self._extra -= 1
        named = set(partitions)
        self.left = [partition for partition in self.left if partition not in named]

    def hand_out(self, may_have: Callable[[str, int], bool], assignment: Assignment) -> None:
        for member in self.members:
            found = [partition for partition in self.left if may_have(member, partition)][: self.room(member)]
            if found:
                self.give(member, found, assignment)


def _alike(shares: Iterable[_TopicShares]) -> Iterator[list[_TopicShares]]:
    """Topics with the same members and as many partitions: joins rely on them going to the same places."""
    groups: dict[tuple[tuple[str, ...], int], list[_TopicShares]] = defaultdict(list)
    for share in shares:
        groups[tuple(share.members), len(share.partition_racks)].append(share)
    yield from groups.values()


def _match_racks_together(shares: list[_TopicShares], assignment: Assignment) -> None:
    members = list(shares[0].members)
    for partition in range(len(shares[0].partition_racks)):
        near = [
            name for name in members if all(share.is_near(name, partition) and share.room(name) > 0 for share in shares)
        ]
        if not near:
            continue
        for share in shares:
            share.give(near[0], [partition], assignment)
        if not any(share.room(near[0]) for share in shares):
            members.remove(near[0])


class RoundRobinAssignor:
    name = "roundrobin"
    protocols = frozenset({RebalanceProtocol.EAGER})

    def user_data(
        self, topics: frozenset[str], last_assignment: frozenset[TopicPartition], last_generation: int
    ) -> bytes | None:
        return None

    def assign(self, view: GroupView, members: Members) -> Assignment:
        assignment: Assignment = {name: [] for name in members}
        turns = cycle(in_order(members))
        for topic in subscribed_topics(view, members):
            for partition in range(view[topic].partition_count):
                taker = next(name for name in turns if topic in members[name].topics)
                assignment[taker].append(TopicPartition(topic, partition))
        return assignment


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """How a member with these strategies rebalances; eager when one of them can only be that."""
    common = frozenset.intersection(*(assignor.protocols for assignor in assignors))
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise InvalidSetting(f"partition.assignment.strategy: {names} have no rebalance protocol in common")
    return RebalanceProtocol.COOPERATIVE if RebalanceProtocol.COOPERATIVE in common else RebalanceProtocol.EAGER
