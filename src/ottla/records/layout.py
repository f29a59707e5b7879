"""Record batch v2 as a table: where each fact stands, and what each attribute bit means.

A batch is a header of 61 bytes and then its records, back to back, compressed as one piece or not at all.
All numbers are big-endian. Only what follows the CRC is under the CRC: the broker may write the base offset
and the leader epoch into a batch it received without touching the sum.

     0        8     12           16    17    21           23
     +--------+-----+------------+-----+-----+------------+-------------------+
     | base   | len | leader     | ma- | CRC | attributes | last offset delta |
     | offset | gth | epoch      | gic | 32C |            |                   |
     +--------+-----+------------+-----+-----+------------+-------------------+
                                              \\__ under the CRC, to the end __ _ _
     27          35         43         51       53         57      61
     +-----------+----------+----------+--------+----------+-------+--- - - -
     | base      | max      | producer | epoch  | base     | count | records
     | timestamp | timestamp| id       |        | sequence |       |
     +-----------+----------+----------+--------+----------+-------+--- - - -

Length counts the bytes after itself, so a batch takes 12 + length bytes.

Attributes: bits 0-2 the compression codec, 3 whose clock the timestamps are from, 4 transactional, 5 control,
6 the base timestamp is a delete horizon, 7-15 unused: Kafka ignores them, and so do we.

A record: length varint, attributes int8 (unused), timestamp delta varlong, offset delta varint,
key (varint length, -1 for null, then the bytes), value (the same), number of headers varint,
and per header its key (varint length, UTF-8) and its value (varint length, -1 for null, bytes).
"""

from __future__ import annotations

import struct
from enum import IntEnum

MAGIC = 2

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size

LENGTH_AT = 8
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43

# Base offset and length: what must be there before the size of a batch is known.
LOG_OVERHEAD_BYTES = 12
# Base offset, length, epoch (or the old CRC) and magic: what must be there before the format is known.
MAGIC_KNOWN_BYTES = 17
# One byte each: length, attributes, timestamp delta, offset delta, key length, value length, header count.
RECORD_BYTES_MIN = 7
HEADER_ENTRY_BYTES_MIN = 2
BATCH_BYTES_MAX = 2**31 - 1

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1

# How far one batch may grow when it is decompressed, unless the caller says otherwise: far above any sane
# max.message.bytes, far below what a bomb of zeros would take.
DECOMPRESSED_LIMIT_BYTES = 128 * 1024 * 1024

# Arrow's binary columns count their bytes in int32.
COLUMN_LIMIT_BYTES = 2**31 - 1


class TimestampType(IntEnum):
    """Whose clock the timestamps of a batch are from."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


def wrapped_int64(value: int) -> int:
    """Keep a sum of two int64 inside int64 the way Java and C do, so that hostile deltas give odd times, not errors."""
    return value if -(2**63) <= value < 2**63 else (value + 2**63) % 2**64 - 2**63


def wrapped_sequence(base_sequence: int, delta: int) -> int:
    """The sequence `delta` records on: sequences go from 2^31 - 1 back to 0."""
    if base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return (base_sequence + delta) % 2**31


def check_producer(
    producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool, control: bool
) -> None:
    """Refuse a producer state that no broker would take."""
    if producer_id == NO_PRODUCER_ID:
        if transactional:
            raise ValueError("a transactional batch needs a producer id: ask for one with InitProducerId first")
        return
    if producer_id < 0 or producer_epoch < 0:
        raise ValueError(f"producer id {producer_id} and epoch {producer_epoch} must both be set or both be -1")
    if base_sequence < 0 and not control:
        raise ValueError(f"producer id {producer_id} needs a base sequence of at least 0, not {base_sequence}")
