"""One JSON value as a value of a column: the meaning of JSON here, and what the quick reader must agree with.

    column               JSON
    bool                 true, false
    int8 ... int64       a number without fraction and exponent, in range
    float, double        any number, the nearest double; too large ones are Infinity. NaN, Infinity, -Infinity
    decimal              a number or a text with a number, with no more digits than the type has
    string               a text
    binary               a text in base64
    date, timestamp      a text in ISO 8601; for a column with a zone one without is UTC
    list, map, struct    an array; an object; an object

1. null is allowed everywhere, and what is missing is null. Names that the schema does not have are passed over.
2. A value that is not one JSON object, or has something that does not fit, is bad as a whole: half a record would look
   like data. Of a name that comes twice the last counts.
3. Names are case-sensitive.
4. Objects and arrays are nested at most NESTING_LIMIT deep, wherever they stand. (Python would set a limit that depends
   on who calls.)
This is not Spark's from_json, which lets more pass: numbers as texts and as dates, texts behind the object.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from ottla.errors import OttlaError

Convert = Callable[[Any], Any]

BITS: Final[dict[pa.DataType, int]] = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
NESTING_LIMIT: Final = 400
DIGITS_LIMIT: Final = 400
"""A number with more digits is no number of any type but an infinite double; Python refuses 4,300 of them."""
EXACT: Final = Context(prec=DIGITS_LIMIT)
_TEXTS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)


class NotInJson(OttlaError):
    """No JSON is read into a column of this type. Leave the column out, or give it a type that JSON has."""


def parsed(content: bytes) -> dict[str, Any]:
    """The JSON object of a value; ValueError says why it is none."""
    if is_too_deep(content):
        raise ValueError("it is nested too deeply")
    try:
        found = json.loads(content.decode(), parse_int=_integer)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"it is {_shown(found)} and no object")
    return found


def is_too_deep(content: bytes) -> bool:
    """Whether arrays and objects are nested deeper than NESTING_LIMIT. Few values have so many brackets at all."""
    if content.count(b"[") + content.count(b"{") <= NESTING_LIMIT:
        return False
    depth = deepest = 0
    for bracket in re.findall(rb"[\[\]{}]", _TEXTS.sub(b"", content)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest > NESTING_LIMIT


class MinusZero(int):
    """-0, which is a zero for whole numbers and has its sign for doubles."""


def _integer(text: str) -> int | float:
    if len(text) > DIGITS_LIMIT:
        return -math.inf if text.startswith("-") else math.inf
    return MinusZero() if text == "-0" else int(text)


def converter(kind: pa.DataType) -> Convert:
    """How a value of this type is made of what json.loads() gives; ValueError says what does not fit."""
    convert = _strict_converter(kind)
    return lambda value: None if value is None else convert(value)


def _strict_converter(kind: pa.DataType) -> Convert:
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind):
        return _array(converter(kind.value_type))
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise NotInJson(f"names of JSON objects are texts, so {kind} cannot be read")
        return _map(converter(kind.item_type))
    if kind in BITS:
        return _whole_number(BITS[kind])
    if pa.types.is_decimal(kind):
        return _decimal(kind)
    if pa.types.is_timestamp(kind):
        return _timestamp(with_zone=kind.tz is not None)
    simple = SIMPLE.get(kind)
    if simple is None:
        raise NotInJson(f"JSON has no {kind}")
    return simple


def _struct(kind: pa.StructType) -> Convert:
    fields = [(field.name, converter(field.type)) for field in kind]

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
        return [inner(item) for item in value]

    return convert


def _map(inner: Convert) -> Convert:
    def convert(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise ValueError(f"{_shown(value)} is no object")
        return [(_text(name), inner(item)) for name, item in value.items()]

    return convert


def _whole_number(bits: int) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        if not _is_integer(value) or not -limit <= value < limit:
            raise ValueError(f"{_shown(value)} is no whole number of {bits} bits")
        return int(value)

    return convert


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _decimal(kind: pa.Decimal128Type) -> Convert:
    def convert(value: Any) -> Decimal:
        if not _is_integer(value) and not isinstance(value, float | str):
            raise ValueError(f"{_shown(value)} is no decimal number")
        try:
            found = Decimal(repr(value) if isinstance(value, float) else value)
            exact = found.quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)
        except InvalidOperation:
            raise ValueError(f"{_shown(value)} is no {kind}") from None
        if exact != found or not exact.is_finite() or abs(exact) >= 10 ** (kind.precision - kind.scale):
            raise ValueError(f"{_shown(value)} does not fit in {kind}")
        return exact

    return convert


def _timestamp(*, with_zone: bool) -> Convert:
    def convert(value: Any) -> datetime.datetime:
        found = _iso(datetime.datetime.fromisoformat, value, "time in ISO 8601")
        assert isinstance(found, datetime.datetime)
        if with_zone:
            return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)
        if found.tzinfo is not None:
            raise ValueError(f"{_shown(value)} has a zone, and the column has none")
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
    if not _is_integer(value) and not isinstance(value, float):
        raise ValueError(f"{_shown(value)} is no number")
    if isinstance(value, MinusZero):
        return -0.0
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


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


SIMPLE: Final[dict[pa.DataType, Convert]] = {
    pa.bool_(): _boolean,
    pa.string(): _text,
    pa.binary(): _binary,
    pa.date32(): _date,
    pa.float32(): _double,
    pa.float64(): _double,
}
