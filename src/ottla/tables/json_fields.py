"""JSON without a schema: the fields are those that the records have, and what is new becomes a column.

    fields = InferredJson(known)                # what the table has already
    fields.decode(column)                       # a struct of all that is known by now, and what is wrong

1. A number without fraction and exponent is an int64, another one a double, and an object a struct. What is only null
   has no type yet. The first SAMPLE records are looked at together, so a field of 5 here and 5.5 there is a double.
2. Later a field keeps its type: a table cannot change it. A record that has another one there is a bad record, with the
   name of the field in the reason; whoever has such records wants a schema (schema_id, schema_latest), or string.
3. The native leaf reads what it knows and leaves what has more than that (is_strict), so nothing new is overlooked, and
   records that have nothing new cost no Python object.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.schemas.arrow.decoded import Decoded, decode_each, decode_rest, without_frames
from ottla.schemas.arrow.evolution import Evolution, evolution
from ottla.schemas.arrow.json_choice import IS_QUICK
from ottla.schemas.arrow.json_rows import PlainJson
from ottla.schemas.arrow.json_values import converter, parsed
from ottla.tables.columns import NoColumn, plain_type

SAMPLE: Final = 1_000
INT_LIMIT: Final = 1 << 63


class InferredJson:
    """Decodes columns of JSON objects; what it knows grows."""

    def __init__(self, known: pa.StructType) -> None:
        self._learn(known)

    def _learn(self, kind: pa.StructType) -> None:
        self.kind = kind
        self._convert = converter(kind)
        self._plain = PlainJson(kind, is_strict=True) if IS_QUICK and kind.num_fields else None

    def decode(self, column: pa.Array) -> Decoded:
        column = without_frames(column)
        if not self.kind.num_fields:
            self._begin(column)
        quick = self._read(column)
        left = column.filter(pc.and_(column.is_valid(), quick.is_null()))
        before = self.kind
        bad = {content: reason for content in left.to_pylist() if (reason := self._learned_from(content)) is not None}
        if self.kind != before:
            quick = self._read(column)

        def read(content: bytes) -> Any:
            if content in bad:
                raise ValueError(bad[content])
            return self._convert(parsed(content))

        return decode_rest(column, quick, read) if self._plain is not None else decode_each(column, self.kind, read)

    def _read(self, column: pa.Array) -> pa.Array:
        return pa.nulls(len(column), self.kind) if self._plain is None else self._plain.read(column)

    def _begin(self, column: pa.Array) -> None:
        """The first types come from many records."""
        found: pa.DataType | None = pa.struct([])
        for content in column.drop_null().slice(0, SAMPLE).to_pylist():
            try:
                both = wider(found, type_of(parsed(content)))
                if plain_type(both) is not None:
                    found = both
            except (ValueError, NoColumn):
                continue  # it is looked at again, alone
        self._learn(_without_nulls(found))

    def _learned_from(self, content: bytes) -> str | None:
        """Learn what is new in a record; the reason when it can never be a row."""
        try:
            kind = _without_nulls(type_of(parsed(content)))
            plain_type(kind)
            change = evolution(pa.schema(list(self.kind)), pa.schema(list(kind)))
            # A number that fits is no change, whatever it looks like alone.
            if not isinstance(change, Evolution) or change.widened:
                self._convert(parsed(content))
                return self._added_beside(kind)
        except (ValueError, NoColumn) as error:
            return str(error)
        if change.added:
            self._learn(pa.struct(list(change.schema)))
        return None

    def _added_beside(self, kind: pa.StructType) -> str | None:
        """What is new beside fields that are written otherwise than their type: 5 in a column of doubles."""
        fitting = _fitted_to(kind, self.kind)
        change = evolution(pa.schema(list(self.kind)), pa.schema(list(fitting)))
        if not isinstance(change, Evolution):
            return change.reason
        if change.added:
            self._learn(pa.struct(list(change.schema)))
        return None


def type_of(value: Any) -> pa.DataType:
    """The type of a value as json.loads() gives it; ValueError when it has none."""
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -INT_LIMIT <= value < INT_LIMIT else pa.float64()
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, list):
        inner: pa.DataType = pa.null()
        for item in value:
            inner = wider(inner, type_of(item))
        return pa.list_(inner)
    return pa.struct([(name, type_of(item)) for name, item in value.items()])


def wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that has values of both; ValueError when none has."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(wider(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            fields[field.name] = wider(fields.get(field.name, pa.null()), field.type)
        return pa.struct(list(fields.items()))
    raise ValueError(f"a field is {one} here and {other} there")


def _without_nulls(kind: pa.DataType | None) -> pa.StructType:
    """The fields that have a type."""
    found = _known(kind)
    return pa.struct([]) if found is None else found


def _known(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_null(kind):
        return None
    if pa.types.is_list(kind):
        inner = _known(kind.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(kind):
        fields = [(field.name, inner) for field in kind if (inner := _known(field.type)) is not None]
        return pa.struct(fields) if fields else None
    return kind


def _fitted_to(kind: pa.DataType, known: pa.DataType) -> pa.DataType:
    """The type of a value that the known one can hold, with what is new in it."""
    if pa.types.is_struct(kind) and pa.types.is_struct(known):
        types = {field.name: field.type for field in known}
        return pa.struct(
            [(each.name, _fitted_to(each.type, types[each.name]) if each.name in types else each.type) for each in kind]
        )
    if pa.types.is_list(kind) and pa.types.is_list(known):
        return pa.list_(_fitted_to(kind.value_type, known.value_type))
    return known
