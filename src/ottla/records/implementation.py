"""What the record codec is made of: native where ottla.native says so, Python otherwise.

`CHOSEN` says which one it is, for logs and test headers. The walks over records that a log makes (_checks) and that
compaction makes (_compaction) go with the codec, each if it was built.
"""

from __future__ import annotations

from ottla.native import is_native

CHOSEN = "native" if is_native("ottla.records._native") else "python"

if CHOSEN == "native":
    from ottla.records._native import (
        BatchBuilder,
        BatchInfo,
        Record,
        RecordBatch,
        RecordStream,
        assign_offsets,
        crc32c,
        decode_columns,
        decode_varint,
        decode_varlong,
        encode_varint,
        encode_varlong,
        murmur2,
        scan,
        set_append_time,
    )
else:
    from ottla.records.batch import Record, RecordBatch
    from ottla.records.builder import BatchBuilder
    from ottla.records.checksum import crc32c
    from ottla.records.columns import decode_columns
    from ottla.records.hashing import murmur2
    from ottla.records.header import BatchInfo, assign_offsets, scan, set_append_time
    from ottla.records.stream import RecordStream
    from ottla.records.varint import decode_varint, decode_varlong, encode_varint, encode_varlong

if is_native("ottla.records._checks"):
    from ottla.records._checks import RecordsWalk, check_records, place_plain_batch, place_plain_run
else:
    from ottla.records.checks import check_records, place_plain_batch, place_plain_run
    from ottla.records.record_walk import RecordsWalk

if is_native("ottla.records._compaction"):
    from ottla.records._compaction import KeyTable, filter_batches, filter_records, index_batches, index_records
else:
    from ottla.records.compaction import KeyTable, filter_batches, filter_records, index_batches, index_records

__all__ = [
    "CHOSEN",
    "BatchBuilder",
    "BatchInfo",
    "KeyTable",
    "Record",
    "RecordBatch",
    "RecordStream",
    "RecordsWalk",
    "assign_offsets",
    "check_records",
    "crc32c",
    "decode_columns",
    "decode_varint",
    "decode_varlong",
    "encode_varint",
    "encode_varlong",
    "filter_batches",
    "filter_records",
    "index_batches",
    "index_records",
    "murmur2",
    "place_plain_batch",
    "place_plain_run",
    "scan",
    "set_append_time",
]
