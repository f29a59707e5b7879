"""What a partition remembers of one producer.

1. An entry is a value: an append makes a new one and the state takes it when the append has happened.
2. The last BATCHES_KEPT batches of the current epoch are kept, because an idempotent producer has at most so many on
   their way, and any of them may come again. Another epoch forgets them: its sequences start again.
3. A batch is found again by its sequences, never by its content.
"""

from __future__ import annotations

from ottla.light_tuples import NamedTuple
from ottla.records.checks import PlacedBatch
from ottla.records.control import EndTransactionMarker, read_batch_marker
from ottla.records.header import Buffer
from ottla.records.implementation import BatchInfo, RecordBatch
from ottla.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

BATCHES_KEPT = 5
NO_COORDINATOR_EPOCH = -1
NO_OFFSET = -1
SEQUENCES = 2**31


class BatchMetadata(NamedTuple):
    """One batch that is in the log."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % SEQUENCES

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerBatch(NamedTuple):
    """What the producer state needs to know of a batch that has a producer."""

    producer_id: int
    epoch: int
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int
    is_transactional: bool
    is_control: bool = False
    # None for data, and for a control batch whose marker compaction removed.
    marker: EndTransactionMarker | None = None


class ProducerEntry(NamedTuple):
    """The state of one producer after its last append."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp_ms: int = NO_TIMESTAMP
    transaction_first_offset: int | None = None
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Of its last data batch; -1 when none of this epoch is known."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def find_duplicate(self, batch: ProducerBatch) -> BatchMetadata | None:
        """The batch in the log that this one repeats."""
        if batch.epoch != self.epoch:
            return None
        for known in self.batches:
            if known.last_sequence == batch.last_sequence and known.first_sequence == batch.first_sequence:
                return known
        return None

    def with_batch(self, batch: ProducerBatch) -> ProducerEntry:
        """After a data batch; a transactional one opens a transaction if none is open."""
        metadata = BatchMetadata(
            batch.last_sequence, batch.last_offset, batch.last_offset - batch.first_offset, batch.timestamp_ms
        )
        known = self.batches[1 - BATCHES_KEPT :] if batch.epoch == self.epoch else ()
        first_offset = self.transaction_first_offset
        if batch.is_transactional and first_offset is None:
            first_offset = batch.first_offset
        return ProducerEntry(
            self.producer_id, batch.epoch, self.coordinator_epoch, batch.timestamp_ms, first_offset, (*known, metadata)
        )

    def with_history(self, batches: list[BatchMetadata]) -> ProducerEntry:
        """After the last of these data batches, which go on in the same epoch; no transaction began or ended."""
        known = tuple(batches[-BATCHES_KEPT:])
        return ProducerEntry(
            self.producer_id,
            self.epoch,
            self.coordinator_epoch,
            known[-1].timestamp_ms,
            self.transaction_first_offset,
            known,
        )

    def with_marker(self, epoch: int, coordinator_epoch: int, timestamp_ms: int) -> ProducerEntry:
        """After the marker that ended its transaction."""
        batches = self.batches if epoch == self.epoch else ()
        return ProducerEntry(self.producer_id, epoch, coordinator_epoch, timestamp_ms, None, batches)


def read_producer_batches(buffer: Buffer, infos: list[BatchInfo]) -> list[ProducerBatch]:
    """Those of the batches in `buffer` that have a producer; markers are read from their records."""
    return [producer_batch(buffer, info) for info in infos if info.producer_id > NO_PRODUCER_ID]


def producer_batch(buffer: Buffer, info: BatchInfo | PlacedBatch) -> ProducerBatch:
    """One batch that has a producer. What got its place in one step is never a marker."""
    is_control = not isinstance(info, PlacedBatch) and info.is_control
    return ProducerBatch(
        info.producer_id,
        info.producer_epoch,
        info.base_sequence,
        info.last_sequence,
        info.base_offset,
        info.last_offset,
        info.max_timestamp_ms,
        info.is_transactional,
        is_control,
        _marker_of(buffer, info) if is_control and not isinstance(info, PlacedBatch) else None,
    )


def _marker_of(buffer: Buffer, info: BatchInfo) -> EndTransactionMarker | None:
    records = RecordBatch(buffer, info.position).tuples() if info.record_count else []
    return read_batch_marker((key, value) for _, _, key, value, _ in records)
