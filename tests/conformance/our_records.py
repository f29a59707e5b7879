"""Batches of ours to be put into logs: every codec, producers with and without transactions, and what became of each.

    for batch in our_batches(rounds=3, timestamp_ms=...):
        first_offset = append(batch)
        rows += batch.rows(first_offset, leader_epoch)

1. Two transactional producers work in each other's way, one as Kafka 3 does it (its markers have the epoch of the
   records), one as Kafka 4 does (every marker raises the epoch, every transaction starts its sequences anew).
2. Every second transaction of each is aborted; `is_committed` says whether a reader of committed records gets a batch.
3. Keys are never null, so that compacted topics take them too.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.golden.logs.reading import Row

from ottla.records import BatchBuilder, Compression
from ottla.records.control import EndTransactionMarker, end_transaction_batch

RECORDS_PER_BATCH = 10
# Far above what the brokers of the golden logs gave away.
FIRST_PRODUCER_ID = 5_000_000


@dataclass(frozen=True)
class OurBatch:
    """Bytes to append, and what they are."""

    buffer: bytearray
    records: tuple[tuple[int, bytes, bytes | None, tuple[tuple[str, bytes | None], ...]], ...]
    producer_id: int
    epoch: int
    sequence: int
    # 0 is none.
    transaction_version: int
    is_committed: bool
    is_marker: bool = False

    def rows(self, first_offset: int, leader_epoch: int) -> list[Row]:
        """What a consumer sees of it; nothing of a marker."""
        return [Row(first_offset + i, *record, leader_epoch) for i, record in enumerate(self.records)]


@dataclass
class OurProducer:
    """Numbers its batches as an idempotent producer does."""

    producer_id: int
    transaction_version: int = 0
    epoch: int = 0
    sequence: int = 0

    def data(self, number: int, timestamp_ms: int, codec: Compression, *, is_committed: bool = True) -> OurBatch:
        records = tuple(_record(number * RECORDS_PER_BATCH + i, timestamp_ms) for i in range(RECORDS_PER_BATCH))
        builder = BatchBuilder(
            compression=codec,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=self.transaction_version > 0,
        )
        for record in records:
            assert builder.append(*record)
        facts = (self.producer_id, self.epoch, self.sequence, self.transaction_version)
        self.sequence += len(records)
        return OurBatch(bytearray(builder.close()), records, *facts, is_committed)

    def marker(self, timestamp_ms: int, *, commit: bool) -> OurBatch:
        if self.transaction_version == 2:
            self.epoch, self.sequence = self.epoch + 1, 0
        content = end_transaction_batch(
            EndTransactionMarker(commit, coordinator_epoch=3),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            timestamp_ms=timestamp_ms,
        )
        facts = (self.producer_id, self.epoch, -1, self.transaction_version)
        return OurBatch(bytearray(content), (), *facts, commit, is_marker=True)


def our_batches(rounds: int, timestamp_ms: int, first_producer_id: int = FIRST_PRODUCER_ID) -> Iterator[OurBatch]:
    """Some batches of every kind, `rounds` times."""
    plain = OurProducer(first_producer_id)
    old = OurProducer(first_producer_id + 1, transaction_version=1)
    new = OurProducer(first_producer_id + 2, transaction_version=2)
    codecs = list(Compression)
    number = 0
    for each in range(rounds):
        commits = (each % 2 == 0, each % 2 == 1)  # of the old one, of the new one
        for step, producer in enumerate((old, new, plain, old, plain, new)):
            is_committed = producer is plain or commits[producer is new]
            codec = codecs[(each + step) % len(codecs)]
            yield producer.data(number, timestamp_ms + 50 * number, codec, is_committed=is_committed)
            number += 1
        yield new.marker(timestamp_ms + 50 * number, commit=commits[1])
        yield plain.data(number, timestamp_ms + 50 * number, codecs[each % len(codecs)])
        number += 1
        yield old.marker(timestamp_ms + 50 * number, commit=commits[0])


def _record(i: int, timestamp_ms: int) -> tuple[int, bytes, bytes | None, tuple[tuple[str, bytes | None], ...]]:
    value = None if i % 8 == 5 else f"ours-{i} ".encode() * (2 + i % 9)
    headers = (("writer", b"ottla"), ("nothing", None)) if i % 4 == 0 else ()
    return timestamp_ms + 7 * (i % 3), f"ours-{i % 40}".encode(), value, headers
