"""JsonColumns: texts of JSON objects straight into Arrow's memory layout, where all readers agree. The readable twin.

    columns = JsonColumns([JsonField("id", JsonKind.INT64), JsonField("user", JsonKind.STRING)])
    found = columns.read(row_count, offsets, data, validity, first_row)    # the buffers of a column of bytes

A row is null where its text is not plain: then another reader, which is slower and knows more, is to read it.

1. A text is plain when it is one object of JSON as RFC 8259 has it, in UTF-8, of at most TEXT_BYTES_MAX, nested at most
   DEPTH_MAX deep, without half surrogates and without numbers of more than NUMBER_BYTES_MAX, and when each
   field that is named comes once and has its kind:

       null           for any kind; so is a field that does not come
       BOOLEAN        true, false
       INT8 ... INT64 a number without fraction and exponent, in range
       DOUBLE         a number that is finite as a double, but not -0, which is an integer
       STRING         a string
       DATE           a string like "2026-11-19", from 1900 to 9999
       TIMESTAMP      a string like "2026-11-19T08:00:00.123456+02:00", with T or a space, at most six digits, and
                      +00:00 or Z
       STRUCT         an object of these fields, LIST an array of its one field
       OTHER          nothing but null

2. What stands under other names is read over, but it must be JSON, too. With `is_strict` a text that has more than null
   there is not plain: whoever wants to know all names has only such texts to look at.
3. No Python object for a value in the native twin. The buffers are as columns.py says; booleans are a bitmap.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from enum import IntEnum
from typing import Any, Final

from ottla.light_tuples import NamedTuple
from ottla.schemas.arrow.columns import Block, Column

TEXT_BYTES_MAX: Final = 50_000
DEPTH_MAX: Final = 64
NUMBER_BYTES_MAX: Final = 100
_DATE: Final = re.compile(r"(?:19|[2-9]\d)\d\d-\d\d-\d\d", re.ASCII)
_TIMESTAMP: Final = re.compile(
    rf"{_DATE.pattern}[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{{1,6}})?(?:Z|[+-](?:0\d|1[0-4]):[0-5]\d)", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HALF_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class JsonKind(IntEnum):
    """What a field is."""

    OTHER = 0
    BOOLEAN = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    DOUBLE = 6
    STRING = 7
    DATE = 8
    TIMESTAMP = 9
    STRUCT = 10
    LIST = 11


class JsonField(NamedTuple):
    """A field by its name; a list has one child, whose name does not matter."""

    name: str
    kind: JsonKind
    children: tuple[JsonField, ...] = ()


BITS: Final = {JsonKind.INT8: 8, JsonKind.INT16: 16, JsonKind.INT32: 32, JsonKind.INT64: 64}
CODES: Final = {
    JsonKind.INT8: "b",
    JsonKind.INT16: "h",
    JsonKind.INT32: "i",
    JsonKind.INT64: "q",
    JsonKind.DOUBLE: "d",
    JsonKind.DATE: "i",
    JsonKind.TIMESTAMP: "q",
}


class _NotPlainError(ValueError):
    """Another reader is to read this text."""


class JsonColumns:
    """Reads columns of texts; made once for many."""

    def __init__(self, fields: Sequence[JsonField], *, is_strict: bool = False) -> None:
        self._root = JsonField("", JsonKind.STRUCT, tuple(fields))
        self._is_strict = is_strict

    def read(
        self, row_count: int, offsets: Block, data: Block, validity: Block | None = None, first_row: int = 0
    ) -> Column:
        """The rows of a column of bytes, as a column of structs."""
        ends = memoryview(offsets).cast("B").cast("i")
        content, valid = memoryview(data), None if validity is None else memoryview(validity)
        rows = []
        for row in range(first_row, first_row + row_count):
            is_there = valid is None or valid[row >> 3] >> (row & 7) & 1
            text = bytes(content[ends[row] : ends[row + 1]])
            rows.append(_row(self._root, text, self._is_strict) if is_there else None)
        return _column(self._root, rows)


# --- one text ---------------------------------------------------------------------------------------------------------


class _Pairs(list[tuple[str, Any]]):
    """An object with all that it has."""


class _Number(NamedTuple):
    """A number as it is written."""

    text: str
    is_integer: bool


def _row(root: JsonField, content: bytes, is_strict: bool) -> dict[str, Any] | None:
    if len(content) > TEXT_BYTES_MAX:
        return None
    try:
        value = json.loads(
            content.decode(),
            object_pairs_hook=_Pairs,
            parse_int=lambda text: _number(text, is_integer=True),
            parse_float=lambda text: _number(text, is_integer=False),
            parse_constant=_refuse,
        )
        _check(value, 0)
        if is_strict:
            _check_names(root, value)
        found: dict[str, Any] = _struct(root, value)
    except (ValueError, RecursionError):
        return None
    return found


def _number(text: str, *, is_integer: bool) -> _Number:
    if len(text) > NUMBER_BYTES_MAX:
        raise _NotPlainError
    return _Number(text, is_integer)


def _refuse(*_: Any) -> Any:
    raise _NotPlainError


def _check(value: Any, depth: int) -> None:
    """What must hold everywhere, also where it is read over."""
    if isinstance(value, str):
        if _HALF_SURROGATE.search(value):
            raise _NotPlainError
    elif isinstance(value, list):
        if depth == DEPTH_MAX:
            raise _NotPlainError
        for item in value:
            if isinstance(value, _Pairs):
                _check(item[0], depth)
            _check(item[1] if isinstance(value, _Pairs) else item, depth + 1)


def _check_names(field: JsonField, value: Any) -> None:
    """Every value is a field's."""
    if field.kind is JsonKind.LIST and isinstance(value, list):
        for item in value:
            _check_names(field.children[0], item)
    if field.kind is not JsonKind.STRUCT or not isinstance(value, _Pairs):
        return
    known = {child.name: child for child in field.children}
    for name, item in value:
        if name in known:
            _check_names(known[name], item)
        elif item is not None:
            raise _NotPlainError


def _converted(field: JsonField, value: Any) -> Any:
    return None if value is None else _READERS[field.kind](field, value)


def _struct(field: JsonField, value: Any) -> dict[str, Any]:
    if not isinstance(value, _Pairs):
        raise _NotPlainError
    known = {child.name: child for child in field.children}
    found: dict[str, Any] = {}
    for name, item in value:
        if name in found:
            raise _NotPlainError
        if name in known:
            found[name] = _converted(known[name], item)
    return found


def _list(field: JsonField, value: Any) -> list[Any]:
    if not isinstance(value, list) or isinstance(value, _Pairs):
        raise _NotPlainError
    return [_converted(field.children[0], item) for item in value]


def _boolean(_: JsonField, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _NotPlainError
    return value


def _integer(field: JsonField, value: Any) -> int:
    if not isinstance(value, _Number) or not value.is_integer:
        raise _NotPlainError
    found, limit = int(value.text), 1 << (BITS[field.kind] - 1)
    if not -limit <= found < limit:
        raise _NotPlainError
    return found


def _double(_: JsonField, value: Any) -> float:
    if not isinstance(value, _Number) or value.text == "-0" or not math.isfinite(found := float(value.text)):
        raise _NotPlainError
    return found


def _string(_: JsonField, value: Any) -> str:
    if not isinstance(value, str):
        raise _NotPlainError
    return value


def _date(_: JsonField, value: Any) -> int:
    if not isinstance(value, str) or _DATE.fullmatch(value) is None:
        raise _NotPlainError
    return date.fromisoformat(value).toordinal() - _EPOCH.toordinal()


def _timestamp(_: JsonField, value: Any) -> int:
    if not isinstance(value, str) or _TIMESTAMP.fullmatch(value) is None:
        raise _NotPlainError
    since = datetime.fromisoformat(value) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


_READERS: Final[dict[JsonKind, Callable[[JsonField, Any], Any]]] = {
    JsonKind.OTHER: _refuse,
    JsonKind.BOOLEAN: _boolean,
    JsonKind.INT8: _integer,
    JsonKind.INT16: _integer,
    JsonKind.INT32: _integer,
    JsonKind.INT64: _integer,
    JsonKind.DOUBLE: _double,
    JsonKind.STRING: _string,
    JsonKind.DATE: _date,
    JsonKind.TIMESTAMP: _timestamp,
    JsonKind.STRUCT: _struct,
    JsonKind.LIST: _list,
}


# --- many of them -----------------------------------------------------------------------------------------------------


def _column(field: JsonField, values: Sequence[Any]) -> Column:
    null_count = sum(item is None for item in values)
    validity = _bitmap([item is not None for item in values]) if null_count else None
    data, offsets, children = _filled(field, values)
    return Column(len(values), null_count, validity, data, offsets, children)


def _filled(field: JsonField, values: Sequence[Any]) -> tuple[bytes, bytes, tuple[Column, ...]]:
    match field.kind:
        case JsonKind.OTHER:
            return b"", b"", ()
        case JsonKind.BOOLEAN:
            return _bitmap([bool(item) for item in values]), b"", ()
        case JsonKind.STRING:
            texts = [(item or "").encode() for item in values]
            return b"".join(texts), _ends(map(len, texts)), ()
        case JsonKind.STRUCT:
            columns = ([(item or {}).get(child.name) for item in values] for child in field.children)
            return b"", b"", tuple(map(_column, field.children, columns))
        case JsonKind.LIST:
            inner = [item for row in values for item in row or ()]
            return b"", _ends(len(row or ()) for row in values), (_column(field.children[0], inner),)
        case _:
            return array(CODES[field.kind], [0 if item is None else item for item in values]).tobytes(), b"", ()


def _ends(lengths: Iterator[int]) -> bytes:
    offsets = array("i", [0])
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return offsets.tobytes()


def _bitmap(bits: Sequence[bool]) -> bytes:
    found = bytearray((len(bits) + 7) // 8)
    for index, bit in enumerate(bits):
        found[index // 8] |= bit << index % 8
    return bytes(found)
