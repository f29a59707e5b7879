"""librdkafka's partitioners, by its names: the same key goes to the same partition as with confluent-kafka.

1. consistent is CRC-32 (of zlib), murmur2 is Java's, fnv1a is Sarama's (the absolute value of a signed hash).
2. The `_random` ones leave records without a key to the client (sticky, by chance); for consistent_random an empty key
   is no key, for the other two it is one.
3. `consistent`, `murmur2` and `fnv1a` are also functions of the package: (key, partition_count).
"""

from __future__ import annotations

import random as chance
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.client.producer.partitioner import BUILT_IN, Partitioner
from ottla.records import murmur2 as murmur2_hash

_PRIME: Final = 0x01000193
_OFFSET: Final = 0x811C9DC5
_BITS: Final = 0xFFFFFFFF


def _crc32(key: bytes) -> int:
    return zlib.crc32(key)


def _murmur2(key: bytes) -> int:
    return murmur2_hash(key) & 0x7FFFFFFF


def _fnv1a(key: bytes) -> int:
    found = _OFFSET
    for each in key:
        found = (found ^ each) * _PRIME & _BITS
    return found if found < 1 << 31 else (1 << 32) - found


def _checked(key: Any, partition_count: Any) -> bytes:
    data = memoryview(key).tobytes() if not isinstance(key, bytes) else key
    if not isinstance(partition_count, int):
        raise TypeError(f"'{type(partition_count).__name__}' object cannot be interpreted as an integer")
    if partition_count <= 0:
        raise ValueError(f"partition_count must be > 0, got {partition_count}")
    return data


def murmur2(key: bytes, partition_count: int) -> int:
    """Where Java's rule puts this key."""
    return _murmur2(_checked(key, partition_count)) % partition_count


def consistent(key: bytes, partition_count: int) -> int:
    """Where CRC-32 puts this key: librdkafka's default."""
    return _crc32(_checked(key, partition_count)) % partition_count


def fnv1a(key: bytes, partition_count: int) -> int:
    """Where Sarama's rule puts this key."""
    return _fnv1a(_checked(key, partition_count)) % partition_count


def _always(hashed: Callable[[bytes], int]) -> Partitioner:
    def choose(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        return partitions[hashed(key or b"") % len(partitions)]

    return choose


def _keyed(hashed: Callable[[bytes], int], *, empty_is_a_key: bool) -> Partitioner:
    def choose(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        if key is None or (not key and not empty_is_a_key):
            return BUILT_IN
        return partitions[hashed(key) % len(partitions)]

    return choose


def _random(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
    return BUILT_IN if key is None else chance.choice(available or partitions)


PARTITIONERS: Final[dict[str, Partitioner]] = {
    "random": _random,
    "consistent": _always(_crc32),
    "consistent_random": _keyed(_crc32, empty_is_a_key=False),
    "murmur2": _always(_murmur2),
    "murmur2_random": _keyed(_murmur2, empty_is_a_key=True),
    "fnv1a": _always(_fnv1a),
    "fnv1a_random": _keyed(_fnv1a, empty_is_a_key=True),
}
