"""What the sink writes down about its batches, and under which names: transactional ids, groups of markers, topics.

    transactional id of a task   <prefix>-<query id>-<task>           the same for every batch and every attempt
    marker of a task             an offset of the group <prefix>-<query id> in the marker topic: the next batch id

A marker travels in the transaction of its task, so it is there exactly if the rows are. The topic itself stays empty:
brokers take offsets only for partitions that exist. It has MARKERS_PER_GROUP of them, tasks beyond that go to further
groups. Beside the marker of task 0 stands the decision of the batch, as text, in the metadata of its offset:

    "2 4 1000:7 1:7 - 1:12"   version of transactions, number of tasks, and for each task its producer id (as distance
                               from the one before) and epoch; - for a task that wrote nothing
    "2s 4 1000:7 ..."          the same of identities in a staging topic (staging.py)
    "stage 8 2 4 1000:7 ..."   this was decided, and batch 8, which comes next, is to be staged; "stage 0" alone when
                               nothing was decided yet
    "2 900 1000:7 1:7 ... +2"  the list goes on in two further offsets, those of the group <prefix>-<query id>-list, in
                               the same transaction: brokers limit the metadata of one (offset.metadata.max.bytes)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.values import OffsetAndMetadata, TopicPartition

MARKERS_PER_GROUP: Final = 16
METADATA_LIMIT_BYTES: Final = 4_000
"""A little less than brokers allow by default (offset.metadata.max.bytes)."""
STAGE: Final = "stage"
STAGED: Final = "s"
_MORE: Final = re.compile(r"\+(\d{1,6})$")


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

    def place(self, number: int) -> TopicPartition:
        return TopicPartition(self.marker_topic, number % MARKERS_PER_GROUP)

    def list_group_id(self, piece: int) -> str:
        """Where a piece of a long decision stands, at place(piece)."""
        further = piece // MARKERS_PER_GROUP
        return f"{self.prefix}-{self.query_id}-list" + (f"-{further}" if further else "")

    @property
    def copier_id(self) -> str:
        """The transactional id, and the group, of who copies staged rows."""
        return f"{self.prefix}-{self.query_id}-copy"

    def staging_topic(self, batch_id: int) -> str:
        """Where the rows of a staged batch wait. A prefix may have letters that a topic may not have."""
        prefix = re.sub(r"[^A-Za-z0-9._-]", "_", self.prefix)
        return f"{self.marker_topic}-{prefix}-{self.query_id}-{batch_id}"


@dataclass(frozen=True, slots=True)
class Decision:
    """That a batch is committed, and the transactions it consists of; or, when it `is_staged`, the identities whose
    rows are to be copied from its staging topic."""

    task_count: int
    transaction_version: int
    identities: Mapping[int, tuple[int, int]]
    is_staged: bool = False

    @classmethod
    def about(cls, task_count: int, written: Mapping[int, PreparedTransaction], *, is_staged: bool = False) -> Decision:
        version = min((each.transaction_version for each in written.values()), default=2)
        identities = {task: (each.producer_id, each.producer_epoch) for task, each in sorted(written.items())}
        return cls(task_count, version, identities, is_staged)

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
        parts, before = [f"{self.transaction_version}{STAGED if self.is_staged else ''} {self.task_count}"], 0
        for task in range(self.task_count):
            if task not in self.identities:
                parts.append("-")
                continue
            producer_id, epoch = self.identities[task]
            parts.append(f"{producer_id - before}:{epoch}")
            before = producer_id
        return " ".join(parts)

    @classmethod
    def read(cls, text: str) -> Decision:
        try:
            version, count, *entries = text.split(" ")
            if len(entries) != int(count):
                raise ValueError(f"{len(entries)} entries for {count} tasks")
            identities: dict[int, tuple[int, int]] = {}
            before = 0
            for task, entry in enumerate(entries):
                if entry != "-":
                    distance, epoch = entry.split(":")
                    before += int(distance)
                    identities[task] = (before, int(epoch))
            return cls(int(count), int(version.removesuffix(STAGED)), identities, version.endswith(STAGED))
        except ValueError as problem:
            raise MarkerUnreadable(f"{text[:200]!r}: {problem}") from None


@dataclass(frozen=True, slots=True)
class Marker:
    """Which batch a task has written last. Only beside the marker of task 0: its decision, and which batch is to be
    staged."""

    batch_id: int = -1
    decision: Decision | None = None
    staged_batch: int | None = None

    @classmethod
    def of(cls, task: int, found: OffsetAndMetadata | None, more: Sequence[OffsetAndMetadata | None] = ()) -> Marker:
        """As it was written; `more` are the further offsets of a long list."""
        if found is None:
            return cls()
        if task != 0:
            return cls(found.offset - 1)
        if any(piece is None or piece.offset != found.offset for piece in more):
            raise MarkerUnreadable(f"of the list of batch {found.offset - 1} only a part is there")
        text = (found.metadata or "").removesuffix(f"+{len(more)}")
        text = "".join([text, *(piece.metadata or "" for piece in more if piece is not None)])
        staged_batch = None
        if text.startswith(f"{STAGE} "):
            number, _, text = text.removeprefix(f"{STAGE} ").partition(" ")
            if not number.isdigit():
                raise MarkerUnreadable(f"{number[:200]!r} is no batch")
            staged_batch = int(number)
        decision = None if found.offset == 0 else Decision.read(text)
        return cls(found.offset - 1, decision, staged_batch)

    def text(self) -> str:
        stage = [] if self.staged_batch is None else [f"{STAGE} {self.staged_batch}"]
        return " ".join([*stage, *([self.decision.text()] if self.decision is not None else [])])

    def as_offsets(self) -> list[OffsetAndMetadata]:
        """The offset of the marker, and behind it those that go on with a list that is too long for one."""
        text = self.text()
        pieces = [text[at : at + METADATA_LIMIT_BYTES] for at in range(0, len(text), METADATA_LIMIT_BYTES)] or [""]
        if len(pieces) > 1:
            pieces[0] += f"+{len(pieces) - 1}"
        return [OffsetAndMetadata(self.batch_id + 1, metadata=piece) for piece in pieces]


def further_pieces(found: OffsetAndMetadata | None) -> int:
    """How many further offsets the list beside the marker of task 0 has."""
    match = _MORE.search(found.metadata or "") if found is not None else None
    return int(match[1]) if match is not None else 0
