"""How a record names its schema: Confluent's wire format.

    byte  0      0, the magic byte
    bytes 1-4    the id of the schema, big-endian
    Protobuf     which message of the file: a count and the indexes from the outside in, as zigzag varints;
                 a single 0 stands for the first message
    then         the record in its own form

With magic byte 1 a GUID of 16 bytes stands in place of the id; Confluent's serializers write that in a header when they
are asked to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAGIC: Final = 0
FRAME_BYTES: Final = 5
INDEXES_MAX: Final = 64
_LONGEST_VARINT: Final = 5


class UnframedRecord(ValueError):
    """A record does not begin as records of a schema registry do."""


def frame(schema_id: int) -> bytes:
    """What stands before a record of this schema."""
    return b"\0" + schema_id.to_bytes(4, "big")


def schema_id_of(record: bytes | memoryview) -> int:
    """The id of the schema that wrote this record."""
    if len(record) < FRAME_BYTES:
        raise UnframedRecord(f"it has {len(record)} bytes, fewer than the {FRAME_BYTES} that name its schema")
    if record[0] != MAGIC:
        raise UnframedRecord(f"it begins with byte {record[0]}, not with 0 and the id of a schema")
    return int.from_bytes(record[1:FRAME_BYTES], "big")


def write_indexes(indexes: Sequence[int]) -> bytes:
    """Which message of a Protobuf file: (0,) is its first, (1, 2) the third inside its second."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(_varint(each) for each in (len(indexes), *indexes))


def read_indexes(record: bytes, position: int = FRAME_BYTES) -> tuple[tuple[int, ...], int]:
    """The indexes that stand at this position, and where the message begins."""
    count, position = _read_varint(record, position)
    if count == 0:
        return (0,), position
    if not 0 < count <= INDEXES_MAX:
        raise UnframedRecord(f"it names a message by {count} indexes")
    found = []
    for _ in range(count):
        index, position = _read_varint(record, position)
        if index < 0:
            raise UnframedRecord("it names a message by a negative index")
        found.append(index)
    return tuple(found), position


def _varint(value: int) -> bytes:
    left, made = value << 1, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)


def _read_varint(record: bytes, position: int) -> tuple[int, int]:
    raw = 0
    for shift in range(0, 7 * _LONGEST_VARINT, 7):
        if position >= len(record):
            raise UnframedRecord("it ends within the indexes of its message")
        byte = record[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw >> 1 ^ -(raw & 1), position
    raise UnframedRecord("an index of its message is too long")
