"""What the sink writes down about its batches, and under which names: transactional ids, the group of the markers.

    transactional id of a task   <prefix>-<query id>-<task>           the same for every batch and every attempt
    marker of a task             an offset of the group <prefix>-<query id> in the marker topic: the next batch id

A marker travels in the transaction of its task, so it is there exactly if the rows are. The topic itself stays empty:
brokers take offsets only for partitions that exist. It has MARKERS_PER_GROUP of them, tasks beyond that go to further
groups. Beside the marker of task 0 stands the decision of the batch, as text, in the metadata of its offset:

    "2 4 1000:7 1:7 - 1:12"   version of transactions, number of tasks, and for each task its producer id (as distance
                               from the one before) and epoch; - for a task that wrote nothing
    "2 900 1000:7 ?"           the list is too long for an offset's metadata: only task 0 and the number are known
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.values import OffsetAndMetadata, TopicPartition

MARKERS_PER_GROUP: Final = 16
METADATA_LIMIT_BYTES: Final = 4_000
"""A little less than brokers allow by default (offset.metadata.max.bytes)."""


class MarkerUnreadable(OttlaError):
    """The offset that says which batch was written last was not written by this sink.
    Choose another transactionalIdPrefix or markerTopic; nobody else may commit offsets for that group."""


@dataclass(frozen=True, slots=True)
class SinkNames:
    """How things are called for one query."""

    prefix: str
    query_id: str
    marker_topic: str

    def transactional_id(self, task: int) -> str:
        return f"{self.prefix}-{self.query_id}-{task}"

    def group_id(self, task: int) -> str:
        further = task // MARKERS_PER_GROUP
        return f"{self.prefix}-{self.query_id}" + (f"-{further}" if further else "")

    def place(self, task: int) -> TopicPartition:
        return TopicPartition(self.marker_topic, task % MARKERS_PER_GROUP)


@dataclass(frozen=True, slots=True)
class Decision:
    """That a batch is committed, and the transactions it consists of. Not `is_whole`: the list was too long, and only
    the first is known."""

    task_count: int
    transaction_version: int
    identities: Mapping[int, tuple[int, int]]
    is_whole: bool = True

    @classmethod
    def about(cls, task_count: int, written: Mapping[int, PreparedTransaction]) -> Decision:
        version = min((each.transaction_version for each in written.values()), default=2)
        return cls(
            task_count,
            version,
            {task: (each.producer_id, each.producer_epoch) for task, each in sorted(written.items())},
        )

    def transaction(self, task: int, names: SinkNames) -> PreparedTransaction | None:
        """What `task` wrote, if it did."""
        if task not in self.identities:
            return None
        producer_id, epoch = self.identities[task]
        return PreparedTransaction(
            names.transactional_id(task), producer_id, epoch, transaction_version=self.transaction_version
        )

    def is_of(self, other: Decision | None) -> bool:
        """Whether both were made by the same run: an identity of task 0 belongs to one attempt only."""
        return other is not None and self.identities.get(0) == other.identities.get(0)

    def text(self) -> str:
        parts, before = [f"{self.transaction_version} {self.task_count}"], 0
        for task in range(self.task_count if self.is_whole else 1):
            if task not in self.identities:
                parts.append("-")
                continue
            producer_id, epoch = self.identities[task]
            parts.append(f"{producer_id - before}:{epoch}")
            before = producer_id
        found = " ".join(parts)
        if self.is_whole and len(found) <= METADATA_LIMIT_BYTES:
            return found
        return " ".join([*parts[:2], "?"])

    @classmethod
    def read(cls, text: str) -> Decision:
        try:
            version, count, *entries = text.split(" ")
            is_whole = entries[-1:] != ["?"]
            entries = entries if is_whole else entries[:-1]
            if len(entries) != (int(count) if is_whole else 1):
                raise ValueError(f"{len(entries)} entries for {count} tasks")
            identities: dict[int, tuple[int, int]] = {}
            before = 0
            for task, entry in enumerate(entries):
                if entry != "-":
                    distance, epoch = entry.split(":")
                    before += int(distance)
                    identities[task] = (before, int(epoch))
            return cls(int(count), int(version), identities, is_whole)
        except ValueError as problem:
            raise MarkerUnreadable(f"{text[:200]!r}: {problem}") from None


@dataclass(frozen=True, slots=True)
class Marker:
    """Which batch a task has written last; `decision` only beside the marker of task 0."""

    batch_id: int = -1
    decision: Decision | None = None

    @classmethod
    def of(cls, task: int, found: OffsetAndMetadata | None) -> Marker:
        if found is None:
            return cls()
        return cls(found.offset - 1, Decision.read(found.metadata or "") if task == 0 else None)

    def as_offset(self) -> OffsetAndMetadata:
        return OffsetAndMetadata(self.batch_id + 1, metadata=self.decision.text() if self.decision else "")
