"""On which brokers the copies of partitions should be: a function of where they are, without a connection.

1. Every partition gets the wanted number of copies, on different brokers out of those that are allowed.
2. Copies stay where they are if they can: data moves only where a broker goes, copies are missing, or the load is
   uneven.
3. Copies of a partition are on as many racks as there can be, when all brokers have one.
4. In the end no broker has two copies more than another that could have taken one.
5. The leader stays first while it has a copy; leaders are spread by whoever leads least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ottla.values import TopicPartition

Assignment: TypeAlias = "dict[TopicPartition, list[int]]"


def placed(
    current: Mapping[TopicPartition, Sequence[int]], brokers: Mapping[int, str | None], replication: int | None = None
) -> Assignment:
    """New copies for each partition, the preferred leader first. `brokers` are those allowed, with their racks."""
    racks = brokers if all(rack is not None for rack in brokers.values()) else dict.fromkeys(brokers)
    placement = _Placement(current, racks)
    for partition in sorted(current):
        placement.fit(partition, len(current[partition]) if replication is None else replication)
    placement.even_out()
    placement.order_leaders(current)
    return placement.copies


class _Placement:
    def __init__(self, current: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, str | None]) -> None:
        self._racks = racks
        self.copies: Assignment = {
            partition: [each for each in replicas if each in racks] for partition, replicas in current.items()
        }
        self._load = dict.fromkeys(racks, 0)
        for replicas in self.copies.values():
            for each in replicas:
                self._load[each] += 1

    def fit(self, partition: TopicPartition, number: int) -> None:
        """As many copies as are wanted."""
        replicas = self.copies[partition]
        while len(replicas) > number:
            self._drop(replicas)
        while len(replicas) < number:
            self._add(replicas)

    def _drop(self, replicas: list[int]) -> None:
        """The copy whose rack has another one, on the broker that has most; the leader last."""
        gone = max(replicas[1:], key=lambda each: (self._shared(each, replicas), self._load[each], each))
        replicas.remove(gone)
        self._load[gone] -= 1

    def _add(self, replicas: list[int]) -> None:
        free = [each for each in self._racks if each not in replicas]
        added = min(free, key=lambda each: (self._shared(each, replicas), self._load[each], each))
        replicas.append(added)
        self._load[added] += 1

    def _shared(self, broker: int, replicas: Sequence[int]) -> int:
        """How many other copies are in the broker's rack; brokers without racks are each in one of their own."""
        rack = self._racks[broker]
        return 0 if rack is None else sum(self._racks[each] == rack for each in replicas if each != broker)

    def even_out(self) -> None:
        """Move copies from brokers that have most to those that have least, while racks allow it."""
        while any(self._move(high, low) for high, low in self._uneven()):
            pass

    def _uneven(self) -> list[tuple[int, int]]:
        pairs = [(high, low) for high in self._load for low in self._load if self._load[high] > self._load[low] + 1]
        return sorted(pairs, key=lambda pair: (self._load[pair[1]] - self._load[pair[0]], pair))

    def _move(self, high: int, low: int) -> bool:
        for partition in sorted(self.copies):
            replicas = self.copies[partition]
            if high not in replicas or low in replicas:
                continue
            others = [each for each in replicas if each != high]
            if self._shared(low, others) <= self._shared(high, others):
                replicas[replicas.index(high)] = low
                self._load[high] -= 1
                self._load[low] += 1
                return True
        return False

    def order_leaders(self, current: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Where the first copy is gone, another broker leads: the one that leads least."""
        leads = dict.fromkeys(self._racks, 0)
        moved = []
        for partition, replicas in sorted(self.copies.items()):
            if current[partition] and replicas[0] == current[partition][0]:
                leads[replicas[0]] += 1
            else:
                moved.append(replicas)
        for replicas in moved:
            first = min(replicas, key=lambda each: (leads[each], each))
            replicas.remove(first)
            replicas.insert(0, first)
            leads[first] += 1
