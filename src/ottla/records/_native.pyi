"""Types of the native twin: those of the Python twins, name by name.

The classes are others at run time; what they take and give is the same, and tests/unit/records/test_twins.py holds
them to it.
"""

from ottla.records.batch import Record as Record
from ottla.records.batch import RecordBatch as RecordBatch
from ottla.records.builder import BatchBuilder as BatchBuilder
from ottla.records.checksum import crc32c as crc32c
from ottla.records.checksum import crc32c_python as crc32c_portable
from ottla.records.columns import decode_columns as decode_columns
from ottla.records.hashing import murmur2 as murmur2
from ottla.records.header import BatchInfo as BatchInfo
from ottla.records.header import assign_offsets as assign_offsets
from ottla.records.header import scan as scan
from ottla.records.header import set_append_time as set_append_time
from ottla.records.stream import RecordStream as RecordStream
from ottla.records.varint import decode_varint as decode_varint
from ottla.records.varint import decode_varlong as decode_varlong
from ottla.records.varint import encode_varint as encode_varint
from ottla.records.varint import encode_varlong as encode_varlong

__all__ = ["crc32c_portable"]
