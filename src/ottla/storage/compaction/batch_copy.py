"""What of a segment's batches goes into the segment that compaction makes.

1. Plain batches are copied in native runs (ottla.records.compaction); here are those that need a decision or a codec.
2. A batch of an aborted transaction loses its records; a marker goes when nothing of its transaction is left and its
   delete horizon is over, and gets that horizon when it is first found so.
3. A batch that lost its records stays as an empty header where nothing else records this: the last sequence of a
   producer that may still write, the epoch of a producer that only has a marker, and where the cleaned part of the log
   ends.
4. A compressed batch that changes is compressed again with its own codec, at that codec's default level.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.records import BatchBuilder, Compression, RecordBatch, TimestampType
from ottla.records.compaction import KeepRules, empty_batch, is_listed, sealed_batch
from ottla.records.compression import compress
from ottla.records.log_walks import filter_batches, filter_records
from ottla.storage.compaction.cleaned_transactions import CleanedTransactions
from ottla.storage.compaction.key_map import KeyMap, is_whole
from ottla.storage.producers.entry import ProducerEntry


class LastRecords(NamedTuple):
    """What must stay of the producers that may still write."""

    data_offsets: list[int]
    marker_epochs: Mapping[int, int]


def last_records(entries: Mapping[int, ProducerEntry]) -> LastRecords:
    """The last batch of records of every producer, or the epoch of its marker if it has none."""
    return LastRecords(
        [entry.last_offset for entry in entries.values() if entry.last_offset >= 0],
        {producer_id: entry.epoch for producer_id, entry in entries.items() if entry.last_offset < 0},
    )


def keep_rules(keys: KeyMap, last: LastRecords, *, end_offset: int, now_ms: int, delete_retention_ms: int) -> KeepRules:
    """What a copy goes by; `end_offset` is that of the whole cleaned part."""
    kept_offsets = array("q", sorted({*last.data_offsets, end_offset - 1}))
    return KeepRules(keys.latest_offset, now_ms, min(now_ms + delete_retention_ms, 2**63 - 1), kept_offsets)


@dataclass(slots=True)
class CopyCounts:
    """How much was read and how much of it stayed."""

    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_kept: int = 0


class BatchCopier:
    """Copies the batches of one group of segments, chunk by chunk."""

    def __init__(
        self,
        keys: KeyMap,
        transactions: CleanedTransactions,
        rules: KeepRules,
        marker_epochs: Mapping[int, int],
        counts: CopyCounts,
    ) -> None:
        self._table = keys.table
        self._transactions = transactions
        self._rules = rules
        self._marker_epochs = marker_epochs
        self._counts = counts

    def copy(self, chunk: bytes) -> tuple[int, bytes]:
        """How many bytes the whole batches of a chunk have, and what stays of them."""
        pieces: list[bytes] = []
        position = 0
        while True:
            found = filter_batches(self._table, self._rules, chunk, position)
            pieces.append(found.batches)
            self._count(found.records_read, found.records_kept)
            position = found.position
            if not is_whole(chunk, position):
                break
            batch = RecordBatch(chunk, position)
            batch.check()
            pieces.append(self._copy_one(batch, chunk))
            position += batch.size_bytes
        output = b"".join(pieces)
        self._counts.bytes_read += position
        self._counts.bytes_kept += len(output)
        return position, output

    def _copy_one(self, batch: RecordBatch, chunk: bytes) -> bytes:
        kept = self._copy_marker(batch, chunk) if batch.is_control else self._copy_records(batch, chunk)
        if kept is None and self._must_stay(batch):
            return empty_batch(chunk, batch.position)
        return kept or b""

    def _copy_records(self, batch: RecordBatch, chunk: bytes) -> bytes | None:
        """What stays of the records; None if nothing does."""
        if self._transactions.is_aborted(batch):
            self._count(batch.record_count, 0)
            return None
        kept = filter_records(self._table, self._rules, chunk, batch.position, batch.record_bytes())
        self._count(batch.record_count, kept.record_count)
        if not kept.record_count:
            return None
        if kept.is_original:
            return chunk[batch.position : batch.position + batch.size_bytes]
        payload = kept.records
        if batch.compression is not Compression.NONE:
            payload = compress(batch.compression, payload)
        return sealed_batch(chunk, batch.position, kept, payload)

    def _copy_marker(self, batch: RecordBatch, chunk: bytes) -> bytes | None:
        can_go = self._transactions.can_discard_marker(batch)
        is_over = batch.has_delete_horizon and batch.base_timestamp_ms <= self._rules.now_ms
        stays = bool(batch.record_count) and not (can_go and is_over)
        self._count(batch.record_count, batch.record_count if stays else 0)
        if not stays:
            return None
        if can_go and not batch.has_delete_horizon:
            return with_horizon(batch, self._rules.new_horizon_ms)
        return chunk[batch.position : batch.position + batch.size_bytes]

    def _must_stay(self, batch: RecordBatch) -> bool:
        if is_listed(self._rules.kept_offsets, batch.last_offset):
            return True
        return batch.is_control and self._marker_epochs.get(batch.producer_id) == batch.producer_epoch

    def _count(self, records_read: int, records_kept: int) -> None:
        self._counts.records_read += records_read
        self._counts.records_kept += records_kept


def with_horizon(batch: RecordBatch, horizon_ms: int) -> bytes:
    """A control batch that says until when it stays."""
    has_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    builder = BatchBuilder(
        base_offset=batch.base_offset,
        log_append_time_ms=batch.max_timestamp_ms if has_append_time else None,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=True,
        leader_epoch=batch.leader_epoch,
        delete_horizon_ms=horizon_ms,
    )
    for offset, timestamp_ms, key, value, headers in batch.tuples():
        builder.append_with_offset(offset, timestamp_ms, key, value, headers)
    builder.override_last_offset(batch.last_offset)
    return bytes(builder.close())
