"""How many partitions the internal topics of a topology need.

    repartition topics   as many as the topology says, or as the largest topic that the subtopology reads which writes
                         them; found by repetition, because one may depend on another
    copartition groups   topics that are joined must have equally many: external ones decide, then fixed repartition
                         topics, then the largest; repartition topics that are free follow
    changelogs           as many as their subtopology has tasks

`TopicProblem` says what a user can mend by changing topics, and becomes a status of the answer. A topology that cannot
work whatever the topics are is StreamsInvalidTopology, and an error of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from ottla.broker.coordinators.groups.streams.state import Status
from ottla.broker.coordinators.groups.streams.topology import Topology, read_topics
from ottla.errors import StreamsInvalidTopology
from ottla.protocol.stored.streams_groups import CopartitionGroup, Subtopology

Count: TypeAlias = Callable[[str], int | None]
"""The partitions of a topic, as it is or as it will be made; None: not known."""


class TopicProblem(Exception):
    """The topics that exist do not fit the topology."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def decide_partition_counts(topology: Topology, existing: Count) -> dict[str, int]:
    """The partitions of every internal topic; all source topics must exist."""
    decided = _repartition_counts(topology, existing)

    def count(topic: str) -> int | None:
        known = existing(topic)
        return decided.get(topic) if known is None else known

    fixed, flexible = _repartition_topics(topology)
    for subtopology in topology.subtopologies.values():
        for group in subtopology.copartition_groups:
            decided.update(_copartitioned(_members(subtopology, group), fixed, flexible, count))
    for subtopology in topology.subtopologies.values():
        tasks = task_count(subtopology, count)
        decided.update(dict.fromkeys((topic.name for topic in subtopology.state_changelog_topics), tasks))
    return decided


def task_count(subtopology: Subtopology, count: Count) -> int:
    """A subtopology has as many tasks as the largest topic that it reads has partitions."""
    counts = [_must(count, topic) for topic in read_topics(subtopology)]
    if not counts:
        raise StreamsInvalidTopology(f"No source topics found for subtopology {subtopology.subtopology_id}")
    return max(counts)


def _must(count: Count, topic: str) -> int:
    found = count(topic)
    if found is None:
        raise StreamsInvalidTopology(f"The number of partitions of topic {topic} cannot be known")
    return found


# -- repartition topics -----------------------------------------------------------------------------------------------


def _repartition_counts(topology: Topology, existing: Count) -> dict[str, int]:
    subtopologies = topology.subtopologies.values()
    sources = {topic.name: topic.partitions for each in subtopologies for topic in each.repartition_source_topics}
    found = {name: partitions for name, partitions in sources.items() if partitions}
    open_sinks = [(sink, each) for each in subtopologies for sink in each.repartition_sink_topics if sink not in found]
    while open_sinks:
        still_open = []
        for sink, subtopology in open_sinks:
            partitions = _largest(subtopology, found, existing)
            if sink in found:
                continue
            if partitions is None:
                still_open.append((sink, subtopology))
            else:
                found[sink] = partitions
        if len(still_open) == len(open_sinks):
            raise StreamsInvalidTopology(
                "Failed to compute number of partitions for all repartition topics. "
                "There may be loops in the topology that cannot be resolved."
            )
        open_sinks = still_open
    if not sources.keys() <= found.keys():
        raise StreamsInvalidTopology(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic "
            "is never used as a sink topic."
        )
    return found


def _largest(subtopology: Subtopology, found: Mapping[str, int], existing: Count) -> int | None:
    counts = [found.get(topic.name) for topic in subtopology.repartition_source_topics]
    counts += [existing(topic) for topic in subtopology.source_topics]
    return max((each for each in counts if each is not None), default=None)


def _repartition_topics(topology: Topology) -> tuple[frozenset[str], frozenset[str]]:
    """Those whose partitions the topology fixes, and those that may have any number."""
    topics = [topic for each in topology.subtopologies.values() for topic in each.repartition_source_topics]
    fixed = frozenset(topic.name for topic in topics if topic.partitions)
    return fixed, frozenset(topic.name for topic in topics if not topic.partitions)


# -- copartition groups -----------------------------------------------------------------------------------------------


def _members(subtopology: Subtopology, group: CopartitionGroup) -> frozenset[str]:
    sources = [subtopology.source_topics[index] for index in group.source_topics]
    made = [subtopology.repartition_source_topics[index].name for index in group.repartition_source_topics]
    return frozenset((*sources, *made))


def _copartitioned(
    topics: Iterable[str], fixed: frozenset[str], flexible: frozenset[str], count: Count
) -> dict[str, int]:
    """The partitions of the repartition topics among them."""
    counts = {topic: _must(count, topic) for topic in sorted(topics)}
    made = {topic: each for topic, each in counts.items() if topic in fixed or topic in flexible}
    external = {topic: each for topic, each in counts.items() if topic not in made}
    if external:
        wanted = _same(external)
    elif made.keys() & fixed:
        wanted = _same({topic: each for topic, each in made.items() if topic in fixed})
    else:
        wanted = max(made.values(), default=0)
    for topic in sorted(made.keys() & fixed):
        if made[topic] != wanted:
            raise TopicProblem(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{made[topic]}] of repartition topic [{topic}] doesn't match number of "
                f"partitions [{wanted}] of the source topic.",
            )
    return dict.fromkeys(made, wanted)


def _same(counts: Mapping[str, int]) -> int:
    different = set(counts.values())
    if len(different) > 1:
        listed = ", ".join(f"{topic}={each}" for topic, each in sorted(counts.items()))
        raise TopicProblem(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return different.pop()
