"""Who reads what in a share group: Kafka's assignor `simple`, by its rules.

1. Every partition has at least one reader, every member at least one partition that it subscribes to, if there is one.
   With more members than partitions, a partition has several readers: all about as many.
2. Members differ as little as that allows, and what a member reads it keeps as far as possible.
3. When members subscribe to different topics, each topic is shared out among those who subscribe to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ottla.broker.coordinators.groups.consumer.assignors import GroupSpec
from ottla.broker.coordinators.groups.consumer.member import Target

Partition: TypeAlias = tuple[bytes, int]


def assign_simple(spec: GroupSpec, assignable: Mapping[bytes, frozenset[int]]) -> dict[str, Target]:
    """`assignable` are the partitions that may be assigned, of every subscribed topic."""
    chosen: dict[str, set[Partition]] = {member_id: set() for member_id in spec.members}
    for members, topics in _pools(spec):
        partitions = [(topic, each) for topic in topics for each in sorted(assignable.get(topic, ()))]
        before = {member_id: _partitions(spec.members[member_id].target) for member_id in members}
        for member_id, found in _share_out(members, partitions, before).items():
            chosen[member_id] |= found
    return {member_id: _target(found) for member_id, found in chosen.items()}


def _pools(spec: GroupSpec) -> list[tuple[list[str], list[bytes]]]:
    """Members with the topics that are shared out among them."""
    if len({member.topics for member in spec.members.values()}) <= 1:
        return [(sorted(spec.members), sorted(spec.partition_counts))]
    return [
        ([member_id for member_id in sorted(spec.members) if topic in spec.members[member_id].topics], [topic])
        for topic in sorted(spec.partition_counts)
    ]


def _share_out(
    members: Sequence[str], partitions: Sequence[Partition], before: Mapping[str, set[Partition]]
) -> dict[str, set[Partition]]:
    found: dict[str, set[Partition]] = {member_id: set() for member_id in members}
    if not members or not partitions:
        return found
    readers_each = -(-len(members) // len(partitions))
    least, more = divmod(readers_each * len(partitions), len(members))
    readers = dict.fromkeys(partitions, 0)
    for member_id in members:  # what it has it keeps
        for partition in sorted(before[member_id] & readers.keys()):
            room = least + (1 if more > 0 else 0) - len(found[member_id])
            if room > 0 and readers[partition] < readers_each:
                found[member_id].add(partition)
                readers[partition] += 1
                more -= len(found[member_id]) > least
    _fill(found, readers, readers_each)
    return found


def _fill(found: dict[str, set[Partition]], readers: dict[Partition, int], readers_each: int) -> None:
    """Give each partition the readers it still needs: those who have the least."""
    by_load: dict[int, dict[str, None]] = {}
    for member_id, have in found.items():
        by_load.setdefault(len(have), {})[member_id] = None
    for partition, count in readers.items():
        for _ in range(readers_each - count):
            taker = _least_loaded(by_load, found, partition)
            if taker is None:
                break
            load = len(found[taker])
            del by_load[load][taker]
            found[taker].add(partition)
            by_load.setdefault(load + 1, {})[taker] = None


def _least_loaded(
    by_load: Mapping[int, Mapping[str, None]], found: Mapping[str, set[Partition]], partition: Partition
) -> str | None:
    for load in sorted(by_load):
        for member_id in by_load[load]:
            if partition not in found[member_id]:
                return member_id
    return None


def _partitions(target: Target) -> set[Partition]:
    return {(topic, each) for topic, partitions in target.items() for each in partitions}


def _target(partitions: set[Partition]) -> Target:
    found: dict[bytes, set[int]] = {}
    for topic, each in partitions:
        found.setdefault(topic, set()).add(each)
    return {topic: frozenset(each) for topic, each in found.items()}


ASSIGNORS: Final[Mapping[str, Callable[[GroupSpec, Mapping[bytes, frozenset[int]]], dict[str, Target]]]] = {
    "simple": assign_simple,
}
