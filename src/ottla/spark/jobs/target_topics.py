"""Which topics a copy needs at its target, and whether partitions keep their numbers.

1. A topic that is missing is made with as many partitions as the source has, and with its own settings if these are
   known; a topic with too few partitions is grown only by a mirror, because growing moves the keys of other writers.
2. A replay keeps numbers when both sides have as many partitions. When they do not, the user says what is meant:
   `keep` (the target must have at least as many), or `by-key` (the partitioner decides, as for a producer).
3. What to do is a value; make() does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

Placement: TypeAlias = Literal["auto", "keep", "by-key"]
PLACEMENTS: Final[tuple[Placement, ...]] = ("auto", "keep", "by-key")


class PartitionsDiffer(OttlaError):
    """Source and target do not have the same number of partitions. Say what is meant: --partitions keep gives every
    record the partition it had, --partitions by-key lets its key decide."""


class TooFewPartitions(OttlaError):
    """The target has fewer partitions than the source. Add some (ottla topic alter), or use --partitions by-key."""


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """What must be done before the first record is written."""

    create: Mapping[str, int] = field(default_factory=dict)
    grow: Mapping[str, int] = field(default_factory=dict)
    keeps_partitions: bool = True


def replay_target(source: Mapping[str, int], target: Mapping[str, int], placement: Placement) -> TargetPlan:
    """For a replay: `source` is how many partitions the topics need, `target` how many those have that are there."""
    create = {topic: count for topic, count in source.items() if topic not in target}
    if placement == "by-key":
        return TargetPlan(create, keeps_partitions=False)
    for topic, count in sorted(source.items()):
        there = target.get(topic, count)
        said = f"{topic!r} has {there} partitions at the target and {count} at the source"
        if there < count and placement == "keep":
            raise TooFewPartitions(said)
        if there != count and placement == "auto":
            raise PartitionsDiffer(said)
    return TargetPlan(create)


def mirror_target(source: Mapping[str, int], target: Mapping[str, int]) -> TargetPlan:
    """For a mirror: every partition of the source has its place at the target."""
    create = {topic: count for topic, count in source.items() if topic not in target}
    grow = {topic: count for topic, count in source.items() if topic in target and target[topic] < count}
    return TargetPlan(create, grow)


def make(admin: Admin, wanted: TargetPlan, settings: Mapping[str, Mapping[str, str]] | None = None) -> None:
    """Carry a plan out. `settings` are those of topics that are made."""
    from ottla.client.admin.topics import NewTopic

    known = settings or {}
    if wanted.create:
        new = [NewTopic(topic, count, configs=known.get(topic, {})) for topic, count in wanted.create.items()]
        admin.create_topics(new)
    if wanted.grow:
        admin.create_partitions(wanted.grow)


def partition_counts(admin: Admin, topics: Mapping[str, object] | tuple[str, ...]) -> dict[str, int]:
    """How many partitions those topics have that are there."""
    there = [topic for topic in topics if topic in admin.list_topics(include_internal=True)]
    found = admin.describe_topics(there) if there else {}
    return {topic: len(each.partitions) for topic, each in found.items()}


def own_settings(admin: Admin, topics: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """What was set for these topics themselves, and not for their cluster."""
    from ottla.client.admin.configs import ConfigResource, ConfigResourceType, ConfigSource

    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    found = admin.describe_configs(resources) if resources else {}
    return {
        resource.name: {
            name: entry.value
            for name, entry in entries.items()
            if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG and entry.value is not None
        }
        for resource, entries in found.items()
    }
