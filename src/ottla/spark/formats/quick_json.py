"""quickJson: what of JSON objects can be read at once, as Spark's from_json reads it; from_json is asked for the rest.

    coalesce(quickJson, from_json(CAST(value AS STRING), 'id BIGINT, user STRING'))

1. A value is there where its text is plain (records/json_columns.py): all readers of JSON agree about such a text, so
   it does not matter which of them reads it. Everything else is NULL here, also what is no JSON.
2. Types that a plain text has no meaning for (decimals, maps, times without a zone, ...) may stand in the schema: a
   text that has something for them is left to from_json.
3. CORRUPT_RECORD is NULL, as it is in Spark for good records; a text with a field of this name is left to from_json.
4. Where no native code was built everything is left to from_json, which is quicker than the readable twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.records.json_choice import IS_QUICK, JsonColumns
from ottla.records.json_columns import JsonColumn, JsonField, JsonKind

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructField, StructType

QUICK_JSON: Final = "quickJson"
CORRUPT_RECORD: Final = "_corrupt_record"


def quick_field(schema: str) -> StructField:
    """The column in Spark."""
    from pyspark.sql.types import StructField

    from ottla.spark.formats.ddl import as_nullable

    return StructField(QUICK_JSON, as_nullable(quick_type(schema)))


def quick_type(schema: str) -> StructType:
    """The columns of a schema; UnreadableSchema when there is none, or two have one name."""
    from ottla.spark.formats.ddl import UnreadableSchema, parse_schema

    found = parse_schema(schema)
    if len(set(found.names)) < len(found.names):
        raise UnreadableSchema("it names a column twice")
    return found


class QuickJson:
    """Reads columns of values; made once for a task."""

    def __init__(self, kind: pyarrow.StructType) -> None:
        self._kind = kind
        self._columns = JsonColumns([_field(each, at_top=True) for each in kind])

    def read(self, column: pyarrow.Array) -> pyarrow.Array:
        """A struct for each plain text, NULL for the others."""
        import pyarrow as pa

        if not IS_QUICK or not len(column):
            return pa.nulls(len(column), self._kind)
        validity, offsets, data = column.buffers()
        found = self._columns.read(len(column), offsets, data or b"", validity, column.offset)
        return _array(pa, self._kind, found)


def _field(field: pyarrow.Field, *, at_top: bool = False) -> JsonField:
    import pyarrow as pa

    kind = JsonKind.OTHER if at_top and field.name == CORRUPT_RECORD else _kind(pa, field.type)
    children: list[pyarrow.Field] = []
    if kind is JsonKind.STRUCT:
        children = list(field.type)
    elif kind is JsonKind.LIST:
        children = [field.type.value_field]
    return JsonField(field.name, kind, tuple(map(_field, children)))


def _kind(pa: Any, kind: pyarrow.DataType) -> JsonKind:
    simple = {
        pa.bool_(): JsonKind.BOOLEAN,
        pa.int8(): JsonKind.INT8,
        pa.int16(): JsonKind.INT16,
        pa.int32(): JsonKind.INT32,
        pa.int64(): JsonKind.INT64,
        pa.float64(): JsonKind.DOUBLE,
        pa.string(): JsonKind.STRING,
        pa.date32(): JsonKind.DATE,
        pa.timestamp("us", tz="UTC"): JsonKind.TIMESTAMP,
    }
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return JsonKind.STRUCT if len(set(names)) == len(names) else JsonKind.OTHER
    if pa.types.is_list(kind):
        return JsonKind.LIST
    return simple.get(kind, JsonKind.OTHER)


def _array(pa: Any, kind: pyarrow.DataType, column: JsonColumn) -> pyarrow.Array:
    """The buffers as a column of Arrow."""
    rows, validity = column.row_count, None if column.validity is None else pa.py_buffer(column.validity)
    if pa.types.is_struct(kind) and column.children:
        children = [_array(pa, field.type, child) for field, child in zip(kind, column.children, strict=True)]
        return pa.Array.from_buffers(kind, rows, [validity], column.null_count, children=children)
    if pa.types.is_list(kind):
        children = [_array(pa, kind.value_type, column.children[0])]
        offsets = pa.py_buffer(column.offsets)
        return pa.Array.from_buffers(kind, rows, [validity, offsets], column.null_count, children=children)
    if not column.data and not column.offsets:
        return pa.nulls(rows, kind)
    buffers = [pa.py_buffer(each) for each in (column.offsets, column.data) if each or each is column.data]
    return pa.Array.from_buffers(kind, rows, [validity, *buffers], column.null_count)
