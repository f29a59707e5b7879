"""JSON objects as struct columns, with the columns that a schema names.

What fits is told by the way value by value, which is the reference; Arrow's own reader takes whole batches when all of
it is plain, and gives the same.

    type                 JSON
    boolean              true, false
    byte, short, int,    a number without fraction and exponent, in range
    long
    float, double        any number; NaN, Infinity and -Infinity are understood
    decimal              a number or a text with a number, with no more digits than the type has
    string               a text
    binary               a text in base64
    date, timestamp      a text in ISO 8601; a timestamp without zone is UTC
    array, map, struct   an array; an object; an object

1. null is allowed everywhere, and what is missing is null. Names that the schema does not have are passed over.
2. A value that is not one JSON object, or has something that does not fit, makes the whole record bad: half a record
   would look like data. Of a name that comes twice the last counts.
3. Names are told apart by case.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.spark.formats.ddl import UnreadableSchema
from ottla.spark.formats.formats import Decoded

if TYPE_CHECKING:
    import pyarrow

Convert = Callable[[Any], Any]

BITS: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
FAST_TYPES: Final = (
    *(BooleanType, ByteType, ShortType, IntegerType, LongType, DoubleType, StringType),
    *(DateType, TimestampType),
)
# Arrow's reader knows more words for numbers than the reference does, and a year 0.
ODD_NUMBERS: Final = re.compile(rb"[:,\[]\s*[-+]?(?:Inf|NaN)")
YEAR_0: Final = b'"0000-'


class JsonRows:
    """Decodes columns of JSON objects."""

    def __init__(self, schema: StructType, kind: pyarrow.DataType) -> None:
        self._kind = kind
        self._convert = _converter(schema)
        self._is_fast = _is_fast(schema)

    def decode(self, column: pyarrow.Array) -> Decoded:
        if self._is_fast and (found := self._read_whole(column)) is not None:
            return Decoded(found, {})
        return self._read_each(column)

    def _read_each(self, column: pyarrow.Array) -> Decoded:
        import pyarrow as pa

        found: list[Any] = []
        problems: dict[int, str] = {}
        for row, content in enumerate(column.to_pylist()):
            try:
                found.append(None if content is None else self._convert(_parsed(content)))
            except (ValueError, RecursionError) as error:
                found.append(None)
                problems[row] = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        return Decoded(pa.array(found, type=self._kind), problems)

    def _read_whole(self, column: pyarrow.Array) -> pyarrow.Array | None:
        """Arrow's reader over all values at once; None when something is odd, and somebody must look at each."""
        import pyarrow as pa
        import pyarrow.compute as pc

        present = column.drop_null() if column.null_count else column
        if not len(present):
            return pa.nulls(len(column), self._kind)
        # Who begins and ends with a brace holds whole objects, or the reader finds no end to one: so many rows as
        # values means one object in each.
        is_plain = pc.and_(pc.starts_with(present, "{"), pc.ends_with(present, "}"))
        if not pc.all(is_plain).as_py():
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
        if text is None or YEAR_0 in text or ((b"Inf" in text or b"NaN" in text) and ODD_NUMBERS.search(text)):
            return None
        try:
            table = reader.read_json(
                pa.BufferReader(pa.py_buffer(text)),
                read_options=reader.ReadOptions(use_threads=False, block_size=max(len(text) + 1, 4096)),
                parse_options=reader.ParseOptions(
                    explicit_schema=pa.schema(list(self._kind)), unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(present):
            return None
        columns = [table.column(field.name).combine_chunks() for field in self._kind]
        return pa.StructArray.from_arrays(columns, fields=list(self._kind))


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


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"it is {_shown(found)} and no object")
    return found


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


# --- value by value --------------------------------------------------------------------------------------------------


def _converter(kind: DataType) -> Convert:
    """How a value of this type is made of what json.loads() gives; ValueError says what does not fit."""
    convert = _strict_converter(kind)
    return lambda value: None if value is None else convert(value)


def _strict_converter(kind: DataType) -> Convert:
    if isinstance(kind, StructType):
        return _struct(kind)
    if isinstance(kind, ArrayType):
        return _array(_converter(kind.elementType))
    if isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            raise UnreadableSchema(f"names of JSON objects are texts, so {kind.simpleString()} cannot be read")
        return _map(_converter(kind.valueType))
    if type(kind) in BITS:
        return _whole_number(BITS[type(kind)])
    if isinstance(kind, DecimalType):
        return _decimal(kind)
    if isinstance(kind, TimestampType | TimestampNTZType):
        return _timestamp(with_zone=isinstance(kind, TimestampType))
    simple = SIMPLE.get(type(kind))
    if simple is None:
        raise UnreadableSchema(f"JSON has no {kind.simpleString()}")
    return simple


def _struct(kind: StructType) -> Convert:
    fields = [(field.name, _converter(field.dataType)) for field in kind.fields]

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{_shown(value)} is no object")
        found = {}
        for name, inner in fields:
            try:
                found[name] = inner(value.get(name))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return found

    return convert


def _array(inner: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"{_shown(value)} is no array")
        return [inner(each) for each in value]

    return convert


def _map(inner: Convert) -> Convert:
    def convert(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise ValueError(f"{_shown(value)} is no object")
        return [(_text(name), inner(each)) for name, each in value.items()]

    return convert


def _whole_number(bits: int) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        if type(value) is not int or not -limit <= value < limit:
            raise ValueError(f"{_shown(value)} is no whole number of {bits} bits")
        return value

    return convert


def _decimal(kind: DecimalType) -> Convert:
    def convert(value: Any) -> Decimal:
        if type(value) not in (int, float, str):
            raise ValueError(f"{_shown(value)} is no decimal number")
        try:
            found = Decimal(repr(value) if isinstance(value, float) else value)
            exact = found.quantize(Decimal(1).scaleb(-kind.scale))
        except InvalidOperation:
            raise ValueError(f"{_shown(value)} is no {kind.simpleString()}") from None
        if exact != found or not exact.is_finite() or abs(exact) >= 10 ** (kind.precision - kind.scale):
            raise ValueError(f"{_shown(value)} does not fit in {kind.simpleString()}")
        return exact

    return convert


def _timestamp(*, with_zone: bool) -> Convert:
    def convert(value: Any) -> datetime.datetime:
        found = _iso(datetime.datetime.fromisoformat, value, "time in ISO 8601")
        assert isinstance(found, datetime.datetime)
        if with_zone:
            return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)
        if found.tzinfo is not None:
            raise ValueError(f"{_shown(value)} has a zone, and the column is TIMESTAMP_NTZ")
        return found

    return convert


def _iso(parse: Callable[[str], Any], value: Any, what: str) -> Any:
    if isinstance(value, str):
        try:
            return parse(value)
        except ValueError:
            pass
    raise ValueError(f"{_shown(value)} is no {what}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is no text")
    value.encode()  # half of a surrogate pair is no text: UnicodeEncodeError is a ValueError
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{_shown(value)} is neither true nor false")
    return value


def _double(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{_shown(value)} is no number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{_shown(value)} is too large for a double") from None


def _binary(value: Any) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except binascii.Error:
        raise ValueError(f"{_shown(value)} is not base64") from None


def _date(value: Any) -> datetime.date:
    found: datetime.date = _iso(datetime.date.fromisoformat, value, "date in ISO 8601")
    return found


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str) if not isinstance(value, float) else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


SIMPLE: Final[dict[type[DataType], Convert]] = {
    BooleanType: _boolean,
    StringType: _text,
    BinaryType: _binary,
    DateType: _date,
    FloatType: _double,
    DoubleType: _double,
}
