"""A column of bytes as a column of values, and why some rows are none.

1. A null stays null in every format: a tombstone is no bad record.
2. A bad record costs itself: its row is null, its reason stands beside the column, and its neighbours are what they
   would be without it. That holds for what Arrow refuses, too.
3. Two readers share the work. A quick one (a native leaf) reads whole columns where a value is plain, and leaves null
   what is not; a careful one reads the rest value by value, and alone says what is wrong with a record.
4. What a record may cost is bounded by its bytes: the readers say how (json_values.py, avro_columns.py). Protobuf's own
   library bounds the depth, and makes no more values than there are bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.light_tuples import NamedTuple
from ottla.schemas.framing import FRAME_BYTES, MAGIC

VALUE_BYTES_MAX: Final = (1 << 31) - 1
Read = Callable[[bytes], Any]
UNFIT: Final = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""How Arrow says that a value does not fit into a column."""


class Decoded(NamedTuple):
    """A column in its format, and why some of its rows are not: their values are null."""

    column: pa.Array
    problems: dict[int, str]


def decode_each(column: pa.Array, kind: pa.DataType, read: Read) -> Decoded:
    """Value by value; the ValueError of `read` says why one is bad."""
    values: list[Any] = []
    problems: dict[int, str] = {}
    for row, content in enumerate(column.to_pylist()):
        try:
            values.append(None if content is None else read(content))
        except ValueError as error:
            values.append(None)
            problems[row] = str(error)
    try:
        return Decoded(pa.array(values, type=kind), problems)
    except UNFIT:
        return _one_by_one(values, kind, problems)


def _one_by_one(values: list[Any], kind: pa.DataType, problems: dict[int, str]) -> Decoded:
    """Somewhere is a value that Arrow refuses: each is asked for."""
    for row, value in enumerate(values):
        try:
            pa.array([value], type=kind)
        except UNFIT as error:
            values[row] = None
            problems[row] = f"it does not fit into its columns ({error})"
    return Decoded(pa.array(values, type=kind), dict(sorted(problems.items())))


def decode_rest(column: pa.Array, quick: pa.Array, read: Read) -> Decoded:
    """What the quick reader made of a column, and the rows that it left, value by value."""
    left = pc.and_(column.is_valid(), quick.is_null())
    rows = pc.indices_nonzero(left).to_pylist()
    if not rows:
        return Decoded(quick, {})
    rest = decode_each(column.take(pa.array(rows)), quick.type, read)
    places = list(range(len(column)))
    for number, row in enumerate(rows):
        places[row] = len(column) + number
    whole = pa.concat_arrays([quick, rest.column]).take(pa.array(places))
    return Decoded(whole, {rows[number]: reason for number, reason in rest.problems.items()})


def decode_text(column: pa.Array) -> Decoded:
    """Bytes as text: the same memory when all of it is UTF-8."""
    try:
        return Decoded(column.cast(pa.string()), {})
    except pa.ArrowInvalid:
        return decode_each(column, pa.string(), _text)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from None


def without_frames(column: pa.Array) -> pa.Array:
    """The same values without the five bytes that name a schema, where they have them: no JSON begins with a zero."""
    is_framed = pc.starts_with(column, pattern=bytes([MAGIC]))
    if not pc.any(is_framed).as_py():
        return column
    return pc.if_else(is_framed, pc.binary_slice(column, FRAME_BYTES, VALUE_BYTES_MAX), column)


def read_groups(
    column: pa.Array, names: pa.Array, kind: pa.DataType, read: Callable[[bytes, pa.Array], pa.Array]
) -> pa.Array:
    """Rows that name who wrote them, each by the reader of that name: they are sorted by names, read, and put back.
    Null where a row names nobody."""
    coded = names.dictionary_encode()
    if len(coded.dictionary) == 1 and not coded.null_count:
        return read(coded.dictionary[0].as_py(), column)
    order = pc.array_sort_indices(coded.indices)  # those without a name come last
    rows = column.take(order)
    counts = {count["values"]: count["counts"] for count in pc.value_counts(coded.indices).to_pylist()}
    ends = list(itertools.accumulate((counts[number] for number in range(len(coded.dictionary))), initial=0))
    parts = [
        read(name, rows.slice(start, end - start))
        for name, (start, end) in zip(coded.dictionary.to_pylist(), itertools.pairwise(ends), strict=True)
    ]
    whole = pa.concat_arrays([*parts, pa.nulls(len(column) - ends[-1], kind)])
    return whole.take(pc.array_sort_indices(order))
