"""A golden log opened as ours, and a consumer without a wire that reads it as Kafka's consumer reads a partition.

1. It begins at the log start and goes on where the last whole batch ended; a batch that was cut off comes again.
2. Control batches are never given. A reader of committed records leaves out what aborted transactions wrote, going by
   the list that came with the fetch: a producer is shunned from the first offset of its transaction to its marker.
"""

from collections.abc import Iterator

from tests.golden.logs.reading import ExpectedPartition, GoldenLogs, Row

from ottla.records import MessageSet, RecordBatch, RecordStream
from ottla.records.control import ControlType, read_control_type
from ottla.storage.directory.checkpoints import CLEANER_OFFSETS, RECOVERY_POINTS, read_offsets
from ottla.storage.files import DiskFiles
from ottla.storage.index.aborted_index import AbortedTransaction
from ottla.storage.log.partition_log import PartitionLog, open_log

FILES = DiskFiles()


def open_golden(logs: GoldenLogs, partition: ExpectedPartition) -> PartitionLog:
    """Open a partition as a broker does that finds the directory as it is."""

    def checkpointed(name: str) -> int:
        return read_offsets(FILES, logs.data / name).get(partition.name, 0)

    log = open_log(
        partition.directory,
        partition.name,
        partition.settings,
        files=FILES,
        now_ms=partition.last_timestamp_ms,
        is_clean=logs.is_clean,
        recovery_point=checkpointed(RECOVERY_POINTS),
        log_start_offset=partition.log_start_offset,
        compacted_up_to=checkpointed(CLEANER_OFFSETS),
    )
    log.update_high_watermark(partition.high_watermark)
    return log


def consume(log: PartitionLog, max_bytes: int = 1 << 20, *, committed: bool = False) -> list[Row]:
    """Every record a consumer gets, up to the high watermark or the last stable offset."""
    rows: list[Row] = []
    offset = log.log_start_offset
    while True:
        found = log.read(offset, max_bytes, up_to="last_stable" if committed else "high_watermark")
        batches = [batch for batch in RecordStream(found.slice.read()) if not isinstance(batch, MessageSet)]
        if not batches:
            return rows
        for batch in without_aborted(batches, found.aborted or []):
            batch.check()
            rows += [row for row in rows_of(batch) if row.offset >= offset]
        offset = batches[-1].next_offset


def without_aborted(batches: list[RecordBatch], aborted: list[AbortedTransaction]) -> Iterator[RecordBatch]:
    """The data batches, without those of the transactions in the list."""
    waiting = sorted(aborted, key=lambda each: each.first_offset)
    shunned: set[int] = set()
    for batch in batches:
        while waiting and waiting[0].first_offset <= batch.last_offset:
            shunned.add(waiting.pop(0).producer_id)
        if batch.is_control:
            if ends_in_abort(batch):
                shunned.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in shunned):
            yield batch


def ends_in_abort(batch: RecordBatch) -> bool:
    return bool(batch.record_count) and read_control_type(batch.tuples()[0][2]) is ControlType.ABORT


def rows_of(batch: RecordBatch) -> list[Row]:
    return [
        Row(record.offset, record.timestamp_ms, record.key, record.value, tuple(record.headers), batch.leader_epoch)
        for record in batch.records()
    ]
