"""The topology of a streams group: its subtopologies, what each reads, writes and keeps.

The value that is kept in the log is the topology; this says what follows from it. It is made when a group's topology
record is replayed, and when a member sends one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ottla.errors import StreamsInvalidTopology, StreamsInvalidTopologyEpoch
from ottla.light_dataclasses import dataclass
from ottla.protocol.messages import streams_group_heartbeat as wire
from ottla.protocol.stored import streams_groups as stored
from ottla.protocol.stored.streams_groups import StreamsGroupTopologyValue, Subtopology, TopicInfo


@dataclass(frozen=True, slots=True)
class Topology:
    epoch: int
    subtopologies: Mapping[str, Subtopology]  # by id, sorted
    source_topics: Mapping[str, str]  # every topic that tasks read, with the id of the subtopology that does
    required_topics: frozenset[str]  # these, and the changelogs

    def subtopology(self, name: str) -> Subtopology | None:
        return self.subtopologies.get(name)


def read_topics(subtopology: Subtopology) -> Iterator[str]:
    """The topics whose partitions become the tasks of a subtopology."""
    yield from subtopology.source_topics
    yield from (topic.name for topic in subtopology.repartition_source_topics)


def topology_of_record(value: StreamsGroupTopologyValue) -> Topology:
    subtopologies = {
        each.subtopology_id: each for each in sorted(value.subtopologies, key=lambda it: it.subtopology_id)
    }
    sources = {topic: name for name, each in subtopologies.items() for topic in read_topics(each)}
    changelogs = {topic.name for each in subtopologies.values() for topic in each.state_changelog_topics}
    return Topology(value.epoch, subtopologies, sources, frozenset(changelogs | sources.keys()))


def record_of_request(topology: wire.Topology) -> StreamsGroupTopologyValue:
    """The record of a topology that a member sent; raises when it cannot be one."""
    check_topology(topology)
    return StreamsGroupTopologyValue(
        epoch=topology.epoch, subtopologies=[_subtopology(each) for each in topology.subtopologies]
    )


def _subtopology(each: wire.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=each.subtopology_id,
        source_topics=list(each.source_topics),
        source_topic_regex=list(each.source_topic_regex),
        state_changelog_topics=_topics(each.state_changelog_topics),
        repartition_sink_topics=list(each.repartition_sink_topics),
        repartition_source_topics=_topics(each.repartition_source_topics),
        copartition_groups=[
            stored.CopartitionGroup(
                source_topics=list(group.source_topics),
                source_topic_regex=list(group.source_topic_regex),
                repartition_source_topics=list(group.repartition_source_topics),
            )
            for group in each.copartition_groups
        ],
    )


def _topics(topics: Iterable[wire.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[stored.TopicConfig(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in topics
    ]


def named_topics(topology: wire.Topology) -> set[str]:
    """Every topic that a topology names, for access rules and for names that cannot be."""
    names: set[str] = set()
    for each in topology.subtopologies:
        names.update(each.source_topics, each.repartition_sink_topics)
        names.update(topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
    return names


# -- is it a topology at all ------------------------------------------------------------------------------------------


def check_topology(topology: wire.Topology) -> None:
    """Kafka breaks with UNKNOWN_SERVER_ERROR at most of these."""
    if topology.epoch < 0:
        raise StreamsInvalidTopologyEpoch("Topology epoch must be non-negative.")
    ids = [each.subtopology_id for each in topology.subtopologies]
    if len(set(ids)) < len(ids):
        raise StreamsInvalidTopology("A subtopology id stands twice in the topology.")
    for subtopology in topology.subtopologies:
        _check_internal_topics(subtopology)
        for group in subtopology.copartition_groups:
            _check_copartition_group(subtopology, group)


def _check_internal_topics(subtopology: wire.Subtopology) -> None:
    for topic in subtopology.state_changelog_topics:
        if topic.partitions != 0:
            raise StreamsInvalidTopology(
                f"Changelog topic {topic.name} must have an undefined partition count, "
                f"but it is set to {topic.partitions}."
            )
    for topic in subtopology.repartition_source_topics:
        if topic.partitions < 0:
            raise StreamsInvalidTopology(f"Repartition topic {topic.name} has {topic.partitions} partitions.")


def _check_copartition_group(subtopology: wire.Subtopology, group: wire.CopartitionGroup) -> None:
    named = (
        (group.source_topics, len(subtopology.source_topics)),
        (group.repartition_source_topics, len(subtopology.repartition_source_topics)),
    )
    if any(not 0 <= index < count for indexes, count in named for index in indexes):
        raise StreamsInvalidTopology(
            f"A copartition group of subtopology {subtopology.subtopology_id} names a topic that it does not have."
        )
