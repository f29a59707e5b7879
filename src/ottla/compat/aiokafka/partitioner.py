"""aiokafka.partitioner: the default rule, callable as (key, all partitions, available partitions)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ottla.records import murmur2

__all__ = ["DefaultPartitioner", "murmur2"]


class DefaultPartitioner:
    """murmur2 of the key; anywhere without one."""

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        if key is None:
            return random.choice(list(available) or list(all_partitions))
        return all_partitions[(murmur2(key) & 0x7FFFFFFF) % len(all_partitions)]
