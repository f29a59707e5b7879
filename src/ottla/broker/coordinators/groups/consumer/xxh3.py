"""XXH3, 64 bits, without a seed: the hash that Kafka 4.1 and later keep with a group to see that its topics changed.

A group that comes from a Kafka broker, or goes to one, is reassigned for nothing if the hashes differ; so it is this
function and no other. The algorithm is public (Collet, xxHash); the numbers below are its constants. It is called once
per subscribed topic when topics change, never per heartbeat.
"""

from __future__ import annotations

import struct
from typing import Final

MASK: Final = (1 << 64) - 1

PRIME32_1: Final = 0x9E3779B1
PRIME32_2: Final = 0x85EBCA77
PRIME32_3: Final = 0xC2B2AE3D
PRIME64_1: Final = 0x9E3779B185EBCA87
PRIME64_2: Final = 0xC2B2AE3D27D4EB4F
PRIME64_3: Final = 0x165667B19E3779F9
PRIME64_4: Final = 0x85EBCA77C2B2AE63
PRIME64_5: Final = 0x27D4EB2F165667C5
PRIME_MX1: Final = 0x165667919E3779F9
PRIME_MX2: Final = 0x9FB21C651E98DF25

SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)

STRIPE_BYTES: Final = 64
SECRET_STEP: Final = 8
STRIPES_PER_BLOCK: Final = (len(SECRET) + 1 - STRIPE_BYTES) // SECRET_STEP
START: Final = (PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1)


def hash64(data: bytes) -> int:
    """The hash as Java keeps it: a signed 64-bit number."""
    size = len(data)
    if size <= 16:
        found = _short(data)
    elif size <= 128:
        found = _up_to_128(data)
    elif size <= 240:
        found = _up_to_240(data)
    else:
        found = _long(data)
    return found - (1 << 64) if found >> 63 else found


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(a: int, b: int) -> int:
    """The product of two 64-bit numbers, its halves over each other."""
    product = a * b
    return (product ^ (product >> 64)) & MASK


def _avalanche(h: int) -> int:
    h ^= h >> 37
    h = h * PRIME_MX1 & MASK
    return h ^ (h >> 32)


def _avalanche_xxh64(h: int) -> int:
    h ^= h >> 33
    h = h * PRIME64_2 & MASK
    h ^= h >> 29
    h = h * PRIME64_3 & MASK
    return h ^ (h >> 32)


def _turn(h: int, bits: int) -> int:
    return (h << bits | h >> (64 - bits)) & MASK


def _short(data: bytes) -> int:
    size = len(data)
    if size > 8:
        low = _u64(data, 0) ^ _u64(SECRET, 24) ^ _u64(SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(SECRET, 40) ^ _u64(SECRET, 48)
        turned = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + turned + high + _fold(low, high)) & MASK)
    if size >= 4:
        both = _u32(data, size - 4) | _u32(data, 0) << 32
        h = both ^ _u64(SECRET, 8) ^ _u64(SECRET, 16)
        h ^= _turn(h, 49) ^ _turn(h, 24)
        h = h * PRIME_MX2 & MASK
        h ^= (h >> 35) + size
        h = h * PRIME_MX2 & MASK
        return h ^ (h >> 28)
    if size:
        mixed = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _avalanche_xxh64(mixed ^ _u32(SECRET, 0) ^ _u32(SECRET, 4))
    return _avalanche_xxh64(_u64(SECRET, 56) ^ _u64(SECRET, 64))


def _mix16(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(SECRET, secret_at), _u64(data, at + 8) ^ _u64(SECRET, secret_at + 8))


def _up_to_128(data: bytes) -> int:
    size = len(data)
    h = size * PRIME64_1
    for pair in range((size - 1) // 32, -1, -1):
        h += _mix16(data, pair * 16, pair * 32) + _mix16(data, size - 16 - pair * 16, pair * 32 + 16)
    return _avalanche(h & MASK)


def _up_to_240(data: bytes) -> int:
    size = len(data)
    h = size * PRIME64_1 + sum(_mix16(data, at, at) for at in range(0, 128, 16))
    h = _avalanche(h & MASK)
    h += sum(_mix16(data, at, at - 125) for at in range(128, size - size % 16, 16))
    h += _mix16(data, size - 16, 136 - 17)
    return _avalanche(h & MASK)


def _long(data: bytes) -> int:
    size = len(data)
    lanes = list(START)
    for stripe in range((size - 1) // STRIPE_BYTES):
        in_block = stripe % STRIPES_PER_BLOCK
        _accumulate(lanes, data, stripe * STRIPE_BYTES, in_block * SECRET_STEP)
        if in_block == STRIPES_PER_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, size - STRIPE_BYTES, len(SECRET) - STRIPE_BYTES - 7)
    return _merge(lanes, size)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    values = struct.unpack_from("<8Q", data, at)
    keys = struct.unpack_from("<8Q", SECRET, secret_at)
    for lane in range(8):
        key = values[lane] ^ keys[lane]
        lanes[lane ^ 1] += values[lane]
        lanes[lane] = (lanes[lane] + (key & 0xFFFFFFFF) * (key >> 32)) & MASK
    for lane in range(8):
        lanes[lane] &= MASK


def _scramble(lanes: list[int]) -> None:
    keys = struct.unpack_from("<8Q", SECRET, len(SECRET) - STRIPE_BYTES)
    for lane in range(8):
        value = lanes[lane]
        lanes[lane] = (value ^ value >> 47 ^ keys[lane]) * PRIME32_1 & MASK


def _merge(lanes: list[int], size: int) -> int:
    h = size * PRIME64_1 & MASK
    for pair in range(4):
        at = 11 + pair * 16
        h += _fold(lanes[2 * pair] ^ _u64(SECRET, at), lanes[2 * pair + 1] ^ _u64(SECRET, at + 8))
    return _avalanche(h & MASK)
