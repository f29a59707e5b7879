"""ProtobufColumns: messages of Protobuf into a struct column, where they are plain. The readable twin.

    columns = ProtobufColumns(ProtobufPlan(message, kind))
    columns.read(column, skipped_bytes)     a struct for each plain message, null for the others

A row is null where a message is not plain: then Protobuf's own library reads it, which knows more, and says what is
wrong.

1. A message is plain when each field that the reader has comes with its own wire type, at most once unless it is
   repeated, at most one of a oneof, nested at most DEPTH_MAX deep, and when its value is one that it has as a column:

       int32, sint32, uint32, bool     no more bits than that
       enum                            a number below ENUM_MAX that has a name
       string                          UTF-8
       google.protobuf.Timestamp       in the years 1 to 9999, with less than a second of nanoseconds

   Maps, durations and wrappers must not come; in a message with required fields nothing is plain.
2. Fields that the reader does not have are passed over by their wire type.
3. What does not come is null if it may be missing, else its default: zero, nothing, the first name of an enum.
4. No Python object for a value in the native twin.
"""

from __future__ import annotations

import datetime
import struct
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa

from ottla.light_tuples import NamedTuple
from ottla.schemas.arrow.avro_columns import FIRST_MICRO, LAST_MICRO
from ottla.schemas.protobuf.values import DURATION, ENUM, EPOCH, TIMESTAMP, WRAPPERS, is_map, is_repeated

DEPTH_MAX: Final = 64
ENUM_MAX: Final = 4_096
FIELD_NUMBER_MAX: Final = (1 << 29) - 1
REQUIRED: Final = 2


class ProtobufOp(IntEnum):
    """What the bytes of a field are; the twins know these numbers."""

    OTHER = 0
    DOUBLE = 1
    FLOAT = 2
    INT64 = 3
    INT32 = 4
    UINT32 = 5
    UINT64 = 6
    SINT32 = 7
    SINT64 = 8
    FIXED32 = 9
    FIXED64 = 10
    SFIXED32 = 11
    SFIXED64 = 12
    BOOL = 13
    STRING = 14
    BYTES = 15
    ENUM = 16
    TIMESTAMP = 17
    MESSAGE = 18


VARINT, BITS_64, SIZED, BITS_32 = 0, 1, 2, 5
OPS: Final = {
    1: ProtobufOp.DOUBLE,
    2: ProtobufOp.FLOAT,
    3: ProtobufOp.INT64,
    4: ProtobufOp.UINT64,
    5: ProtobufOp.INT32,
    6: ProtobufOp.FIXED64,
    7: ProtobufOp.FIXED32,
    8: ProtobufOp.BOOL,
    9: ProtobufOp.STRING,
    12: ProtobufOp.BYTES,
    13: ProtobufOp.UINT32,
    ENUM: ProtobufOp.ENUM,
    15: ProtobufOp.SFIXED32,
    16: ProtobufOp.SFIXED64,
    17: ProtobufOp.SINT32,
    18: ProtobufOp.SINT64,
}
WIRE_TYPES: Final = {
    **dict.fromkeys(ProtobufOp, VARINT),
    **dict.fromkeys((ProtobufOp.DOUBLE, ProtobufOp.FIXED64, ProtobufOp.SFIXED64), BITS_64),
    **dict.fromkeys((ProtobufOp.FLOAT, ProtobufOp.FIXED32, ProtobufOp.SFIXED32), BITS_32),
    **dict.fromkeys((ProtobufOp.STRING, ProtobufOp.BYTES, ProtobufOp.TIMESTAMP, ProtobufOp.MESSAGE), SIZED),
}
ZEROS: Final[dict[ProtobufOp, Any]] = {
    **dict.fromkeys(ProtobufOp, 0),
    ProtobufOp.BOOL: False,
    ProtobufOp.STRING: "",
    ProtobufOp.BYTES: b"",
}


class Field(NamedTuple):
    """A field of the reader, and so a column. `oneof` is the same number for those of one oneof, -1 for the others.
    `texts` are the names of an enum by their numbers, empty where there is none. `children` are those of a message."""

    name: str
    number: int
    op: ProtobufOp
    is_repeated: bool = False
    may_miss: bool = False
    oneof: int = -1
    texts: tuple[bytes, ...] = ()
    children: tuple[Field, ...] = ()


class ProtobufPlan:
    """The fields of a message, and its column; `is_readable` when any message of it can be plain."""

    def __init__(self, message: Any, kind: pa.StructType) -> None:
        self.kind = kind
        self.is_readable = True
        self.fields = self._fields(message)

    def _fields(self, message: Any) -> tuple[Field, ...]:
        oneofs = {oneof.full_name: number for number, oneof in enumerate(message.oneofs)}
        return tuple(self._field(field, oneofs) for field in message.fields)

    def _field(self, field: Any, oneofs: dict[str, int]) -> Field:
        if _is_required(field):
            self.is_readable = False
        oneof = -1 if field.containing_oneof is None else oneofs[field.containing_oneof.full_name]
        made = Field(field.name, field.number, ProtobufOp.OTHER, is_repeated(field), field.has_presence, oneof)
        if field.message_type is None:
            return made._replace(op=OPS.get(field.type, ProtobufOp.OTHER), texts=_names(field))
        name = field.message_type.full_name
        if name == TIMESTAMP:
            return made._replace(op=ProtobufOp.TIMESTAMP)
        if is_map(field) or name == DURATION or name in WRAPPERS:
            return made
        return made._replace(op=ProtobufOp.MESSAGE, children=self._fields(field.message_type))


def _is_required(field: Any) -> bool:
    found = getattr(field, "is_required", None)  # older releases of protobuf know labels only
    return bool(field.label == REQUIRED if found is None else found)


def _names(field: Any) -> tuple[bytes, ...]:
    if field.type != ENUM:
        return ()
    names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
    last = max((number for number in names if number < ENUM_MAX), default=-1)
    return tuple(names.get(number, "").encode() for number in range(last + 1))


class _NotPlainError(ValueError):
    """The library is to read this message."""


class ProtobufColumns:
    """Reads columns of messages with one plan; made once for many."""

    def __init__(self, plan: ProtobufPlan) -> None:
        self._plan = plan

    def read(self, column: pa.Array, skipped_bytes: int = 0) -> pa.Array:
        """The rows of a column of bytes, without so many at the front of each."""
        rows = [None if content is None else self._row(content, skipped_bytes) for content in column.to_pylist()]
        return pa.array(rows, type=self._plan.kind)

    def _row(self, content: bytes, skipped_bytes: int) -> dict[str, Any] | None:
        if not self._plan.is_readable or len(content) < skipped_bytes:
            return None
        try:
            return _message(self._plan.fields, _Wire(content[skipped_bytes:]), 0)
        except _NotPlainError:
            return None


class _Wire:
    """The bytes of a message, read from the left."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def is_read(self) -> bool:
        return self._at == len(self._content)

    def take(self, count: int) -> bytes:
        if count > len(self._content) - self._at:
            raise _NotPlainError
        self._at += count
        return self._content[self._at - count : self._at]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80 and value < 1 << 64:
                return value
        raise _NotPlainError

    def tag(self) -> tuple[int, int]:
        """The number of a field, and its wire type."""
        tag = self.varint()
        if not 1 <= tag >> 3 <= FIELD_NUMBER_MAX:
            raise _NotPlainError
        return tag >> 3, tag & 7

    def sized(self) -> _Wire:
        return _Wire(self.take(self.varint()))

    def skip(self, wire_type: int) -> None:
        if wire_type == VARINT:
            self.varint()
        elif wire_type == SIZED:
            self.sized()
        elif wire_type in (BITS_32, BITS_64):
            self.take(4 if wire_type == BITS_32 else 8)
        else:
            raise _NotPlainError


def _message(fields: tuple[Field, ...], wire: _Wire, depth: int) -> dict[str, Any]:
    if depth > DEPTH_MAX:
        raise _NotPlainError
    by_number = {field.number: field for field in fields}
    values: dict[str, Any] = {}
    oneofs: set[int] = set()
    while not wire.is_read():
        number, wire_type = wire.tag()
        field = by_number.get(number)
        if field is None:
            wire.skip(wire_type)
        elif field.op is ProtobufOp.OTHER:
            raise _NotPlainError
        elif field.is_repeated:
            values.setdefault(field.name, []).extend(_items(field, wire_type, wire, depth))
        elif field.name in values or field.oneof in oneofs or wire_type != WIRE_TYPES[field.op]:
            raise _NotPlainError
        else:
            values[field.name] = _value(field, wire, depth)
            oneofs |= {field.oneof} - {-1}
    return {field.name: values[field.name] if field.name in values else _missing(field) for field in fields}


def _missing(field: Field) -> Any:
    if field.is_repeated:
        return []
    if field.may_miss:
        return None
    if field.op is not ProtobufOp.ENUM:
        return ZEROS[field.op]
    if not field.texts or not field.texts[0]:
        raise _NotPlainError
    return field.texts[0].decode()


def _items(field: Field, wire_type: int, wire: _Wire, depth: int) -> list[Any]:
    """One value of a repeated field, or some that are packed."""
    if wire_type == WIRE_TYPES[field.op]:
        return [_value(field, wire, depth)]
    if wire_type != SIZED:
        raise _NotPlainError
    packed, found = wire.sized(), []
    while not packed.is_read():
        found.append(_value(field, packed, depth))
    return found


def _value(field: Field, wire: _Wire, depth: int) -> Any:
    match field.op:
        case ProtobufOp.DOUBLE:
            return struct.unpack("<d", wire.take(8))[0]
        case ProtobufOp.FLOAT:
            return struct.unpack("<f", wire.take(4))[0]
        case ProtobufOp.FIXED32 | ProtobufOp.SFIXED32:
            return int.from_bytes(wire.take(4), "little", signed=field.op is ProtobufOp.SFIXED32)
        case ProtobufOp.FIXED64 | ProtobufOp.SFIXED64:
            return int.from_bytes(wire.take(8), "little", signed=field.op is ProtobufOp.SFIXED64)
        case ProtobufOp.STRING:
            return _text(wire.take(wire.varint()))
        case ProtobufOp.BYTES:
            return wire.take(wire.varint())
        case ProtobufOp.MESSAGE:
            return _message(field.children, wire.sized(), depth + 1)
        case ProtobufOp.TIMESTAMP:
            return _timestamp(wire.sized())
    return _number(field, wire.varint())


def _number(field: Field, value: int) -> Any:
    signed = value - (1 << 64) if value >> 63 else value
    folded = value >> 1 ^ -(value & 1)
    match field.op:
        case ProtobufOp.INT64:
            return signed
        case ProtobufOp.UINT64:
            return value
        case ProtobufOp.SINT64:
            return folded
        case ProtobufOp.INT32 if -(1 << 31) <= signed < 1 << 31:
            return signed
        case ProtobufOp.UINT32 if value < 1 << 32:
            return value
        case ProtobufOp.SINT32 if value < 1 << 32:
            return folded
        case ProtobufOp.BOOL if value < 2:
            return value == 1
        case ProtobufOp.ENUM if value < len(field.texts) and field.texts[value]:
            return field.texts[value].decode()
    raise _NotPlainError


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _NotPlainError from None


SECONDS: Final = Field("seconds", 1, ProtobufOp.INT64)
NANOS: Final = Field("nanos", 2, ProtobufOp.INT32)


def _timestamp(wire: _Wire) -> Any:
    parts = _message((SECONDS, NANOS), wire, 0)
    seconds, nanos = parts["seconds"], parts["nanos"]
    micros = seconds * 1_000_000 + nanos // 1_000
    if not 0 <= nanos < 1_000_000_000 or not FIRST_MICRO <= micros <= LAST_MICRO:
        raise _NotPlainError
    return EPOCH + datetime.timedelta(microseconds=micros)
