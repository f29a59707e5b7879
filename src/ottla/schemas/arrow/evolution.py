"""What a table needs before a batch fits into it, and the batch as the table then has it.

    change = evolution(table.schema, batch.schema)    an Evolution, or Unfit with a reason in one sentence
    fitted(batch, change.schema)                      the same rows in the order, the types and columns of the table

1. Columns are told by their names, also inside of structs, lists and maps. What the batch has beside the table is added
   at the end of its struct; what it lacks is null in its rows; its order does not matter.
2. A column becomes wider when the batch has values that the column cannot hold, and when no value of either can lose
   anything by it: int8 to int64, float to double, ints of 16 bits to float and of 32 to double, decimals with more
   digits on both sides of the point. An int64 and a double have no such type, so the batch is unfit.
3. Nothing becomes narrower, changes its meaning (a number is no text, a date no time), or must not be null any more.
   Two names that differ in nothing but case are refused, because Delta's readers take them for one.
4. What a format of tables cannot change (Iceberg has no int that becomes a double) its writer sees in `widened`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.light_tuples import NamedTuple

DECIMAL_DIGITS_MAX: Final = 38
INTS: Final = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
EXACT_BITS: Final = {pa.float32(): 24, pa.float64(): 53}
"""A float has all whole numbers of so many bits, sign not counted."""


class Added(NamedTuple):
    """A column that the table gets: the names from the outside in, "[]" for what is in a list or a map."""

    path: tuple[str, ...]
    kind: pa.DataType


class Widened(NamedTuple):
    """A column that gets another type."""

    path: tuple[str, ...]
    before: pa.DataType
    after: pa.DataType


class Evolution(NamedTuple):
    """The table's schema when the batch fits, and what has to be done for it."""

    schema: pa.Schema
    added: tuple[Added, ...]
    widened: tuple[Widened, ...]


class Unfit(NamedTuple):
    """Why the batch can never be rows of this table."""

    reason: str


class _Refused(Exception):
    """Carries the reason up to evolution()."""


def evolution(table: pa.Schema, batch: pa.Schema) -> Evolution | Unfit:
    """What the table needs so that the batch fits."""
    changes = _Changes()
    try:
        fields = changes.fields(list(table), list(batch), ())
    except _Refused as refused:
        return Unfit(str(refused))
    return Evolution(pa.schema(fields, metadata=table.metadata), tuple(changes.added), tuple(changes.widened))


def widest(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The narrowest number that has all values of both; None when there is none."""
    if one == other:
        return one
    if pa.types.is_decimal128(one) and pa.types.is_decimal128(other):
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        return pa.decimal128(digits, scale) if digits <= DECIMAL_DIGITS_MAX else None
    if one in INTS and other in INTS:
        return max(one, other, key=INTS.__getitem__)
    if one in EXACT_BITS and other in EXACT_BITS:
        return pa.float64()
    if one in INTS and other in EXACT_BITS:
        return next((kind for kind in _floats_from(other) if INTS[one] - 1 <= EXACT_BITS[kind]), None)
    return widest(other, one) if other in INTS and one in EXACT_BITS else None


def _floats_from(kind: pa.DataType) -> Sequence[pa.DataType]:
    return [wider for wider in EXACT_BITS if EXACT_BITS[wider] >= EXACT_BITS[kind]]


class _Changes:
    def __init__(self) -> None:
        self.added: list[Added] = []
        self.widened: list[Widened] = []

    def fields(self, ours: list[pa.Field], theirs: list[pa.Field], path: tuple[str, ...]) -> list[pa.Field]:
        """The columns of the table, and then those that only the batch has."""
        new = {field.name: field for field in theirs}
        old = {field.name for field in ours}
        _check_names([*(field.name for field in ours), *(name for name in new if name not in old)], path)
        _check_names([field.name for field in theirs], path)
        kept = [self._field(field, new.get(field.name), (*path, field.name)) for field in ours]
        more = [field.with_nullable(True) for name, field in new.items() if name not in old]
        self.added += [Added((*path, field.name), field.type) for field in more]
        return [*kept, *more]

    def _field(self, ours: pa.Field, theirs: pa.Field | None, path: tuple[str, ...]) -> pa.Field:
        if not ours.nullable and (theirs is None or theirs.nullable):
            lacks = "lacks it" if theirs is None else "may have nulls there"
            raise _Refused(f"{_shown(path)} must not be null in the table, and the batch {lacks}")
        return ours if theirs is None else ours.with_type(self._type(ours.type, theirs.type, path))

    def _type(self, ours: pa.DataType, theirs: pa.DataType, path: tuple[str, ...]) -> pa.DataType:
        inside = (*path, "[]")
        if pa.types.is_struct(ours) and pa.types.is_struct(theirs):
            return pa.struct(self.fields(list(ours), list(theirs), path))
        if pa.types.is_list(ours) and pa.types.is_list(theirs):
            return pa.list_(self._field(ours.value_field, theirs.value_field, inside))
        if pa.types.is_map(ours) and pa.types.is_map(theirs):
            if ours.key_type != theirs.key_type:
                raise _Refused(f"the keys of {_shown(path)} are {ours.key_type}, and {theirs.key_type} in the batch")
            return pa.map_(ours.key_field, self._field(ours.item_field, theirs.item_field, inside))
        wider = widest(ours, theirs)
        if wider is None:
            raise _Refused(f"{_shown(path)} is {ours} in the table and {theirs} in the batch, and no type holds both")
        if wider != ours:
            self.widened.append(Widened(path, ours, wider))
        return wider


def _check_names(names: Iterable[str], path: tuple[str, ...]) -> None:
    known: dict[str, str] = {}
    for name in names:
        other = known.get(name.casefold())
        if other is not None:
            words = "comes twice" if other == name else f"and {_shown((*path, other))} differ only in case"
            raise _Refused(f"{_shown((*path, name))} {words}")
        known[name.casefold()] = name


def _shown(path: tuple[str, ...]) -> str:
    return f"column {'.'.join(path)}"


# -- rows --------------------------------------------------------------------------------------------------------------


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a batch with the columns of a table that they fit into."""
    columns = [
        _column(batch.column(field.name), field.type) if field.name in batch.schema.names else _nulls(batch, field)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _nulls(rows: pa.RecordBatch | pa.Array, field: pa.Field) -> pa.Array:
    return pa.nulls(len(rows), field.type)


def _column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        return _struct(column, kind)
    if pa.types.is_list(kind):
        values = _column(column.values, kind.value_type)
        return pa.ListArray.from_arrays(_offsets(column), values, type=kind)
    if pa.types.is_map(kind):
        items = _column(column.items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(column), column.keys, items, type=kind)
    return column.cast(kind)


def _struct(column: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    names = [field.name for field in column.type]
    parts = dict(zip(names, column.flatten(), strict=True))
    children = [
        _column(parts[field.name], field.type) if field.name in parts else _nulls(column, field) for field in kind
    ]
    if not children:
        return column
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())


def _offsets(column: pa.Array) -> pa.Array:
    """Where the items of each list begin, null for a null list."""
    valid = pa.concat_arrays([column.is_valid(), pa.array([True])])
    return pc.if_else(valid, column.offsets, None)
