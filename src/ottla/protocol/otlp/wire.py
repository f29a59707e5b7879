"""Protobuf as bytes: fields with a number and a kind, and nothing that is generated.

    for number, value in fields(data): ...           # an int for a number, a view for bytes

1. Nothing is read beyond the end, and a message without an end is MalformedOtlp. A varint has at most ten bytes.
2. Views share the memory of what they were cut from; a field that nobody wants costs no copy.
3. Fixed numbers come as their bits; `as_double` and `as_signed` make values of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

Value: TypeAlias = "int | memoryview"

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
VARINT_BYTES_LIMIT: Final = 10
_DOUBLE: Final = struct.Struct("<d")
_BITS: Final = struct.Struct("<Q")
_SIGNED: Final = struct.Struct("<q")
_FIXED: Final = {FIXED64: 8, FIXED32: 4}


class MalformedOtlp(ValueError):
    """What a client pushed is no metrics; says why."""


def fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """The fields of one message in their order."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        value: Value
        if kind == VARINT:
            value, at = _varint(data, at)
        elif kind == BYTES:
            size, at = _varint(data, at)
            value, at = _cut(data, at, size), at + size
        elif kind in _FIXED:
            size = _FIXED[kind]
            value, at = int.from_bytes(_cut(data, at, size), "little"), at + size
        else:
            raise MalformedOtlp(f"field {number} is of the unknown kind {kind}")
        yield number, value


def _cut(data: memoryview, at: int, size: int) -> memoryview:
    if size > len(data) - at:
        raise MalformedOtlp(f"{size} bytes are announced, {len(data) - at} are left")
    return data[at : at + size]


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * VARINT_BYTES_LIMIT, 7):
        if at >= len(data):
            raise MalformedOtlp("a number has no end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise MalformedOtlp("a number is too long")


def as_double(bits: int) -> float:
    value: float = _DOUBLE.unpack(_BITS.pack(bits))[0]
    return value


def as_signed(bits: int) -> int:
    value: int = _SIGNED.unpack(_BITS.pack(bits & (2**64 - 1)))[0]
    return value


# --- writing ---------------------------------------------------------------------------------------------------------


def varint_field(number: int, value: int) -> bytes:
    return _write_varint(number << 3 | VARINT) + _write_varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    return _write_varint(number << 3 | BYTES) + _write_varint(len(value)) + value


def fixed_field(number: int, bits: int) -> bytes:
    return _write_varint(number << 3 | FIXED64) + _BITS.pack(bits)


def double_field(number: int, value: float) -> bytes:
    return _write_varint(number << 3 | FIXED64) + _DOUBLE.pack(value)


def _write_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
