"""The last records of a metadata log, for who looks at what was decided.

    for entry in newest_records(log, 50): print(entry.offset, sentence(entry.record, image))

Only what is committed, oldest first. A large batch is not decoded before the records that are wanted of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster.raft.log import READ_BYTES, MetadataLog
from ottla.light_tuples import NamedTuple
from ottla.protocol.metadata_log import decode_record
from ottla.protocol.metadata_log.control import decode_control
from ottla.protocol.schema import Message
from ottla.records import RecordBatch, RecordStream
from ottla.records.control import read_control_type


class LogEntry(NamedTuple):
    """A record, or control record, and where it lies."""

    offset: int
    epoch: int
    timestamp_ms: int
    record: Message


def newest_records(log: MetadataLog, count: int) -> Iterator[LogEntry]:
    """The last so many; fewer where a snapshot has taken the place of the rest."""
    offset = max(log.start_offset, log.high_watermark - count)
    while offset < log.high_watermark:
        begin = offset
        for batch in RecordStream(log.read(offset, READ_BYTES).slice.read()):
            if not isinstance(batch, RecordBatch) or batch.last_offset >= log.high_watermark:
                return
            yield from _of_batch(batch, offset)
            offset = batch.last_offset + 1
        if offset == begin:
            return


def _of_batch(batch: RecordBatch, first: int) -> Iterator[LogEntry]:
    for offset, timestamp_ms, key, value, _ in batch.tuples():
        if offset >= first:
            record = decode_control(read_control_type(key), value) if batch.is_control else decode_record(value)[0]
            yield LogEntry(offset, batch.leader_epoch, timestamp_ms, record)
