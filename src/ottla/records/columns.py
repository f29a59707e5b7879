"""decode_columns(): batches straight into Arrow's memory layout. The readable twin.

A column of bytes is three plain buffers: int32 offsets (one more than rows), the data back to back, and a bitmap that
has a 0 for every null, lowest bit first; the bitmap is None when nothing is null. Numbers have the machine's byte
order, as Arrow wants. Headers are a list column: offsets into two flat columns, one of keys, one of values.

1. No import of Arrow here, and (in the native twin) no Python object per record; arrow.py wraps the buffers.
2. A cut-off last batch is left out, as RecordStream does. Message sets v0 and v1 are refused with CorruptMessage.
3. Only the columns that are `wanted` are filled; the others are empty and cost nothing. Times are milliseconds, or so
   many times smaller (`timestamp_scale` 1000: microseconds); one that does not fit any more becomes the last there is.
4. `limit_bytes` bounds what one batch may decompress to. No column may pass `column_limit_bytes`, since its offsets
   are int32: ValueError, and the caller decodes fewer batches at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from enum import IntFlag
from typing import Final

from ottla.errors import CorruptMessage
from ottla.light_tuples import NamedTuple
from ottla.records.batch import RecordTuple
from ottla.records.header import Buffer
from ottla.records.layout import COLUMN_LIMIT_BYTES, DECOMPRESSED_LIMIT_BYTES
from ottla.records.stream import MessageSet, RecordStream

Block = bytes | bytearray | memoryview


class ColumnSet(IntFlag):
    """Which columns to fill."""

    OFFSET = 1
    TIMESTAMP = 2
    KEY = 4
    VALUE = 8
    HEADERS = 16
    TIMESTAMP_TYPE = 32


RECORD_COLUMNS: Final = ColumnSet.OFFSET | ColumnSet.TIMESTAMP | ColumnSet.KEY | ColumnSet.VALUE | ColumnSet.HEADERS
INT64_MAX: Final = 2**63 - 1


class BytesColumn(NamedTuple):
    """Offsets, data and validity of one column of bytes."""

    offsets: Block
    data: Block
    validity: Block | None
    null_count: int


class Columns(NamedTuple):
    """Records as columns. `headers` are offsets into the rows of header_keys and header_values; timestamp_types are
    int32, 0 for the time of creation and 1 for that of the append."""

    row_count: int
    offsets: Block
    timestamps: Block
    keys: BytesColumn
    values: BytesColumn
    headers: Block
    header_keys: BytesColumn
    header_values: BytesColumn
    timestamp_types: Block


class _Growing:
    """A column of bytes that is being filled."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._offsets = array("i", [0])
        self._data = bytearray()
        self._valid: list[bool] = []

    def append(self, content: bytes | None) -> None:
        self._valid.append(content is not None)
        if content is not None:
            if len(self._data) + len(content) > self._limit_bytes:
                raise ValueError(f"a column would pass {self._limit_bytes} bytes: decode fewer batches at once")
            self._data += content
        self._offsets.append(len(self._data))

    def finished(self) -> BytesColumn:
        null_count = self._valid.count(False)
        validity = self._bitmap() if null_count else None
        return BytesColumn(self._offsets.tobytes(), bytes(self._data), validity, null_count)

    def _bitmap(self) -> bytes:
        bits = bytearray((len(self._valid) + 7) // 8)
        for index, valid in enumerate(self._valid):
            bits[index // 8] |= valid << index % 8
        return bytes(bits)


def column_of(contents: Iterable[bytes | None], limit_bytes: int = COLUMN_LIMIT_BYTES) -> BytesColumn:
    """A finished column from Python values."""
    column = _Growing(limit_bytes)
    for content in contents:
        column.append(content)
    return column.finished()


def check_column_limit(column_limit_bytes: int) -> None:
    """A column can be limited further, but not beyond what its offsets can say."""
    if not 0 <= column_limit_bytes <= COLUMN_LIMIT_BYTES:
        raise ValueError(f"column_limit_bytes must be between 0 and {COLUMN_LIMIT_BYTES}, not {column_limit_bytes}")


def check_timestamp_scale(timestamp_scale: int) -> None:
    """Arrow counts in seconds, milliseconds, microseconds and nanoseconds; ours are never longer than milliseconds."""
    if timestamp_scale not in (1, 1_000, 1_000_000):
        raise ValueError(f"timestamp_scale is 1 (ms), 1000 (us) or 1000000 (ns), not {timestamp_scale}")


class _Filling:
    """Columns while they are being filled."""

    def __init__(self, wanted: int, timestamp_scale: int, limit_bytes: int) -> None:
        self._wanted = wanted
        self._scale = timestamp_scale
        self._rows = self._header_count = 0
        self._offsets, self._timestamps = array("q"), array("q")
        self._headers, self._timestamp_types = array("i", [0]), array("i")
        self._keys, self._values = _Growing(limit_bytes), _Growing(limit_bytes)
        self._header_keys, self._header_values = _Growing(limit_bytes), _Growing(limit_bytes)

    def add(self, record: RecordTuple, timestamp_type: int) -> None:
        offset, timestamp_ms, key, value, headers = record
        self._rows += 1
        if self._wanted & ColumnSet.OFFSET:
            self._offsets.append(offset)
        if self._wanted & ColumnSet.TIMESTAMP:
            self._timestamps.append(max(-INT64_MAX - 1, min(timestamp_ms * self._scale, INT64_MAX)))
        if self._wanted & ColumnSet.TIMESTAMP_TYPE:
            self._timestamp_types.append(timestamp_type)
        if self._wanted & ColumnSet.KEY:
            self._keys.append(key)
        if self._wanted & ColumnSet.VALUE:
            self._values.append(value)
        if self._wanted & ColumnSet.HEADERS:
            self._add_headers(headers)

    def _add_headers(self, headers: Iterable[tuple[str, bytes | None]]) -> None:
        for name, content in headers:
            self._header_keys.append(name.encode())
            self._header_values.append(content)
            self._header_count += 1
        self._headers.append(self._header_count)

    def finished(self) -> Columns:
        return Columns(
            self._rows,
            self._offsets.tobytes(),
            self._timestamps.tobytes(),
            self._keys.finished(),
            self._values.finished(),
            self._headers.tobytes(),
            self._header_keys.finished(),
            self._header_values.finished(),
            self._timestamp_types.tobytes(),
        )


def decode_columns(
    buffer: Buffer,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    *,
    from_offset: int | None = None,
    until_offset: int | None = None,
    include_control: bool = False,
    check_crc: bool = True,
    column_limit_bytes: int = COLUMN_LIMIT_BYTES,
    wanted: int = RECORD_COLUMNS,
    timestamp_scale: int = 1,
) -> Columns:
    """All records with from_offset <= offset < until_offset, as columns."""
    check_column_limit(column_limit_bytes)
    check_timestamp_scale(timestamp_scale)
    columns = _Filling(wanted, timestamp_scale, column_limit_bytes)
    for batch in RecordStream(buffer):
        if isinstance(batch, MessageSet):
            raise CorruptMessage(f"message sets v{batch.magic} at position {batch.position} cannot be read as columns")
        if check_crc:
            batch.check()
        is_before = from_offset is not None and batch.last_offset < from_offset
        is_behind = until_offset is not None and batch.base_offset >= until_offset
        if is_before or is_behind or (batch.is_control and not include_control):
            continue
        for record in batch.tuples(limit_bytes):
            is_before = from_offset is not None and record[0] < from_offset
            if not is_before and (until_offset is None or record[0] < until_offset):
                columns.add(record, batch.timestamp_type)
    return columns.finished()
