"""What batches of records look like.

A producer gathers records in a BatchBuilder; close() returns the bytes of one batch, and those bytes are what is sent,
what the broker appends to its file, and what a consumer gets back. The broker never takes a batch apart: it reads the
headers with scan(), writes its offsets into them with assign_offsets(), and that is all. A consumer walks a fetch
answer with RecordStream, proves each RecordBatch with check() and reads its records(), or has all of them put into
Arrow columns at once.

Everything on that path exists twice, with the same names and the same answers: in Python, to be read, and in Cython,
to be fast. Read layout.py first (the drawing of a batch), then builder.py, batch.py, header.py and stream.py.
compression.py and checksum.py are used by both; control.py knows the markers that end transactions, legacy.py the
message sets from before format v2. This file exports what implementation.py chose, and nothing else.

    builder = BatchBuilder(compression=Compression.ZSTD)
    builder.append(timestamp_ms, b"key", b"value", [("trace", b"7f")])
    batch = RecordBatch(builder.close())
    batch.check()
    for record in batch: ...
"""

from ottla.records.builder import CompressionRatios
from ottla.records.compression import Compression
from ottla.records.implementation import (
    CHOSEN,
    BatchBuilder,
    BatchInfo,
    Record,
    RecordBatch,
    RecordStream,
    assign_offsets,
    crc32c,
    decode_columns,
    murmur2,
    scan,
    set_append_time,
)
from ottla.records.layout import TimestampType
from ottla.records.stream import MessageSet

__all__ = [
    "CHOSEN",
    "BatchBuilder",
    "BatchInfo",
    "Compression",
    "CompressionRatios",
    "MessageSet",
    "Record",
    "RecordBatch",
    "RecordStream",
    "TimestampType",
    "assign_offsets",
    "crc32c",
    "decode_columns",
    "murmur2",
    "scan",
    "set_append_time",
]
