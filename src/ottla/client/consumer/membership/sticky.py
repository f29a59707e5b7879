"""Sticky and cooperative-sticky: even shares, and as little as possible changes hands.

1. Even: nobody who could have a partition has two less than the one who has it.
2. Sticky: who has a partition keeps it, unless that would make shares uneven. A claim counts only in its newest
   generation: a member that was away claims what others were given meanwhile. Two claims of the same generation
   cannot both be true, so neither counts.
3. Cooperative: what moves from one member to another is given to nobody in this round. Its owner gives it up,
   joins again, and the next round hands it out.

User data, so that members in Java and here understand each other (big endian, as Kafka's old schemas):

    sticky              version 1: [topic, [partition]], generation int32; version 0 lacks the generation
    cooperative-sticky  generation int32 (for leaders too old to read it in the subscription)
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from ottla.client.consumer.membership.assignors import (
    Assignment,
    Members,
    RebalanceProtocol,
    in_order,
    subscribed_topics,
)
from ottla.client.consumer.membership.decisions import GroupView
from ottla.client.consumer.membership.sticky_data import StickyTopic, StickyUserData
from ottla.client.consumer.membership.subscriptions import NO_GENERATION, MemberSubscription, by_topic
from ottla.errors import MalformedMessage
from ottla.protocol.first_uses import decode_prefix, encode
from ottla.values import TopicPartition

Claims = dict[str, frozenset[TopicPartition]]


class StickyAssignor:
    name = "sticky"
    protocols = frozenset({RebalanceProtocol.EAGER})

    def user_data(
        self, topics: frozenset[str], last_assignment: frozenset[TopicPartition], last_generation: int
    ) -> bytes | None:
        if not last_assignment:
            return None
        previous = [StickyTopic(topic=name, partitions=each) for name, each in by_topic(last_assignment).items()]
        message = StickyUserData(previous_assignment=previous, generation=last_generation)
        return b"".join(bytes(part) for part in encode(message, 1))

    def claim(self, member: MemberSubscription) -> tuple[frozenset[TopicPartition], int]:
        """What the member had before it gave everything up to join, and since when."""
        for version in (1, 0):
            try:
                data, _ = decode_prefix(StickyUserData, version, member.user_data or b"")
            except MalformedMessage:
                continue
            found = (
                TopicPartition(each.topic, index) for each in data.previous_assignment for index in each.partitions
            )
            return frozenset(found), data.generation
        return frozenset(), NO_GENERATION

    def assign(self, view: GroupView, members: Members) -> Assignment:
        return _even_and_sticky(
            view, members, _valid_claims({name: self.claim(each) for name, each in members.items()})
        )


class CooperativeStickyAssignor(StickyAssignor):
    name = "cooperative-sticky"
    protocols = frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER})

    def user_data(
        self, topics: frozenset[str], last_assignment: frozenset[TopicPartition], last_generation: int
    ) -> bytes | None:
        return last_generation.to_bytes(4, "big", signed=True)

    def claim(self, member: MemberSubscription) -> tuple[frozenset[TopicPartition], int]:
        generation = member.generation
        if generation == NO_GENERATION and member.user_data is not None and len(member.user_data) >= 4:
            generation = int.from_bytes(member.user_data[:4], "big", signed=True)
        return member.owned, generation

    def assign(self, view: GroupView, members: Members) -> Assignment:
        target = super().assign(view, members)
        released = {
            partition for name, member in members.items() for partition in member.owned.difference(target[name])
        }
        return {
            name: [each for each in found if each in members[name].owned or each not in released]
            for name, found in target.items()
        }


def _valid_claims(claims: dict[str, tuple[frozenset[TopicPartition], int]]) -> Claims:
    newest: dict[TopicPartition, int] = defaultdict(lambda: NO_GENERATION)
    claimants: dict[TopicPartition, list[str]] = defaultdict(list)
    for name, (partitions, generation) in claims.items():
        for partition in partitions:
            if generation > newest[partition] or partition not in claimants:
                newest[partition], claimants[partition] = generation, []
            if generation == newest[partition]:
                claimants[partition].append(name)
    valid: dict[str, set[TopicPartition]] = {name: set() for name in claims}
    for partition, names in claimants.items():
        if len(names) == 1:
            valid[names[0]].add(partition)
    return {name: frozenset(found) for name, found in valid.items()}


def _even_and_sticky(view: GroupView, members: Members, claims: Claims) -> Assignment:
    topics = subscribed_topics(view, members)
    partitions = [TopicPartition(topic, index) for topic in topics for index in range(view[topic].partition_count)]
    existing = set(partitions)
    kept = {
        name: sorted(each for each in claims[name] & existing if each.topic in members[name].topics)
        for name in in_order(members)
    }
    if len({member.topics for member in members.values()}) <= 1:
        return _equal_shares(partitions, kept)
    return _uneven_interests(view, members, topics, partitions, kept)


def _equal_shares(partitions: list[TopicPartition], kept: Assignment) -> Assignment:
    """All members want the same topics: everybody gets the same number, or one more."""
    if not kept:
        return {}
    least, extra = divmod(len(partitions), len(kept))
    # The longer shares go to those who have most already, so that the fewest partitions move.
    longer = set(sorted(kept, key=lambda name: -len(kept[name]))[:extra])
    shares = {name: least + (name in longer) for name in kept}
    assignment = {name: found[: shares[name]] for name, found in kept.items()}
    assigned = {partition for found in assignment.values() for partition in found}
    free = iter(partition for partition in partitions if partition not in assigned)
    for name, found in assignment.items():
        found.extend(islice(free, shares[name] - len(found)))
    return {name: sorted(found) for name, found in assignment.items()}


def _uneven_interests(
    view: GroupView, members: Members, topics: list[str], partitions: list[TopicPartition], kept: Assignment
) -> Assignment:
    """Members want different topics: hand out to whoever has least, then move while somebody has two more."""
    takers = {topic: [name for name in kept if topic in members[name].topics] for topic in topics}
    owner = {partition: name for name, found in kept.items() for partition in found}
    sizes = {name: len(found) for name, found in kept.items()}
    # Partitions with few takers first: the others can fill in what those leave uneven.
    for partition in sorted(partitions, key=lambda each: (len(takers[each.topic]), each)):
        if partition not in owner:
            taker = min(takers[partition.topic], key=lambda name: (sizes[name], name))
            owner[partition] = taker
            sizes[taker] += 1
    _even_out(owner, sizes, takers, {partition: name for name, found in kept.items() for partition in found})
    assignment: Assignment = {name: [] for name in members}
    for partition in sorted(owner):
        assignment[owner[partition]].append(partition)
    return assignment


def _even_out(
    owner: dict[TopicPartition, str],
    sizes: dict[str, int],
    takers: dict[str, list[str]],
    before: dict[TopicPartition, str],
) -> None:
    """Each move makes the sum of squares smaller, so it ends. What was not anybody's before moves first."""
    moved = True
    while moved:
        moved = False
        for partition in sorted(owner, key=lambda each: (before.get(each) == owner[each], each)):
            taker = min(takers[partition.topic], key=lambda name: (sizes[name], before.get(partition) != name, name))
            if sizes[owner[partition]] > sizes[taker] + 1:
                sizes[owner[partition]] -= 1
                sizes[taker] += 1
                owner[partition] = taker
                moved = True
