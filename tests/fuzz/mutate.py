"""Small lies about valid bytes: what a broken peer, a bad disk or an attacker would send."""

import random

# Lengths that broke other people's decoders.
ABSURD = [
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\x7f\xff",
    b"\x80\x00",
]


def mutate(data: bytes, source: random.Random) -> bytes:
    """One to three random changes."""
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        data = source.choice(_CHANGES)(data, source)
    return data


def _flip_a_bit(data: bytes, source: random.Random) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[source.randrange(len(data))] ^= 1 << source.randrange(8)
    return bytes(changed)


def _set_a_byte(data: bytes, source: random.Random) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[source.randrange(len(data))] = source.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF))
    return bytes(changed)


def _cut(data: bytes, source: random.Random) -> bytes:
    return data[: source.randrange(len(data) + 1)]


def _insert(data: bytes, source: random.Random) -> bytes:
    at = source.randrange(len(data) + 1)
    return data[:at] + source.randbytes(source.randrange(1, 9)) + data[at:]


def _put_an_absurd_length(data: bytes, source: random.Random) -> bytes:
    lie = source.choice(ABSURD)
    at = source.randrange(len(data) + 1)
    return data[:at] + lie + data[at + len(lie) :]


def _repeat(data: bytes, source: random.Random) -> bytes:
    start = source.randrange(len(data) + 1)
    stop = source.randrange(start, min(len(data), start + 64) + 1)
    return data[:stop] + data[start:]


_CHANGES = [_flip_a_bit, _set_a_byte, _cut, _insert, _put_an_absurd_length, _repeat]
