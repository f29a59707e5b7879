"""Batches of the metadata log to images: what is committed is read here, and nobody sees the middle of anything.

    loader = MetadataLoader(cluster_id)
    for _ in loader.load_snapshot(batches, end_offset=4711, epoch=3): ...    # or from nothing
    if loader.add(batch): publish(loader.image)

1. A batch is shown as a whole. Batches between a BeginTransactionRecord and its EndTransactionRecord are shown with
   that, all at once; an AbortTransactionRecord drops them. Until then the image stays what it was.
2. Batches come in the order of the log, without a gap; anything else is IllegalChange. Only committed ones may come:
   what was shown cannot be taken back.
3. `image.change_number` is the offset of the last record that is in the image: two images of one cluster with the same
   number are equal, and brokers tell it with their heartbeats. `position` has its epoch and time besides, which a
   snapshot of it is named by.
4. Of control records only the level of kraft.version is shown; voters and leaders are Raft's.
5. A snapshot is loaded in steps, each bounded by STEP_RECORDS, and shown at the end; so is a batch where who reads it
   wants to do other things between.
6. `take_changes` says by which changes the image became what it is, for who follows it without comparing images.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from ottla.cluster.changes import Change, IllegalChange, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batches import MetadataBatch
from ottla.cluster.metadata_log.reading import Replay
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.metadata_log import MetadataRecord
from ottla.protocol.metadata_log.control import KRaftVersionRecord, SnapshotHeaderRecord
from ottla.protocol.metadata_log.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

STEP_RECORDS: Final = 500
STEP_TOPICS: Final = 20
"""Of a snapshot, where a topic with all its partitions is one change."""
NOTHING_READ: Final = -1


class Position(NamedTuple):
    """The last record that is in an image: its offset, and epoch and time of its batch."""

    offset: int = NOTHING_READ
    epoch: int = 0
    timestamp_ms: int = 0

    @property
    def end_offset(self) -> int:
        return self.offset + 1


class MetadataLoader:
    """See above."""

    def __init__(self, cluster_id: str) -> None:
        self.image = ClusterImage(cluster_id, change_number=NOTHING_READ)
        self.position = Position()
        self._read = Position()
        self._replay: Replay | None = None  # of what was read and is not shown
        self._in_transaction = False
        self._changes: list[Change] | None = None

    def take_changes(self) -> list[Change] | None:
        """What changed since this was asked last; None where anything may have: at first, and after a snapshot."""
        changes, self._changes = self._changes, []
        return changes

    @property
    def in_transaction(self) -> bool:
        """Whether the log was read to the middle of a transaction: no time for a snapshot."""
        return self._in_transaction

    @property
    def end_offset(self) -> int:
        """What must come next."""
        return self._read.end_offset

    def add(self, batch: MetadataBatch) -> bool:
        """Read one more batch; whether the image is another one then."""
        before = self.position
        for _ in self.steps(batch):
            pass
        return self.position != before

    def steps(self, batch: MetadataBatch) -> Iterator[None]:
        """The same, with a pause after every STEP_RECORDS; only the last step shows anything."""
        if batch.base_offset != self.end_offset:
            raise IllegalChange(f"the metadata log goes on at {batch.base_offset}; {self.end_offset} is the next one")
        for number, record in enumerate(batch.records, 1):
            self._take(record, Position(batch.base_offset + number - 2, batch.epoch, batch.timestamp_ms))
            if not number % STEP_RECORDS:
                yield
        self._take_controls(batch)
        read = Position(batch.last_offset, batch.epoch, batch.timestamp_ms)
        if not self._in_transaction:
            yield from self._shown(read)
        self._read = read

    def _take_controls(self, batch: MetadataBatch) -> None:
        for control in batch.controls:
            if isinstance(control, KRaftVersionRecord):
                self.image = replace(self.image, kraft_version=control.k_raft_version)

    def _take(self, record: MetadataRecord, read: Position) -> None:
        match record:
            case BeginTransactionRecord():
                if self._in_transaction:
                    raise IllegalChange(f"a transaction begins at offset {read.end_offset} within another one")
                for _ in self._shown(read) if self._replay is not None else ():
                    pass
                self._in_transaction = True
            case EndTransactionRecord() | AbortTransactionRecord():
                if not self._in_transaction:
                    raise IllegalChange(f"a transaction ends at offset {read.end_offset} that has not begun")
                self._in_transaction = False
                if isinstance(record, AbortTransactionRecord):
                    self._replay = None
            case _:
                if self._replay is None:
                    self._replay = Replay(self.image)
                self._replay.add(record)

    def _shown(self, position: Position) -> Iterator[None]:
        replay, self._replay = self._replay, None
        image, changes = self.image, [] if replay is None else list(replay.changes())
        for first in range(0, len(changes), STEP_RECORDS):
            if first:
                yield
            image = apply_all(image, changes[first : first + STEP_RECORDS])
        if self._changes is not None:
            self._changes += changes
        self.image = replace(image, change_number=position.offset)
        self.position = position

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def load_snapshot(self, batches: Iterable[MetadataBatch], *, end_offset: int, epoch: int) -> Iterator[None]:
        """Forget everything and begin with a snapshot, in steps; it is shown after the last one."""
        image = ClusterImage(self.image.cluster_id)
        replay, timestamp_ms, kraft_version = Replay(image), 0, 0
        for batch in batches:
            for control in batch.controls:
                if isinstance(control, SnapshotHeaderRecord):
                    timestamp_ms = control.last_contained_log_timestamp
                elif isinstance(control, KRaftVersionRecord):
                    kraft_version = control.k_raft_version
            for first in range(0, len(batch.records), STEP_RECORDS):
                for record in batch.records[first : first + STEP_RECORDS]:
                    replay.add(record)
                yield
        changes = replay.changes()
        while step := list(islice(changes, STEP_TOPICS)):
            image = apply_all(image, step)
            yield
        self._replay = None
        self._changes = None
        self._in_transaction = False
        self.position = self._read = Position(end_offset - 1, epoch, timestamp_ms)
        self.image = replace(image, change_number=end_offset - 1, kraft_version=kraft_version)
