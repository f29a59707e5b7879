"""Which partition a key belongs to: murmur2, bit for bit as Java's producer computes it.

1. The same key goes to the same partition as with any client that follows Java's default partitioner.
2. `murmur2` returns a signed 32-bit number, as Java's int; `to_positive` drops the sign bit, as Java does it
   (not abs: abs of the smallest int is negative in Java, and other keys would move).

This is the readable twin; the native codec has its own.
"""

import struct

__all__ = ["murmur2", "partition_for_key", "to_positive"]

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
MASK = 0xFFFFFFFF

_words_le = struct.Struct("<I")


def murmur2(data: bytes | bytearray | memoryview) -> int:
    """MurmurHash2 of `data` with Java's seed, as a signed 32-bit number."""
    view = memoryview(data).cast("B")
    whole = len(view) - len(view) % 4
    register = SEED ^ len(view)
    for (word,) in _words_le.iter_unpack(view[:whole]):
        word = word * MULTIPLIER & MASK
        word = (word ^ word >> 24) * MULTIPLIER & MASK
        register = (register * MULTIPLIER & MASK) ^ word
    if whole < len(view):
        register = (register ^ int.from_bytes(view[whole:], "little")) * MULTIPLIER & MASK
    register = (register ^ register >> 13) * MULTIPLIER & MASK
    register ^= register >> 15
    return register - (1 << 32) if register >> 31 else register


def to_positive(number: int) -> int:
    """`number` without its sign bit."""
    return number & 0x7FFFFFFF


def partition_for_key(key: bytes | bytearray | memoryview, partition_count: int) -> int:
    """The partition of 0 to `partition_count` - 1 that holds `key`."""
    if partition_count < 1:
        raise ValueError(f"a key cannot be placed on {partition_count} partitions; a topic has at least one")
    return to_positive(murmur2(key)) % partition_count
