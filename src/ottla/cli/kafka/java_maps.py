"""The order in which Java's HashMap gives its keys, because Apache's tools print in it.

    hash_order(["retention.ms", "cleanup.policy", "segment.bytes"])

Sorted output would be as good for people; a script that compares two files would see differences that are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.values import TopicPartition

T = TypeVar("T")
SMALLEST: Final = 16
LOAD: Final = 0.75


def string_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned number of 32 bits."""
    found = 0
    data = text.encode("utf-16-be")
    for high, low in zip(data[::2], data[1::2], strict=True):
        found = (31 * found + (high << 8 | low)) & 0xFFFFFFFF
    return found


def partition_hash(partition: TopicPartition) -> int:
    """Java's TopicPartition.hashCode."""
    return (31 * (31 + partition.partition) + string_hash(partition.topic)) & 0xFFFFFFFF


def hash_order(names: Iterable[str], capacity: int = SMALLEST) -> list[str]:
    """Strings as a HashMap made for `capacity` gives them back."""
    return _ordered(names, string_hash, capacity)


def partition_order(partitions: Iterable[TopicPartition], capacity: int = SMALLEST) -> list[TopicPartition]:
    return _ordered(partitions, partition_hash, capacity)


def _ordered(keys: Iterable[T], hash_of: Callable[[T], int], capacity: int) -> list[T]:
    wanted = list(dict.fromkeys(keys))
    size = 1 << max(capacity - 1, 0).bit_length()
    while len(wanted) > size * LOAD:
        size *= 2
    return sorted(wanted, key=lambda key: _bucket(hash_of(key), size))  # stable: within a bucket as they came


def _bucket(hashed: int, size: int) -> int:
    return (hashed ^ hashed >> 16) & (size - 1)
