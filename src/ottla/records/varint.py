"""Zig-zag varints, the readable twin.

Small numbers of either sign take few bytes: 0, -1, 1, -2 become 0, 1, 2, 3, and those are written seven bits
at a time, lowest first, with the top bit of each byte saying that more follow.

1. A varint holds an int32 in at most 5 bytes, a varlong an int64 in at most 10.
2. Reading is strict: running off the end, a byte too many or a bit too many is CorruptMessage.
3. Longer forms than needed (0x80 0x00 for 0) are read, as Java reads them, but never written.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.errors import CorruptMessage

# Nearly all varints of a batch are one byte long; these are all of them, by value and by byte.
_ONE_BYTE = {(zigzag >> 1) ^ -(zigzag & 1): bytes((zigzag,)) for zigzag in range(0x80)}
_FROM_ONE_BYTE = tuple(_ONE_BYTE)


def encode_varint(value: int) -> bytes:
    """An int32 as bytes."""
    if (encoded := _ONE_BYTE.get(value)) is not None:
        return encoded
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"{value} does not fit in a varint: it holds 32 bits")
    return _encode((value << 1) ^ (value >> 31))


def encode_varlong(value: int) -> bytes:
    """An int64 as bytes."""
    if (encoded := _ONE_BYTE.get(value)) is not None:
        return encoded
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{value} does not fit in a varlong: it holds 64 bits")
    return _encode((value << 1) ^ (value >> 63))


def decode_varint(data: Sequence[int], position: int = 0) -> tuple[int, int]:
    """The int32 at `position`, and the position after it."""
    if position < len(data) and (byte := data[position]) < 0x80:
        return _FROM_ONE_BYTE[byte], position + 1
    return _decode(data, position, 32)


def decode_varlong(data: Sequence[int], position: int = 0) -> tuple[int, int]:
    """The int64 at `position`, and the position after it."""
    if position < len(data) and (byte := data[position]) < 0x80:
        return _FROM_ONE_BYTE[byte], position + 1
    return _decode(data, position, 64)


def varint_size(value: int) -> int:
    """How many bytes `value` takes, as varint or as varlong."""
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    return max(1, (zigzag.bit_length() + 6) // 7)


def _encode(zigzag: int) -> bytes:
    if zigzag < 1 << 14:
        return bytes((zigzag & 0x7F | 0x80, zigzag >> 7))
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _decode(data: Sequence[int], position: int, bits: int) -> tuple[int, int]:
    zigzag = shift = 0
    end = len(data)
    while shift < bits:
        if position >= end:
            raise CorruptMessage(f"a varint runs over the end of its record at byte {position}")
        byte = data[position]
        position += 1
        if byte < 0x80:
            zigzag |= byte << shift
            if zigzag >> bits:
                break
            return (zigzag >> 1) ^ -(zigzag & 1), position
        zigzag |= (byte & 0x7F) << shift
        shift += 7
    raise CorruptMessage(f"the varint that ends at byte {position} has more than {bits} bits")
