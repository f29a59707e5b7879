"""Which columns messages of Protobuf are; their values are made by ottla.schemas.protobuf.values.

    Protobuf                                Arrow
    bool, string, bytes, double, float      the same
    int32, sint32, sfixed32                 int32
    uint32, fixed32, int64, sint64, ...     int64
    uint64, fixed64                         decimal128(20, 0)
    enum                                    string, its name; a number without a name is written in digits
    message, repeated, map                  struct, list, map
    google.protobuf.Timestamp, Duration     timestamp[us, UTC], duration[us]
    google.protobuf.StringValue, ...        what is wrapped

1. A field that may be missing (optional, in a oneof, a message) is null when it is; others have their default.
2. A message inside itself has no columns and is refused (google.protobuf.Struct is one).
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from ottla.errors import OttlaError
from ottla.schemas.protobuf.values import DURATION, ENUM, TIMESTAMP, WRAPPERS, is_map, is_repeated

TYPES: Final[dict[int, pa.DataType]] = {
    1: pa.float64(),
    2: pa.float32(),
    **dict.fromkeys((5, 15, 17), pa.int32()),
    **dict.fromkeys((3, 16, 18, 7, 13), pa.int64()),
    **dict.fromkeys((4, 6), pa.decimal128(20, 0)),
    8: pa.bool_(),
    9: pa.string(),
    12: pa.binary(),
    ENUM: pa.string(),
}


class UnreadableProtobufSchema(OttlaError):
    """A Protobuf schema has no columns, or is none. Choose another message (valueMessage), or read binary."""


def arrow_type(message: Any, around: tuple[str, ...] = ()) -> pa.StructType:
    """The struct that a message is."""
    if message.full_name in around:
        raise UnreadableProtobufSchema(f"{message.full_name} contains itself")
    inside = (*around, message.full_name)
    return pa.struct([(field.name, _field_type(field, inside)) for field in message.fields])


def _field_type(field: Any, around: tuple[str, ...]) -> pa.DataType:
    if is_map(field):
        key, value = field.message_type.fields
        return pa.map_(_single_type(key, around), _single_type(value, around))
    found = _single_type(field, around)
    return pa.list_(found) if is_repeated(field) else found


def _single_type(field: Any, around: tuple[str, ...]) -> pa.DataType:
    if field.message_type is None:
        return TYPES[field.type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return pa.timestamp("us", tz="UTC")
    if name == DURATION:
        return pa.duration("us")
    if name in WRAPPERS:
        return TYPES[field.message_type.fields[0].type]
    return arrow_type(field.message_type, around)
