"""Columns of JSON objects as struct columns, with the fields that a type names.

What a value means is said in json_values.py, value by value. The native leaf reads whole columns where a text is plain,
which is where all readers of JSON agree (json_columns.py); where none was built every text is read by itself.
"""

from __future__ import annotations

import pyarrow as pa

from ottla.schemas.arrow.columns import array_of
from ottla.schemas.arrow.decoded import Decoded, decode_each, decode_rest, without_frames
from ottla.schemas.arrow.json_choice import IS_QUICK, JsonColumns
from ottla.schemas.arrow.json_columns import JsonField, JsonKind
from ottla.schemas.arrow.json_values import converter, parsed

KINDS = {
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


class JsonRows:
    """Decodes columns of JSON objects; `framed` when they may name a schema of a registry, which is passed over."""

    def __init__(self, kind: pa.StructType, *, framed: bool = False) -> None:
        self._kind = kind
        self._framed = framed
        self._convert = converter(kind)
        self._plain = PlainJson(kind) if IS_QUICK and _kind_of(kind) is JsonKind.STRUCT else None

    def decode(self, column: pa.Array) -> Decoded:
        if self._framed:
            column = without_frames(column)
        if self._plain is None:
            return decode_each(column, self._kind, self._read)
        return decode_rest(column, self._plain.read(column), self._read)

    def _read(self, content: bytes) -> object:
        return self._convert(parsed(content))


class PlainJson:
    """Reads columns of values, those that are plain; made once for many. `untouchable` names fields that may not come
    in a plain text; with `is_strict` nothing may that is no field's."""

    def __init__(self, kind: pa.StructType, *, untouchable: str | None = None, is_strict: bool = False) -> None:
        self._kind = kind
        fields = [_field(field) for field in kind]
        self._columns = JsonColumns(
            [field._replace(kind=JsonKind.OTHER) if field.name == untouchable else field for field in fields],
            is_strict=is_strict,
        )

    def read(self, column: pa.Array) -> pa.Array:
        """A struct for each plain text, null for the others."""
        if not len(column):
            return pa.nulls(0, self._kind)
        validity, offsets, data = column.buffers()
        return array_of(self._kind, self._columns.read(len(column), offsets, data or b"", validity, column.offset))


def _field(field: pa.Field) -> JsonField:
    kind = _kind_of(field.type)
    children: list[pa.Field] = []
    if kind is JsonKind.STRUCT:
        children = list(field.type)
    elif kind is JsonKind.LIST:
        children = [field.type.value_field]
    return JsonField(field.name, kind, tuple(map(_field, children)))


def _kind_of(kind: pa.DataType) -> JsonKind:
    """What the leaf reads for a type; a struct without fields, or with two of one name, is beyond it."""
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return JsonKind.STRUCT if names and len(set(names)) == len(names) else JsonKind.OTHER
    if pa.types.is_list(kind):
        return JsonKind.LIST
    return KINDS.get(kind, JsonKind.OTHER)
