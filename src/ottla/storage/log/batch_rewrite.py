"""Give a batch its place in the log, and wrap it again when the topic wants another codec.

1. place_batch() writes into its argument. The sum is redone only when the time under it changes.
2. rewrap_batch() makes new bytes with the same records, producer, sequence, times and transaction. Where the records
   are numbered 0, 1, 2... their bytes are kept and only compressed again; else they are read and written one by one.
3. A delete horizon is compaction's own mark; it does not survive rewrapping.
"""

from __future__ import annotations

import struct

from ottla.errors import InvalidTimestamp
from ottla.records.compression import Compression, compress
from ottla.records.header import Buffer
from ottla.records.implementation import BatchBuilder, BatchInfo, RecordBatch, crc32c
from ottla.records.layout import (
    ATTRIBUTES_AT,
    BATCH_BYTES_MAX,
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAX_TIMESTAMP_AT,
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    TimestampType,
)

KEPT_BITS = COMPRESSION_MASK | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT

_offset = struct.Struct(">q")
_epoch = struct.Struct(">i")
_crc = struct.Struct(">I")
_attributes = struct.Struct(">h")


def place_batch(
    view: memoryview, base_offset: int, leader_epoch: int, timestamp_type: TimestampType, max_timestamp_ms: int
) -> None:
    """Write offset, epoch and time into the batch that fills `view`."""
    info = BatchInfo(view)
    _offset.pack_into(view, 0, base_offset)
    _epoch.pack_into(view, LEADER_EPOCH_AT, leader_epoch)
    if info.timestamp_type is timestamp_type and info.max_timestamp_ms == max_timestamp_ms:
        return
    time_bit = LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    _attributes.pack_into(view, ATTRIBUTES_AT, info.attributes & KEPT_BITS | time_bit)
    _offset.pack_into(view, MAX_TIMESTAMP_AT, max_timestamp_ms)
    _crc.pack_into(view, CRC_AT, crc32c(view[ATTRIBUTES_AT:]))


def rewrap_batch(
    view: memoryview,
    info: BatchInfo,
    records: Buffer,
    *,
    codec: Compression,
    level: int | None,
    has_consecutive_offsets: bool,
    decompressed_bytes_max: int,
) -> bytearray:
    """The batch with its records under `codec`, numbered 0, 1, 2..."""
    if has_consecutive_offsets and info.timestamp_type is TimestampType.CREATE_TIME:
        return _with_payload(info, records if codec is Compression.NONE else compress(codec, records, level), codec)
    return _rebuilt(view, info, codec, level, decompressed_bytes_max)


def _with_payload(info: BatchInfo, payload: Buffer, codec: Compression) -> bytearray:
    batch = bytearray(HEADER_BYTES)
    batch += payload
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LOG_OVERHEAD_BYTES,
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        info.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) | codec,
        info.last_offset_delta,
        info.base_timestamp_ms,
        info.max_timestamp_ms,
        info.producer_id,
        info.producer_epoch,
        info.base_sequence,
        info.record_count,
    )
    _crc.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return batch


def _rebuilt(
    view: memoryview, info: BatchInfo, codec: Compression, level: int | None, decompressed_bytes_max: int
) -> bytearray:
    builder = BatchBuilder(
        compression=codec,
        level=level,
        size_limit_bytes=BATCH_BYTES_MAX,
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
        base_sequence=info.base_sequence,
        transactional=info.is_transactional,
        control=info.is_control,
    )
    for _, timestamp_ms, key, value, headers in RecordBatch(view).tuples(decompressed_bytes_max):
        if timestamp_ms < NO_TIMESTAMP:
            raise InvalidTimestamp(f"time {timestamp_ms} is before 1970, a batch that is rewritten cannot hold it")
        builder.append(timestamp_ms, key, value, headers)
    return bytearray(builder.close())
