"""Reassignments as files and as proposals: what the JSON says, and who should have which copies.

    {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/d"]}]}

A proposal spreads the copies of a topic over the brokers as Kafka does for a new topic: from a random beginning, one
broker after the other, racks in turn where they are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.java_json import java_json
from ottla.cli.kafka.partition_files import checked_version, field_of
from ottla.errors import UnknownTopicOrPartition
from ottla.light_tuples import NamedTuple
from ottla.values import Node, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.cluster import Replica

ANY_DIRECTORY: Final = "any"


class Refused(Exception):
    """What was asked for is not done; the text says why, and is printed as it is."""


class Plan(NamedTuple):
    """New copies of partitions, and directories for some of them; partitions may be named twice in a file."""

    replicas: list[tuple[TopicPartition, list[int]]]
    directories: dict[Replica, str]

    def by_partition(self) -> dict[TopicPartition, list[int]]:
        return dict(self.replicas)

    def topics(self) -> set[str]:
        return {partition.topic for partition, _ in self.replicas}


# --- files -----------------------------------------------------------------------------------------------------------


def parse_topics(data: Any) -> list[str]:
    checked = checked_version(data)
    return [field_of(each, "topic", str) for each in checked.get("topics", ())]


def parse_plan(data: Any) -> Plan:
    from ottla.client.admin.cluster import Replica

    plan = Plan([], {})
    for entry in checked_version(data).get("partitions", ()):
        partition = TopicPartition(field_of(entry, "topic", str), field_of(entry, "partition", int))
        brokers = field_of(entry, "replicas", list)
        directories = entry.get("log_dirs", [ANY_DIRECTORY] * len(brokers))
        if len(directories) != len(brokers):
            raise ValueError(
                f"Size of replicas list {brokers} is different from size of log dirs list "
                f"[{', '.join(directories)}] for partition {partition}"
            )
        plan.replicas.append((partition, brokers))
        for broker, directory in zip(brokers, directories, strict=True):
            if directory != ANY_DIRECTORY:
                plan.directories[Replica(partition.topic, partition.partition, broker)] = directory
    return plan


def check_plan(plan: Plan) -> None:
    """Refuse what cannot be carried out: nothing, no copies, something named twice."""
    if not plan.replicas:
        raise ValueError("Partition reassignment list cannot be empty")
    if any(not brokers for _, brokers in plan.replicas):
        raise ValueError("Partition replica list cannot be empty")
    if twice := _twice([partition for partition, _ in plan.replicas]):
        names = ",".join(map(str, twice))
        raise ValueError(f"Partition reassignment contains duplicate topic partitions: {names}")
    doubled = [
        f"{partition} contains multiple entries for {','.join(map(str, found))}"
        for partition, brokers in plan.replicas
        if (found := _twice(brokers))
    ]
    if doubled:
        raise ValueError(f"Partition replica lists may not contain duplicate entries: {'. '.join(doubled)}")


def _twice(items: Sequence[Any]) -> list[Any]:
    return [each for each in dict.fromkeys(items) if items.count(each) > 1]


def as_json(replicas: Mapping[TopicPartition, Sequence[int]], directories: Mapping[Replica, str]) -> str:
    """A reassignment as the file that --execute reads."""
    from ottla.client.admin.cluster import Replica

    partitions = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": list(replicas[each]),
            "log_dirs": [
                directories.get(Replica(each.topic, each.partition, broker), ANY_DIRECTORY) for broker in replicas[each]
            ],
        }
        for each in sorted(replicas)
    ]
    return java_json({"version": 1, "partitions": partitions})


# --- proposals -------------------------------------------------------------------------------------------------------


def generate(admin: Admin, topics: Sequence[str], broker_list: str, *, racks: bool) -> None:
    """Print what is, and what could be."""
    try:
        brokers = [int(each) for each in broker_list.split(",")]
    except ValueError:
        raise ValueError(f'For input string: "{broker_list}"') from None
    if twice := _twice(brokers):
        raise ValueError(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    if doubled := _twice(topics):
        raise ValueError(f"List of topics to reassign contains duplicate entries: [{', '.join(doubled)}]")
    current = current_replicas(admin, topics)
    nodes = [node for node in admin.describe_cluster().nodes if node.id in brokers]
    proposed = propose(current, _with_racks(nodes, racks), Random())
    print(f"Current partition replica assignment\n{as_json(current, replica_directories(admin, current))}\n")
    print(f"Proposed partition reassignment configuration\n{as_json(proposed, {})}")


def _with_racks(nodes: Sequence[Node], racks: bool) -> list[Node]:
    without = [node for node in nodes if not node.rack]
    if racks and without and len(without) != len(nodes):
        raise ValueError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    return list(nodes) if racks else [node._replace(rack=None) for node in nodes]


def current_replicas(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = {}
    for topic in dict.fromkeys(topics):
        try:
            described = admin.describe_topics([topic])[topic]
        except UnknownTopicOrPartition:
            raise UnknownTopicOrPartition(f"Topic {topic} not found.") from None
        found |= {TopicPartition(topic, each.partition): list(each.replicas) for each in described.partitions}
    return found


def replica_directories(admin: Admin, replicas: Mapping[TopicPartition, Sequence[int]]) -> dict[Replica, str]:
    """In which directories copies are, where their brokers tell."""
    from ottla.client.admin.cluster import Replica

    wanted = [Replica(each.topic, each.partition, broker) for each, brokers in replicas.items() for broker in brokers]
    live = {node.id for node in admin.describe_cluster().nodes}
    found = admin.describe_replica_log_dirs([each for each in wanted if each.broker in live])
    return {each: place.current for each, place in found.items() if place.current is not None}


def propose(
    current: Mapping[TopicPartition, Sequence[int]], nodes: Sequence[Node], random: Random
) -> dict[TopicPartition, list[int]]:
    """Copies of every topic over these brokers, as many of each partition as its first partition has now."""
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in dict.fromkeys(each.topic for each in current):
        partitions = sorted(each for each in current if each.topic == topic)
        copies = len(current[partitions[0]])
        if copies > len(nodes):
            raise ValueError(
                f"The target replication factor of {copies} cannot be reached because only {len(nodes)} broker(s) are "
                "registered."
            )
        ring = _ring(nodes, random)
        for place, partition in enumerate(partitions):
            # Every time around the followers move on by one, so that no two brokers share all their partitions.
            leader = ring[place % len(ring)]
            rest = [each for each in ring if each != leader]
            shift = (place + place // len(ring)) % len(rest) if rest else 0
            proposed[partition] = [leader, *_spread(leader, rest[shift:] + rest[:shift], nodes)[: copies - 1]]
    return proposed


def _ring(nodes: Sequence[Node], random: Random) -> list[int]:
    """Brokers of one rack after the other in turn, from a random beginning."""
    by_rack: dict[str | None, list[int]] = {}
    for node in nodes:
        by_rack.setdefault(node.rack, []).append(node.id)
    racks = list(by_rack.values())
    for each in racks:
        random.shuffle(each)
    random.shuffle(racks)
    longest = max(map(len, racks), default=0)
    return [rack[place] for place in range(longest) for rack in racks if place < len(rack)]


def _spread(leader: int, followers: Sequence[int], nodes: Sequence[Node]) -> list[int]:
    """Followers in racks that have no copy yet first."""
    rack_of = {node.id: node.rack for node in nodes}
    if not any(rack_of.values()):
        return list(followers)
    seen = {rack_of[leader]}
    first: list[int] = []
    later: list[int] = []
    for each in followers:
        (later if rack_of[each] in seen else first).append(each)
        seen.add(rack_of[each])
    return first + later
