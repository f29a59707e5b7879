"""What messages of Protobuf are in Spark; their values are made by ottla.schemas.protobuf.values.

    Protobuf                                Spark
    bool, string, bytes, double, float      the same
    int32, sint32, sfixed32                 int
    uint32, fixed32, int64, sint64, ...     bigint
    uint64, fixed64                         decimal(20,0)
    enum                                    string, its name; a number without a name is written in digits
    message, repeated, map                  struct, array, map
    google.protobuf.Timestamp, Duration     timestamp, interval day to second
    google.protobuf.StringValue, ...        what is wrapped

1. A field that may be missing (optional, in a oneof, a message) is NULL when it is; others have their default.
2. A message inside itself has no type in Spark and is refused (google.protobuf.Struct is one).
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.errors import OttlaError
from ottla.schemas.protobuf.values import DURATION, ENUM, TIMESTAMP, WRAPPERS, is_map, is_repeated

TYPES: Final[dict[int, DataType]] = {
    1: DoubleType(),
    2: FloatType(),
    **dict.fromkeys((5, 15, 17), IntegerType()),
    **dict.fromkeys((3, 16, 18, 7, 13), LongType()),
    **dict.fromkeys((4, 6), DecimalType(20, 0)),
    8: BooleanType(),
    9: StringType(),
    12: BinaryType(),
    ENUM: StringType(),
}


class UnreadableProtobufSchema(OttlaError):
    """A Protobuf schema has no type in Spark, or is none. Choose another message (valueMessage), or read binary."""


def spark_type(message: Any, around: tuple[str, ...] = ()) -> StructType:
    """What a message is in Spark."""
    if message.full_name in around:
        raise UnreadableProtobufSchema(f"{message.full_name} contains itself")
    inside = (*around, message.full_name)
    return StructType([StructField(each.name, _field_type(each, inside)) for each in message.fields])


def _field_type(field: Any, around: tuple[str, ...]) -> DataType:
    if is_map(field):
        key, value = field.message_type.fields
        return MapType(_single_type(key, around), _single_type(value, around))
    found = _single_type(field, around)
    return ArrayType(found) if is_repeated(field) else found


def _single_type(field: Any, around: tuple[str, ...]) -> DataType:
    if field.message_type is None:
        return TYPES[field.type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return TimestampType()
    if name == DURATION:
        return DayTimeIntervalType()
    if name in WRAPPERS:
        return TYPES[field.message_type.fields[0].type]
    return spark_type(field.message_type, around)
