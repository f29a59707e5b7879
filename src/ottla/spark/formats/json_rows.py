"""Columns of JSON objects as struct columns, with the columns that a schema names.

What a value means is said in json_values.py, value by value. Arrow's own reader reads whole columns at once when all of
it is plain.

1. A value means the same whatever its neighbours are: whatever Arrow's reader does not read exactly as json_values.py
   does is not left to it, and then every value of the column is read by itself.
2. Arrow would read a number as a date. So dates are read as texts, and the texts are cast.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.spark.formats.formats import Decoded, decode_each
from ottla.spark.formats.json_values import BITS, NESTING_LIMIT, converter, is_too_deep, parsed

if TYPE_CHECKING:
    import pyarrow

FAST_TYPES: Final = (*BITS, BooleanType, DoubleType, StringType, DateType, TimestampType)
# What only Arrow's reader knows: more words for numbers, and a year 0, whose digits may be escaped.
ODD_NUMBERS: Final = re.compile(rb"[:,\[]\s*[-+]?(?:Inf|NaN)")
YEAR_0: Final = (b'"0000-', b"\\u003")


class JsonRows:
    """Decodes columns of JSON objects."""

    def __init__(self, schema: StructType, kind: pyarrow.DataType) -> None:
        self._kind = kind
        self._convert = converter(schema)
        self._is_fast = _is_fast(schema)

    def decode(self, column: pyarrow.Array) -> Decoded:
        if self._is_fast and (found := self._read_whole(column)) is not None:
            return Decoded(found, {})
        return self._read_each(column)

    def _read_each(self, column: pyarrow.Array) -> Decoded:
        return decode_each(column, self._kind, lambda content: self._convert(parsed(content)))

    def _read_whole(self, column: pyarrow.Array) -> pyarrow.Array | None:
        """Arrow's reader over all values at once; None when something is odd, and each must be read by itself."""
        import pyarrow as pa
        import pyarrow.compute as pc

        present = column.drop_null() if column.null_count else column
        if not len(present):
            return pa.nulls(len(column), self._kind)
        # Who begins and ends with a brace holds whole objects, or the reader finds no end to one: so many rows as
        # values means one object in each.
        is_plain = pc.and_(pc.starts_with(present, "{"), pc.ends_with(present, "}"))
        if not pc.all(is_plain).as_py() or _is_deep(present):
            return None
        found = self._table(pa, present)
        if found is None:
            return None
        if column.null_count:
            rows = pc.subtract(pc.cumulative_sum(pc.cast(column.is_valid(), pa.int64())), 1)
            found = found.take(pc.if_else(column.is_valid(), rows, None))
        return found

    def _table(self, pa: Any, present: pyarrow.Array) -> pyarrow.Array | None:
        import pyarrow.json as reader

        text = _joined(pa, present)
        if text is None or _is_odd(text):
            return None
        try:
            table = reader.read_json(
                pa.BufferReader(pa.py_buffer(text)),
                read_options=reader.ReadOptions(use_threads=False, block_size=max(len(text) + 1, 4096)),
                parse_options=reader.ParseOptions(
                    explicit_schema=pa.schema([field.with_type(_read_type(pa, field.type)) for field in self._kind]),
                    unexpected_field_behavior="ignore",
                ),
            )
            columns = [table.column(field.name).combine_chunks().cast(field.type) for field in self._kind]
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(present):
            return None
        return pa.StructArray.from_arrays(columns, fields=list(self._kind))


def _is_odd(text: bytes) -> bool:
    """Whether there is something that Arrow's reader reads otherwise."""
    if any(each in text for each in YEAR_0):
        return True
    return (b"Inf" in text or b"NaN" in text) and ODD_NUMBERS.search(text) is not None


def _is_deep(present: pyarrow.Array) -> bool:
    """Whether a value is nested deeper than is allowed."""
    import pyarrow.compute as pc

    brackets = pc.add(pc.count_substring(present, "["), pc.count_substring(present, "{"))
    many = present.filter(pc.greater(brackets, NESTING_LIMIT))
    return any(map(is_too_deep, many.to_pylist()))


def _read_type(pa: Any, kind: pyarrow.DataType) -> pyarrow.DataType:
    """The type that Arrow's reader reads for a type: texts for dates."""
    if pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_read_type(pa, field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_read_type(pa, kind.value_type)))
    return kind


def _joined(pa: Any, present: pyarrow.Array) -> bytes | None:
    """All values with a newline between, if all of them are UTF-8."""
    import pyarrow.compute as pc

    try:
        texts = present.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined: bytes = pc.binary_join(whole, "\n")[0].as_buffer().to_pybytes()
    return joined


def _is_fast(kind: DataType) -> bool:
    """Whether Arrow's reader reads this type as the reference does."""
    if isinstance(kind, StructType):
        # Two columns of one name, or none at all, are beyond it.
        return (
            bool(kind.fields)
            and len(set(kind.names)) == len(kind.names)
            and all(_is_fast(field.dataType) for field in kind.fields)
        )
    if isinstance(kind, ArrayType):
        return _is_fast(kind.elementType)
    return type(kind) in FAST_TYPES
