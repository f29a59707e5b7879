"""Batches as Arrow columns: offset, timestamp, key, value, headers. The only file here that knows pyarrow.

pyarrow is loaded by the first call, never by importing ottla. The buffers of decode_columns() are wrapped, not copied.
Timestamps are milliseconds since 1970 in UTC, the number in the batch as it is: -1 (no timestamp) stays -1 ms.

Whoever wants other columns, in another order or unit, makes a RecordShape of a schema and keeps it: what must be looked
up in the schema is looked up once, not for every batch. It knows these names:

    offset, timestamp (any unit up to ms), timestampType (int32), key and value (binary), headers (list of key, value)
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from ottla.records.columns import RECORD_COLUMNS, BytesColumn, Columns, ColumnSet
from ottla.records.header import Buffer
from ottla.records.implementation import decode_columns
from ottla.records.layout import DECOMPRESSED_LIMIT_BYTES

if TYPE_CHECKING:
    import pyarrow

NAMES: Final = {
    "offset": ColumnSet.OFFSET,
    "timestamp": ColumnSet.TIMESTAMP,
    "timestampType": ColumnSet.TIMESTAMP_TYPE,
    "key": ColumnSet.KEY,
    "value": ColumnSet.VALUE,
    "headers": ColumnSet.HEADERS,
}
SCALES: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}


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
    columns = decode_columns(
        buffer,
        limit_bytes,
        from_offset=from_offset,
        until_offset=until_offset,
        include_control=include_control,
        check_crc=check_crc,
        wanted=RECORD_COLUMNS,
    )
    shape = schema()
    return _pyarrow().RecordBatch.from_arrays(_plain_shape().arrays(columns), schema=shape)


class RecordShape:
    """What is wanted of records, as fields of a schema."""

    def __init__(self, fields: list[pyarrow.Field]) -> None:
        self._pa = _pyarrow()
        self.fields = fields
        unknown = [field.name for field in fields if field.name not in NAMES]
        if unknown:
            raise ValueError(f"records have no column {unknown[0]!r}; they have {', '.join(NAMES)}")
        self.wanted = ColumnSet(0)
        self.timestamp_scale = 1
        # pyarrow makes a new object for every name and type that is asked for; a column of 1,000 rows costs less.
        self._columns = [(field.name, field.type, field.nullable) for field in fields]
        self._entry_fields: list[pyarrow.Field] = []
        self._no_entries: Any = None
        for field in fields:
            self.wanted |= NAMES[field.name]
            if field.name == "timestamp":
                self.timestamp_scale = SCALES[field.type.unit]
            elif field.name == "headers":
                self._entry_fields = list(field.type.value_type)
                self._no_entries = self._pa.array([], type=field.type.value_type)

    def decode(
        self, data: Buffer, from_offset: int | None, until_offset: int | None, *, check_crc: bool
    ) -> tuple[int, list[pyarrow.Array]]:
        """How many rows, and their columns in the order of the fields."""
        columns = decode_columns(
            data,
            from_offset=from_offset,
            until_offset=until_offset,
            check_crc=check_crc,
            wanted=self.wanted,
            timestamp_scale=self.timestamp_scale,
        )
        return columns.row_count, self.arrays(columns)

    def arrays(self, columns: Columns) -> list[pyarrow.Array]:
        return [self._array(name, kind, nullable, columns) for name, kind, nullable in self._columns]

    def _array(self, name: str, kind: pyarrow.DataType, nullable: bool, columns: Columns) -> pyarrow.Array:
        pa = self._pa
        match name:
            case "key":
                return _bytes_array(pa, kind, columns.keys, columns.row_count)
            case "value":
                return _bytes_array(pa, kind, columns.values, columns.row_count)
            case "headers":
                return self._headers(kind, nullable, columns)
            case "offset":
                numbers = columns.offsets
            case "timestamp":
                numbers = columns.timestamps
            case _:
                numbers = columns.timestamp_types
        return pa.Array.from_buffers(kind, columns.row_count, [None, pa.py_buffer(numbers)], 0)

    def _headers(self, kind: pyarrow.DataType, nullable: bool, columns: Columns) -> pyarrow.Array:
        """A list column. Where it may be null, a record without headers has a null, as in Spark's own connector."""
        pa = self._pa
        offsets = pa.py_buffer(columns.headers)
        entries = self._entries(columns)
        headers = pa.Array.from_buffers(kind, columns.row_count, [None, offsets], 0, children=[entries])
        if not nullable:
            return headers
        import pyarrow.compute as compute

        has_any = compute.greater(compute.list_value_length(headers), 0)
        return pa.Array.from_buffers(kind, columns.row_count, [has_any.buffers()[1], offsets], children=[entries])

    def _entries(self, columns: Columns) -> pyarrow.Array:
        """The headers of all records in a row."""
        count = len(columns.header_keys.offsets) // 4 - 1
        if not count:
            return self._no_entries
        name, content = self._entry_fields
        names = _bytes_array(self._pa, name.type, columns.header_keys, count)
        contents = _bytes_array(self._pa, content.type, columns.header_values, count)
        return self._pa.StructArray.from_arrays([names, contents], fields=self._entry_fields)


@functools.cache
def _plain_shape() -> RecordShape:
    return RecordShape(list(schema()))


def _bytes_array(pa: Any, kind: Any, column: BytesColumn, rows: int) -> Any:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("Arrow columns need pyarrow: pip install 'ottla[arrow]'") from error
    return pyarrow
