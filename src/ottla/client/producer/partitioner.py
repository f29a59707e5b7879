"""Which partition a record goes to, when the record does not say so itself.

1. A key decides by murmur2, as in Java: the same key goes to the same partition from any client. (The hot path does it
   in topic_state.py; `partitioner.ignore.keys` turns it off.)
2. Records without a key stick to one partition for batch.size bytes, then move on, so that batches fill up (KIP-480).
3. Where they move on to is drawn by chance, and partitions with shorter queues have more chances (KIP-794): a slow
   broker gets less. The lengths are those of the moment; with adaptive partitioning off the chances are equal.
4. A partition whose leader did not take a batch for `partitioner.availability.timeout.ms` has no chance at all.

Chance comes in as an argument. A partitioner of the user's own (`partitioner.class`) is called with
(key bytes, all partitions, available partitions), kafka-python's way.
"""

from __future__ import annotations

import bisect
import itertools
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from ottla.records import murmur2

Partitioner: TypeAlias = Callable[[bytes | None, Sequence[int], Sequence[int]], int]


class Chance(Protocol):
    """The part of random.Random that we need."""

    def random(self) -> float:
        """A number from 0 up to but not including 1."""


def next_partition(waiting: Mapping[int, int], available: Sequence[int], partition_count: int, chance: Chance) -> int:
    """Where records without a key go next: among those with a leader if there are any, else anywhere. `waiting` are
    the lengths of the queues that are not empty; only they are walked, however many partitions there are."""
    among: Sequence[int] = available or range(partition_count)
    whole = max(waiting.values(), default=0) + 1  # the chances of a partition with nothing in its queue
    places = sorted(
        (place, whole - length)
        for partition, length in waiting.items()
        if (place := bisect.bisect_left(among, partition)) < len(among) and among[place] == partition
    )
    point = int(chance.random() * (whole * (len(among) - len(places)) + sum(chances for _, chances in places)))
    for place, chances in places:
        if point < chances:
            return among[place]
        point -= chances
    index = point // whole  # of one that nothing waits for: step over the others
    for place, _ in places:
        index += place <= index
    return among[index]


# --- partitioners by name: what librdkafka calls them -----------------------------------------------------------------


def murmur2_partition(key: bytes, partition_count: int) -> int:
    """Where every Kafka client with Java's rule puts this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def _murmur2(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
    return partitions[murmur2_partition(key or b"", len(partitions))]


def _consistent(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
    return partitions[zlib.crc32(key or b"") % len(partitions)]


class RoundRobin:
    """One after the other, keys or not."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def __call__(self, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        among = available or partitions
        return among[next(self._count) % len(among)]


class KeyedOr:
    """A rule for keys; records without one go where the built-in rule says (-1)."""

    def __init__(self, keyed: Partitioner) -> None:
        self._keyed = keyed

    def __call__(self, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        return BUILT_IN if key is None else self._keyed(key, partitions, available)


BUILT_IN: Final = -1
"""What a partitioner gives to leave the choice to the built-in rule."""


def built_in(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
    """murmur2 of the key, and sticky without one: the default. The hot path knows it and does not call it."""
    return BUILT_IN if key is None else _murmur2(key, partitions, available)


NAMED: Final[Mapping[str, Partitioner]] = {
    "murmur2_random": built_in,
    "default": built_in,
    "murmur2": _murmur2,
    "consistent": _consistent,
    "consistent_random": KeyedOr(_consistent),
    "round_robin": RoundRobin(),
}
