"""Batches as an Arrow RecordBatch: offset, timestamp, key, value, headers. The only file here that knows pyarrow.

pyarrow is loaded by the first call, never by importing ottla. The buffers of decode_columns() are wrapped, not copied.
Timestamps are milliseconds since 1970 in UTC, the number in the batch as it is: -1 (no timestamp) stays -1 ms.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ottla.records.columns import BytesColumn
from ottla.records.header import Buffer
from ottla.records.implementation import decode_columns
from ottla.records.layout import DECOMPRESSED_LIMIT_BYTES

if TYPE_CHECKING:
    import pyarrow


@functools.cache
def schema() -> pyarrow.Schema:
    """The columns of to_arrow()."""
    pa = _pyarrow()
    header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", pa.list_(pa.field("item", header, nullable=False)), nullable=False),
        ]
    )


def to_arrow(
    buffer: Buffer,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    *,
    from_offset: int | None = None,
    until_offset: int | None = None,
    include_control: bool = False,
    check_crc: bool = True,
) -> pyarrow.RecordBatch:
    """The records of one or many v2 batches as one Arrow RecordBatch; see decode_columns() for the arguments."""
    pa = _pyarrow()
    columns = decode_columns(
        buffer,
        limit_bytes,
        from_offset=from_offset,
        until_offset=until_offset,
        include_control=include_control,
        check_crc=check_crc,
    )
    shape = schema()
    rows = columns.row_count
    offsets = pa.Array.from_buffers(shape.field("offset").type, rows, [None, pa.py_buffer(columns.offsets)])
    timestamps = pa.Array.from_buffers(shape.field("timestamp").type, rows, [None, pa.py_buffer(columns.timestamps)])
    header_count = len(columns.header_keys.offsets) // 4 - 1
    header_type = shape.field("headers").type.value_type
    entries = pa.StructArray.from_arrays(
        [
            _bytes_array(pa, pa.string(), columns.header_keys, header_count),
            _bytes_array(pa, pa.binary(), columns.header_values, header_count),
        ],
        fields=list(header_type),
    )
    headers = pa.Array.from_buffers(
        shape.field("headers").type, rows, [None, pa.py_buffer(columns.headers)], children=[entries]
    )
    keys = _bytes_array(pa, pa.binary(), columns.keys, rows)
    values = _bytes_array(pa, pa.binary(), columns.values, rows)
    return pa.RecordBatch.from_arrays([offsets, timestamps, keys, values, headers], schema=shape)


def _bytes_array(pa: Any, kind: Any, column: BytesColumn, rows: int) -> Any:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("to_arrow() needs pyarrow: pip install 'ottla[arrow]'") from error
    return pyarrow
