"""What the record codec is made of: native where ottla.native says so, Python otherwise.

`CHOSEN` says which one it is, for logs and test headers. The walks over records that only a broker makes are chosen in
log_walks.py: a client does not load them.
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

__all__ = [
    "CHOSEN",
    "BatchBuilder",
    "BatchInfo",
    "Record",
    "RecordBatch",
    "RecordStream",
    "assign_offsets",
    "crc32c",
    "decode_columns",
    "decode_varint",
    "decode_varlong",
    "encode_varint",
    "encode_varlong",
    "murmur2",
    "scan",
    "set_append_time",
]
