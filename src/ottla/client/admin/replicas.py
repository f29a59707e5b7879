"""Who has copies of partitions and who leads them: elections and reassignments."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.client.admin.plans import Plan, Question, Route, by_topic, error_of, raise_error_of
from ottla.errors import ElectionNotNeeded, OttlaError
from ottla.light_dataclasses import dataclass
from ottla.protocol.messages import alter_partition_reassignments, elect_leaders, list_partition_reassignments
from ottla.protocol.schema import Message
from ottla.values import TopicPartition


class ElectionType(enum.IntEnum):
    """Which leader is wanted."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True)
class ElectLeaders(Question[dict[TopicPartition, OttlaError | None]]):
    """Returns what became of each partition; None: a leader was elected. Without partitions all of them are meant."""

    route = Route.CONTROLLER

    election_type: ElectionType
    partitions: Sequence[TopicPartition] | None

    def ask(self, timeout_ms: int) -> Message:
        topics = None
        if self.partitions is not None:
            topics = [
                elect_leaders.TopicPartitions(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(self.partitions).items()
            ]
        return elect_leaders.ElectLeadersRequest(
            election_type=int(self.election_type), topic_partitions=topics, timeout_ms=timeout_ms
        )

    def answer(self, response: Any) -> dict[TopicPartition, OttlaError | None]:
        raise_error_of(response)
        endings = {
            TopicPartition(topic.topic, each.partition_id): error_of(each)
            for topic in response.replica_election_results
            for each in topic.partition_result
        }
        if self.partitions is None:
            # Asked about all, those whose leader is the right one already are of no interest.
            return {key: error for key, error in endings.items() if not isinstance(error, ElectionNotNeeded)}
        return endings


@dataclass(frozen=True)
class AlterReassignments(Plan[TopicPartition, None]):
    """New brokers for partitions, the preferred leader first; None takes an ongoing move back."""

    route = Route.CONTROLLER

    replicas: Mapping[TopicPartition, Sequence[int] | None]
    allow_replication_factor_change: bool = True

    def target(self, key: TopicPartition) -> None:
        return None

    def request(self, keys: Sequence[TopicPartition], timeout_ms: int) -> Message:
        topics = [
            alter_partition_reassignments.ReassignableTopic(
                name=topic, partitions=[self._partition(TopicPartition(topic, each)) for each in indexes]
            )
            for topic, indexes in by_topic(keys).items()
        ]
        return alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            timeout_ms=timeout_ms,
            allow_replication_factor_change=self.allow_replication_factor_change,
            topics=topics,
        )

    def _partition(self, partition: TopicPartition) -> alter_partition_reassignments.ReassignablePartition:
        wanted = self.replicas[partition]
        return alter_partition_reassignments.ReassignablePartition(
            partition_index=partition.partition, replicas=None if wanted is None else list(wanted)
        )

    def results(
        self, keys: Sequence[TopicPartition], response: Any
    ) -> Iterator[tuple[TopicPartition, OttlaError | None]]:
        if (error := error_of(response)) is not None:
            yield from ((key, error) for key in keys)
            return
        for topic in response.responses:
            for each in topic.partitions:
                yield TopicPartition(topic.name, each.partition_index), error_of(each)


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A move that is going on."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True)
class ListReassignments(Question[dict[TopicPartition, PartitionReassignment]]):
    route = Route.CONTROLLER

    partitions: Sequence[TopicPartition] | None = None

    def ask(self, timeout_ms: int) -> Message:
        topics = None
        if self.partitions is not None:
            topics = [
                list_partition_reassignments.ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(self.partitions).items()
            ]
        return list_partition_reassignments.ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)

    def answer(self, response: Any) -> dict[TopicPartition, PartitionReassignment]:
        raise_error_of(response)
        return {
            TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in response.topics
            for each in topic.partitions
        }
