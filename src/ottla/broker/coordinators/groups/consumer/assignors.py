"""Who should have which partitions: the assignors `range` and `uniform` that run on the broker.

An assignor is a function from what a group wants (GroupSpec) to a target per member. It must not depend on anything
else, and assigns every partition of every subscribed topic to exactly one member that subscribes to it.

    range     per topic, neighbours stay together, the same member gets the same numbers of topics of equal size;
              static members first. Not sticky: a newcomer shifts the ranges.
    uniform   members differ by one partition at most, and what a member has it keeps as far as that allows. When
              members subscribe to different topics this is not always possible: uneven.py does what can be done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ottla.broker.coordinators.groups.consumer.member import Target, partitions_of
from ottla.light_tuples import NamedTuple


class MemberSpec(NamedTuple):
    topics: frozenset[bytes]  # topics that exist
    target: Target  # its assignment before
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]  # of every subscribed topic


Assignor: TypeAlias = Callable[[GroupSpec], dict[str, Target]]


# -- range ------------------------------------------------------------------------------------------------------------


def assign_range(spec: GroupSpec) -> dict[str, Target]:
    order = sorted(spec.members, key=lambda member_id: _static_first(spec.members[member_id], member_id))
    found: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in order}
    for topic_id, count in spec.partition_counts.items():
        readers = [member_id for member_id in order if topic_id in spec.members[member_id].topics]
        if not readers:
            continue
        least, more = divmod(count, len(readers))
        start = 0
        for index, member_id in enumerate(readers):
            end = start + least + (index < more)
            if start < end:
                found[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(found)


def _static_first(member: MemberSpec, member_id: str) -> tuple[bool, str]:
    return (False, member.instance_id) if member.instance_id is not None else (True, member_id)


# -- uniform ----------------------------------------------------------------------------------------------------------


def assign_uniform(spec: GroupSpec) -> dict[str, Target]:
    from ottla.broker.coordinators.groups.consumer.uneven import assign_uneven

    if len({member.topics for member in spec.members.values()}) <= 1:
        return _assign_even(spec)
    return assign_uneven(spec)


def kept_partitions(spec: GroupSpec) -> dict[str, list[tuple[bytes, int]]]:
    """What every member had and may keep: topics it still reads, partitions that exist, nothing twice."""
    assigned: set[tuple[bytes, int]] = set()
    kept: dict[str, list[tuple[bytes, int]]] = {}
    for member_id, member in sorted(spec.members.items()):
        had = sorted(
            (topic_id, partition)
            for topic_id, partition in partitions_of(member.target)
            if topic_id in member.topics and partition < spec.partition_counts.get(topic_id, 0)
        )
        kept[member_id] = [each for each in had if each not in assigned]
        assigned.update(had)
    return kept


def _assign_even(spec: GroupSpec) -> dict[str, Target]:
    """All read the same topics: everybody gets the same number, and the rest goes to members that have more already."""
    if not spec.members:
        return {}
    topics = next(iter(spec.members.values())).topics
    everything = [(topic_id, index) for topic_id in sorted(topics) for index in range(spec.partition_counts[topic_id])]
    least, more = divmod(len(everything), len(spec.members))
    kept = kept_partitions(spec)
    by_wealth = sorted(kept, key=lambda member_id: (len(kept[member_id]) <= least, member_id))
    quotas = {member_id: least + (index < more) for index, member_id in enumerate(by_wealth)}
    found = {member_id: each[: quotas[member_id]] for member_id, each in kept.items()}
    assigned = {each for partitions in found.values() for each in partitions}
    free = iter([each for each in everything if each not in assigned])
    for member_id, partitions in found.items():
        partitions += [next(free) for _ in range(quotas[member_id] - len(partitions))]
    return {member_id: as_target(partitions) for member_id, partitions in found.items()}


def as_target(partitions: list[tuple[bytes, int]]) -> Target:
    found: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(each) for topic_id, each in found.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
