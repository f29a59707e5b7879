"""Columns of tables: the types that both formats have, and arrays of them.

    plain_schema(schema)             the same columns in the types of tables; Unfit where a name or a type is none
    columns_of_value(array)          a decoded column of values as columns of the table, by the rule of finding.py

1. Types are told apart by what they hold, not by how Arrow lays it out: large and small texts are one type, whole
   numbers of 8 and 16 bits are those of 32, a duration is its microseconds. A column that can hold nothing (null, a
   struct without fields) is left out.
2. Names are those that Parquet, Delta and Iceberg share: not empty, and without , ; { } ( ) = . and white space. There
   are at most COLUMNS_MAX columns, those inside of others counted.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from ottla.schemas.arrow.evolution import Unfit
from ottla.tables.finding import HEADERS, KEY, OFFSET, PARTITION, TIMESTAMP, VALUE, column_of

COLUMNS_MAX: Final = 2_000
DEPTH_MAX: Final = 32
MOMENT: Final = pa.timestamp("us", tz="UTC")
HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
READ_SCHEMA: Final = pa.schema(
    [
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),
        (TIMESTAMP, MOMENT),
        pa.field(HEADERS, HEADERS_TYPE, nullable=False),
        (KEY, pa.binary()),
        (VALUE, pa.binary()),
    ]
)
"""What a worker reads of records; a record without headers has an empty list of them."""
BASE_SCHEMA: Final = pa.schema(
    [(name, READ_SCHEMA.field(name).type) for name in (PARTITION, OFFSET, TIMESTAMP, HEADERS)]
)
"""The columns that every table has."""
_ODD: Final = re.compile(r"[\s,;{}()=.]")
_SAME: Final[dict[pa.DataType, pa.DataType]] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.duration("us"): pa.int64(),
    pa.timestamp("ms", tz="UTC"): MOMENT,
}
_KEPT: Final = {
    *(pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()),
    *(MOMENT, pa.timestamp("us")),
}


class NoColumn(Exception):
    """Something has no column in a table; the text is the reason."""


def plain_schema(schema: pa.Schema) -> pa.Schema | Unfit:
    """The columns of a schema as tables have them."""
    try:
        fields = _fields(list(schema), 0)
    except NoColumn as error:
        return Unfit(str(error))
    count = sum(_count(field.type) for field in fields)
    if count > COLUMNS_MAX:
        return Unfit(f"it has {count} columns, those inside of others counted, and a table has {COLUMNS_MAX} at most")
    return pa.schema(fields)


def _fields(fields: list[pa.Field], depth: int) -> list[pa.Field]:
    found = []
    for field in fields:
        if not field.name or _ODD.search(field.name):
            raise NoColumn(
                f"{field.name[:60]!r} cannot be the name of a column: it is empty or has spaces or one of ,;{{}}()=."
            )
        kind = plain_type(field.type, depth)
        if kind is not None:
            found.append(pa.field(field.name, kind))
    return found


def plain_type(kind: pa.DataType, depth: int = 0) -> pa.DataType | None:
    """The type of tables that holds the same; None for one that holds nothing."""
    if depth > DEPTH_MAX:
        raise NoColumn(f"it is nested deeper than {DEPTH_MAX}")
    if kind in _KEPT or pa.types.is_decimal128(kind):
        return kind
    if kind in _SAME:
        return _SAME[kind]
    if pa.types.is_struct(kind):
        fields = _fields(list(kind), depth + 1)
        return pa.struct(fields) if fields else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = plain_type(kind.value_type, depth + 1)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_map(kind):
        key, item = plain_type(kind.key_type, depth + 1), plain_type(kind.item_type, depth + 1)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_null(kind):
        return None
    if pa.types.is_timestamp(kind):
        return MOMENT if kind.tz is not None else pa.timestamp("us")
    raise NoColumn(f"tables have no {kind}")


def _count(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return 1 + sum(_count(field.type) for field in kind)
    if pa.types.is_list(kind):
        return 1 + _count(kind.value_type)
    return 1 + _count(kind.item_type) if pa.types.is_map(kind) else 1


def plain_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values in the type that plain_type() gave."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        names = [field.name for field in array.type]
        parts = dict(zip(names, array.flatten(), strict=True))
        children = [plain_array(parts[field.name], field.type) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        offsets = _offsets(array)
        return pa.ListArray.from_arrays(offsets, plain_array(array.values, kind.value_type), type=kind)
    if pa.types.is_map(kind):
        keys, items = plain_array(array.keys, kind.key_type), plain_array(array.items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=kind)
    return array.cast(kind)


def _offsets(array: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    valid = pa.concat_arrays([array.is_valid(), pa.array([True])])
    return pc.if_else(valid, array.offsets, None)


Columns = dict[str, pa.Array]


def columns_of_value(array: pa.Array) -> Columns:
    """A decoded column of values: the fields of structs are columns themselves."""
    if not pa.types.is_struct(array.type):
        return {VALUE: array}
    parts = array.flatten()
    return {column_of(field.name): part for field, part in zip(array.type, parts, strict=True)}


def schema_of(columns: Columns) -> pa.Schema:
    return pa.schema([(name, array.type) for name, array in columns.items()])
