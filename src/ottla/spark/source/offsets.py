"""The position of a stream in all its partitions, as Spark keeps it in the checkpoint.

    {"version": 1, "offsets": {"clicks": {"0": 23, "1": 7}}, "topic_ids": {"clicks": "…"}, "tasks": 2,
     "begins": {"clicks": {"1": 0}}}

    version     of this form; a newer one is refused, because its meaning is not known
    offsets     the next offset to read, for each partition
    topic_ids   which topic that was: one made again under the same name has another id
    tasks       at least so many tasks read the batch that ends here, if there is enough to read
    min_partitions, max_records
                what the options minPartitions and maxRecordsPerPartition said; left out when they were not set
    begins      where the batch that ends here begins, for partitions whose beginning is not in the offset before:
                new ones, and ones that go on elsewhere after a loss; left out when there are none

1. What a batch reads, and in how many tasks, follows from its two offsets alone: a batch that is run again after a
   crash is the same batch, even on a machine with more cores.
2. The same position is always the same text, because Spark compares texts to see whether there is anything new.
3. A checkpoint of Spark's own Kafka connector, {"clicks": {"0": 23}}, is read too; it knows no topic ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.values import TopicPartition

VERSION: Final = 1
_NAMES: Final = frozenset({"version", "offsets", "topic_ids", "tasks", "min_partitions", "max_records", "begins"})


class UnreadableOffset(OttlaError):
    """An offset in the checkpoint cannot be read. Use the version of Ottla that wrote it, or a new checkpoint."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How the ranges of a batch become tasks (ranges.py)."""

    tasks: int = 1
    min_partitions: int | None = None
    max_records: int | None = None


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Where a stream is, and how the batch that ends there is read."""

    positions: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    packing: Packing = Packing()
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it."""
        made: dict[str, Any] = {
            "version": VERSION,
            "offsets": _by_topic(self.positions),
            "topic_ids": dict(sorted(self.topic_ids.items())),
            "tasks": self.packing.tasks,
        }
        if self.packing.min_partitions is not None:
            made["min_partitions"] = self.packing.min_partitions
        if self.packing.max_records is not None:
            made["max_records"] = self.packing.max_records
        if self.begins:
            made["begins"] = _by_topic(self.begins)
        return made

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> StreamOffset:
        """What Spark kept; raises UnreadableOffset."""
        if "version" not in found and all(isinstance(each, dict) for each in found.values()):
            return cls(_partitions(found))
        if found.get("version") != VERSION or not found.keys() <= _NAMES:
            raise UnreadableOffset(f"it has version {found.get('version')!r}, and this is version {VERSION}")
        topic_ids = found.get("topic_ids", {})
        if not isinstance(topic_ids, dict):
            raise UnreadableOffset(f"topic_ids={topic_ids!r}")
        positions, begins = _partitions(found.get("offsets", {})), _partitions(found.get("begins", {}))
        return cls(positions, topic_ids, _packing(found), begins)

    def says_the_same(self, other: StreamOffset) -> bool:
        """Whether both are the same place in the same topics, whatever the batches before them were."""
        return self.positions == other.positions and self._known_ids() == other._known_ids()

    def _known_ids(self) -> dict[str, str]:
        topics = {each.topic for each in self.positions}
        return {topic: each for topic, each in self.topic_ids.items() if topic in topics}


def _packing(found: Mapping[str, Any]) -> Packing:
    numbers = (found.get("tasks", 1), found.get("min_partitions"), found.get("max_records"))
    if any(each is not None and (not isinstance(each, int) or each < 1) for each in numbers):
        raise UnreadableOffset("tasks, min_partitions and max_records are whole numbers, 1 or more")
    return Packing(*numbers)


def _by_topic(numbers: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    made: dict[str, dict[str, int]] = {}
    for partition in sorted(numbers):
        made.setdefault(partition.topic, {})[str(partition.partition)] = numbers[partition]
    return made


def _partitions(found: Any) -> dict[TopicPartition, int]:
    try:
        made = {
            TopicPartition(topic, int(partition)): number
            for topic, partitions in found.items()
            for partition, number in partitions.items()
        }
    except (AttributeError, ValueError):
        raise UnreadableOffset(f"offsets are not by topic and partition: {found!r}") from None
    if any(not isinstance(number, int) or isinstance(number, bool) or number < 0 for number in made.values()):
        raise UnreadableOffset(f"offsets are whole numbers, 0 or more: {found!r}")
    return made
