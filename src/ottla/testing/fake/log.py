"""FakeLog: the batches of one partition in a list, and Kafka's rules for who may append.

1. Sequence numbers are judged as a broker does it: one of the last five batches again is answered with its old offset,
   a gap is OUT_OF_ORDER_SEQUENCE_NUMBER, an older epoch INVALID_PRODUCER_EPOCH, an unknown producer that does not begin
   at 0 UNKNOWN_PRODUCER_ID if the log was told to forget somebody.
2. A transaction is open from its first batch to its marker; the last stable offset stands at the oldest open one.
"""

from __future__ import annotations

from bisect import bisect_right

from ottla.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    UnknownProducerId,
)
from ottla.light_dataclasses import dataclass, field
from ottla.records import BatchInfo, Record, RecordBatch, assign_offsets, scan
from ottla.records.control import EndTransactionMarker, end_transaction_batch

REMEMBERED_BATCHES = 5
SEQUENCE_END = 2**31


@dataclass(slots=True)
class Writer:
    """What the log knows of one producer."""

    epoch: int
    next_sequence: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)  # base sequence, count, base offset


@dataclass(slots=True)
class FakeLog:
    """One partition."""

    leader: int
    leader_epoch: int = 0
    start_offset: int = 0
    batches: list[bytes] = field(default_factory=list)
    base_offsets: list[int] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)  # epoch, its first offset
    writers: dict[int, Writer] = field(default_factory=dict)
    open_since: dict[int, int] = field(default_factory=dict)  # producer id, first offset of its transaction
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer id, first offset, marker's offset
    has_forgotten: bool = False
    end_offset: int = 0

    @property
    def last_stable_offset(self) -> int:
        return min(self.open_since.values(), default=self.end_offset)

    def append(self, data: bytes | memoryview) -> int:
        """Append what a Produce request carries; returns the base offset."""
        buffer = bytearray(data)
        found = scan(buffer)
        if not found:
            raise CorruptMessage("there is no batch")
        again = [self._judge(info) for info in found]
        if again[0] is not None:
            return again[0]
        first = self.end_offset
        for info in found:
            self._place(buffer, info)
        return first

    def _judge(self, info: BatchInfo) -> int | None:
        """The offset it has already, or None when it may be appended."""
        if info.producer_id < 0:
            return None
        writer = self.writers.get(info.producer_id)
        if writer is None:
            if self.has_forgotten and info.base_sequence != 0:
                raise UnknownProducerId(f"producer {info.producer_id} is not known")
            return None
        if info.producer_epoch < writer.epoch:
            raise InvalidProducerEpoch(f"epoch {info.producer_epoch} is over, {writer.epoch} has begun")
        for base_sequence, count, offset in writer.batches:
            if info.producer_epoch == writer.epoch and (base_sequence, count) == (
                info.base_sequence,
                info.record_count,
            ):
                return offset
        expected = writer.next_sequence if info.producer_epoch == writer.epoch else 0
        if info.base_sequence != expected:
            raise OutOfOrderSequenceNumber(f"sequence {info.base_sequence} came where {expected} was expected")
        return None

    def _place(self, buffer: bytearray, info: BatchInfo) -> None:
        base = self.end_offset
        assign_offsets(buffer, info.position, base, self.leader_epoch)
        self._keep(bytes(buffer[info.position : info.position + info.size_bytes]), info.last_offset_delta + 1)
        if info.producer_id < 0:
            return
        writer = self.writers.setdefault(info.producer_id, Writer(info.producer_epoch, 0))
        if writer.epoch != info.producer_epoch:
            writer.epoch, writer.batches = info.producer_epoch, []
        writer.next_sequence = (info.base_sequence + info.record_count) % SEQUENCE_END
        writer.batches = [*writer.batches[1 - REMEMBERED_BATCHES :], (info.base_sequence, info.record_count, base)]
        if info.is_transactional:
            self.open_since.setdefault(info.producer_id, base)

    def _keep(self, batch: bytes, count: int) -> None:
        if not self.epochs or self.epochs[-1][0] != self.leader_epoch:
            self.epochs.append((self.leader_epoch, self.end_offset))
        self.batches.append(batch)
        self.base_offsets.append(self.end_offset)
        self.end_offset += count

    def end_transaction(self, producer_id: int, epoch: int, *, commit: bool, now_ms: int) -> None:
        """Write the marker."""
        offset = self.end_offset
        marker = EndTransactionMarker(commit, 0)
        ids = {"producer_id": producer_id, "producer_epoch": epoch, "leader_epoch": self.leader_epoch}
        self._keep(end_transaction_batch(marker, **ids, base_offset=offset, timestamp_ms=now_ms), 1)
        first = self.open_since.pop(producer_id, None)
        if first is not None and not commit:
            self.aborted.append((producer_id, first, offset))

    def read(self, offset: int, size_limit_bytes: int, *, before: int) -> bytes:
        """Whole batches from the one that holds `offset`, at least one; none that begins at `before` or later."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"{offset} is not within {self.start_offset} and {self.end_offset}")
        found: list[bytes] = []
        found_bytes = 0
        index = max(0, bisect_right(self.base_offsets, offset) - 1)
        if offset < self.end_offset:
            for base, batch in zip(self.base_offsets[index:], self.batches[index:], strict=True):
                if base >= before or (found and found_bytes + len(batch) > size_limit_bytes):
                    break
                found.append(batch)
                found_bytes += len(batch)
        return b"".join(found)

    def records(self) -> list[Record]:
        """Every record that is there, without the markers."""
        batches = [RecordBatch(batch) for batch in self.batches]
        whole = [record for batch in batches if not batch.is_control for record in batch.records()]
        return [record for record in whole if self.start_offset <= record.offset < self.end_offset]

    def truncate(self, offset: int) -> None:
        """Lose everything from the batch that holds `offset` on, as a new leader that never had it."""
        keep = next((i for i, batch in enumerate(self.batches) if RecordBatch(batch).next_offset > offset), None)
        if keep is not None:
            self.end_offset = self.base_offsets[keep]
            del self.batches[keep:], self.base_offsets[keep:]
        self.epochs = [(epoch, first) for epoch, first in self.epochs if first < self.end_offset]
        self.writers.clear()

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch that is not above this one, and where it ended: how a reader finds what was lost."""
        known = [each for each in self.epochs if each[0] <= epoch]
        if epoch >= self.leader_epoch:
            return self.leader_epoch, self.end_offset
        if not known:
            return -1, -1
        later = [first for each, first in self.epochs if each > epoch]
        return known[-1][0], min(later, default=self.end_offset)

    def offset_at(self, timestamp_ms: int) -> tuple[int, int]:
        """Offset and time of the first record that is not older; (-1, -1) when there is none."""
        for record in self.records():
            if record.timestamp_ms >= timestamp_ms:
                return record.offset, record.timestamp_ms
        return -1, -1
