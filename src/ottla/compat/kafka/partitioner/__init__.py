"""kafka.partitioner: which partition a record goes to, by kafka-python's classes.

1. DefaultPartitioner and StickyPartitioner stand for our client's own rule (murmur2 of keys, sticky without a key) and
   cost nothing. Called directly they answer as kafka-python's do.
2. A Partitioner of the program's own is called for every record without a partition, with the cluster as it is known.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.records import murmur2

__all__ = ["DefaultPartitioner", "Partitioner", "StickyPartitioner", "murmur2"]


class Partitioner(ABC):
    """Chooses partitions."""

    @abstractmethod
    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int: ...


class DefaultPartitioner(Partitioner):
    """murmur2 of the key; anywhere without one."""

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int:
        if topic not in cluster.topics():
            raise ValueError(f"Topic {topic} not found in ClusterMetadata")
        partitions = sorted(cluster.partitions_for_topic(topic))
        if serialized_key is not None:
            return int(partitions[(murmur2(serialized_key) & 0x7FFFFFFF) % len(partitions)])
        return int(random.choice(list(cluster.available_partitions_for_topic(topic)) or partitions))


class StickyPartitioner(DefaultPartitioner):
    """murmur2 of the key; without one the same partition until a batch is full."""

    def __init__(self) -> None:
        self._sticky: dict[str, int] = {}

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int:
        found = self._sticky.get(topic)
        possible = cluster.available_partitions_for_topic(topic) or cluster.partitions_for_topic(topic) or ()
        if serialized_key is not None or found not in possible:
            chosen = super().partition(topic, key, serialized_key, value, serialized_value, cluster)
            if serialized_key is None:
                self._sticky[topic] = chosen
            return chosen
        return int(found)  # type: ignore[arg-type]  # it is one of the possible ones

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """Move on from a partition whose batch is full."""
        if self._sticky.get(topic) == prev_partition:
            others = [each for each in cluster.available_partitions_for_topic(topic) or () if each != prev_partition]
            self._sticky[topic] = random.choice(others) if others else prev_partition


class ClusterSnapshot:
    """What a partitioner may ask of the cluster: the partitions of one topic."""

    def __init__(self, partitions: Mapping[str, Sequence[tuple[int, bool]]]) -> None:
        self._partitions = partitions

    def topics(self) -> set[str]:
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        found = self._partitions.get(topic)
        return None if found is None else {number for number, _ in found}

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        found = self._partitions.get(topic)
        return None if found is None else {number for number, has_leader in found if has_leader}


def is_built_in(partitioner: Any) -> bool:
    """Whether our client's own rule does the same."""
    return partitioner is None or type(partitioner) in (DefaultPartitioner, StickyPartitioner)
