"""Whether a topology can run on the topics that exist: how many tasks it has, and which internal topics are missing.

1. Missing source topics, topics that are joined with different numbers of partitions, internal topics that exist with
   the wrong number, and missing internal topics are found in this order; the first one found is the answer's status.
2. A topology is ready when there is none. Only then it has tasks to assign.
3. Missing internal topics are described here and created by the broker (handlers/groups/streams_group_heartbeat.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.broker.coordinators.effects import ClusterView
from ottla.broker.coordinators.groups.streams.partition_counts import (
    TopicProblem,
    decide_partition_counts,
    task_count,
)
from ottla.broker.coordinators.groups.streams.state import Status
from ottla.broker.coordinators.groups.streams.topology import Topology
from ottla.light_dataclasses import dataclass
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from ottla.protocol.stored.streams_groups import Subtopology, TopicInfo

NAMED_LIMIT = 3  # topics in the detail of a status; the rest is counted


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """What a topology is on the topics of now."""

    topology_epoch: int
    metadata_hash: int
    tasks: Mapping[str, int]  # by subtopology, how many; empty when the topics do not fit
    partitions: Mapping[str, int]  # of internal topics
    missing: Mapping[str, CreatableTopic]  # internal topics that are to be created
    problem: TopicProblem | None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: Topology, metadata_hash: int, cluster: ClusterView) -> ConfiguredTopology:
    """Raises StreamsInvalidTopology for what no topics could mend."""
    try:
        _refuse_missing_sources(topology, cluster)
        partitions = decide_partition_counts(topology, cluster.partition_count)
        missing = _missing_topics(topology, partitions, cluster)
    except TopicProblem as problem:
        return ConfiguredTopology(topology.epoch, metadata_hash, {}, {}, {}, problem)

    def count(topic: str) -> int | None:
        known = cluster.partition_count(topic)
        return partitions.get(topic) if known is None else known

    tasks = {name: task_count(each, count) for name, each in topology.subtopologies.items()}
    found = None
    if missing:
        found = TopicProblem(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(missing)}")
    return ConfiguredTopology(topology.epoch, metadata_hash, tasks, partitions, missing, found)


def _refuse_missing_sources(topology: Topology, cluster: ClusterView) -> None:
    topics = {topic for each in topology.subtopologies.values() for topic in each.source_topics}
    missing = sorted(topic for topic in topics if cluster.topic_id(topic) is None)
    if missing:
        raise TopicProblem(Status.MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing.")


def _missing_topics(
    topology: Topology, partitions: Mapping[str, int], cluster: ClusterView
) -> dict[str, CreatableTopic]:
    missing = {}
    for subtopology in topology.subtopologies.values():
        for topic in internal_topics(subtopology):
            wanted = topic.partitions or partitions[topic.name]
            known = cluster.partition_count(topic.name)
            if known is None:
                missing[topic.name] = _creatable(topic, wanted)
            elif known != wanted:
                raise TopicProblem(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {topic.name} has different number of partitions: expected {wanted}, found {known}",
                )
    return missing


def internal_topics(subtopology: Subtopology) -> tuple[TopicInfo, ...]:
    return (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)


def _creatable(topic: TopicInfo, partitions: int) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=partitions,
        replication_factor=topic.replication_factor or -1,
        assignments=[],
        configs=[CreatableTopicConfig(name=each.key, value=each.value) for each in topic.topic_configs],
    )


def _summary(topics: Iterable[str]) -> str:
    names = list(topics)
    more = f" and {len(names) - NAMED_LIMIT} additional topics" if len(names) > NAMED_LIMIT else ""
    return ", ".join(names[:NAMED_LIMIT]) + more
