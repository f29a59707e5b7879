"""decode_columns(): batches straight into Arrow's memory layout. The readable twin.

A column of bytes is three plain buffers: int32 offsets (one more than rows), the data back to back, and a bitmap that
has a 0 for every null, lowest bit first; the bitmap is None when nothing is null. Numbers have the machine's byte
order, as Arrow wants. Headers are a list column: offsets into two flat columns, one of keys, one of values.

1. No import of Arrow here, and (in the native twin) no Python object per record; arrow.py wraps the buffers.
2. A cut-off last batch is left out, as RecordStream does. Message sets v0 and v1 are refused with CorruptMessage.
3. `limit_bytes` bounds what one batch may decompress to. No column may pass `column_limit_bytes`, since its offsets
   are int32: ValueError, and the caller decodes fewer batches at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

from ottla.errors import CorruptMessage
from ottla.records.header import Buffer
from ottla.records.layout import COLUMN_LIMIT_BYTES, DECOMPRESSED_LIMIT_BYTES
from ottla.records.stream import MessageSet, RecordStream

Block = bytes | bytearray | memoryview


class BytesColumn(NamedTuple):
    """Offsets, data and validity of one column of bytes."""

    offsets: Block
    data: Block
    validity: Block | None
    null_count: int


class Columns(NamedTuple):
    """Records as columns. `headers` are offsets into the rows of header_keys and header_values."""

    row_count: int
    offsets: Block
    timestamps: Block
    keys: BytesColumn
    values: BytesColumn
    headers: Block
    header_keys: BytesColumn
    header_values: BytesColumn


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


def decode_columns(
    buffer: Buffer,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    *,
    from_offset: int | None = None,
    until_offset: int | None = None,
    include_control: bool = False,
    check_crc: bool = True,
    column_limit_bytes: int = COLUMN_LIMIT_BYTES,
) -> Columns:
    """All records with from_offset <= offset < until_offset, as columns."""
    check_column_limit(column_limit_bytes)
    offsets, timestamps, header_offsets = array("q"), array("q"), array("i", [0])
    keys, values, header_keys, header_values = (_Growing(column_limit_bytes) for _ in range(4))
    header_count = 0
    for batch in RecordStream(buffer):
        if isinstance(batch, MessageSet):
            raise CorruptMessage(f"message sets v{batch.magic} at position {batch.position} cannot be read as columns")
        if check_crc:
            batch.check()
        if (batch.is_control and not include_control) or (from_offset is not None and batch.last_offset < from_offset):
            continue
        for offset, timestamp_ms, key, value, headers in batch.tuples(limit_bytes):
            if (from_offset is not None and offset < from_offset) or (
                until_offset is not None and offset >= until_offset
            ):
                continue
            offsets.append(offset)
            timestamps.append(timestamp_ms)
            keys.append(key)
            values.append(value)
            for name, content in headers:
                header_keys.append(name.encode())
                header_values.append(content)
            header_count += len(headers)
            header_offsets.append(header_count)
    return Columns(
        len(offsets),
        offsets.tobytes(),
        timestamps.tobytes(),
        keys.finished(),
        values.finished(),
        header_offsets.tobytes(),
        header_keys.finished(),
        header_values.finished(),
    )
