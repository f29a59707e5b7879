"""`uniform` for a group whose members read different topics.

Perfect balance may not be possible, so it is approached as Kafka does:

1. Everybody keeps what they had and still read.
2. What nobody has goes to the reader with the fewest partitions, beginning with the topics that leave the least choice:
   most partitions per reader first, then fewest readers.
3. Then topics are balanced one after the other: partitions move from the reader with the most to the one with the
   fewest while they differ by two or more. A move may unbalance another topic's readers, so this is repeated until
   nothing moves, at most ROUND_LIMIT times.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from ottla.broker.coordinators.groups.consumer.assignors import GroupSpec, as_target, kept_partitions
from ottla.broker.coordinators.groups.consumer.member import Target

ROUND_LIMIT: Final = 16


def assign_uneven(spec: GroupSpec) -> dict[str, Target]:
    return _Balance(spec).assign()


class _Balance:
    def __init__(self, spec: GroupSpec) -> None:
        self._counts = spec.partition_counts
        self._readers: dict[bytes, list[str]] = {}
        for member_id, member in sorted(spec.members.items()):
            for topic_id in member.topics:
                self._readers.setdefault(topic_id, []).append(member_id)
        self._sizes = dict.fromkeys(spec.members, 0)
        # per topic and member its partitions, the last of which is the first to go
        self._has: dict[bytes, dict[str, list[int]]] = {topic_id: {} for topic_id in self._readers}
        for member_id, kept in kept_partitions(spec).items():
            for topic_id, partition in kept:
                self._assign(topic_id, partition, member_id)

    def assign(self) -> dict[str, Target]:
        topics = sorted(self._readers, key=self._least_choice_first)
        for topic_id in topics:
            self._share_out(topic_id)
        shared = [topic_id for topic_id in topics if len(self._readers[topic_id]) > 1]
        for _ in range(ROUND_LIMIT):
            if not sum(self._balance(topic_id) for topic_id in shared):
                break
        found: dict[str, list[tuple[bytes, int]]] = {member_id: [] for member_id in self._sizes}
        for topic_id, by_member in self._has.items():
            for member_id, partitions in by_member.items():
                found[member_id] += [(topic_id, partition) for partition in partitions]
        return {member_id: as_target(partitions) for member_id, partitions in found.items()}

    def _least_choice_first(self, topic_id: bytes) -> tuple[float, int, bytes]:
        readers = len(self._readers[topic_id])
        return (-self._counts[topic_id] / readers, readers, topic_id)

    def _assign(self, topic_id: bytes, partition: int, member_id: str) -> None:
        self._has[topic_id].setdefault(member_id, []).append(partition)
        self._sizes[member_id] += 1

    def _share_out(self, topic_id: bytes) -> None:
        assigned = {partition for partitions in self._has[topic_id].values() for partition in partitions}
        heap = [(self._sizes[member_id], member_id) for member_id in self._readers[topic_id]]
        heapify(heap)
        for partition in range(self._counts[topic_id]):
            if partition not in assigned:
                size, member_id = heappop(heap)
                self._assign(topic_id, partition, member_id)
                heappush(heap, (size + 1, member_id))

    def _balance(self, topic_id: bytes) -> int:
        """Returns how many partitions moved."""
        has, sizes = self._has[topic_id], self._sizes
        poor = [(sizes[member_id], member_id) for member_id in self._readers[topic_id]]
        rich = [(-sizes[member_id], member_id) for member_id in self._readers[topic_id] if has.get(member_id)]
        heapify(poor)
        heapify(rich)
        moves = 0
        while rich:
            negative, giver = heappop(rich)
            if not has.get(giver) or -negative != sizes[giver]:
                continue  # an entry from before a move
            while poor[0][0] != sizes[poor[0][1]]:
                heappop(poor)
            size, taker = poor[0]
            if sizes[giver] - size <= 1:
                break
            self._assign(topic_id, has[giver].pop(), taker)
            sizes[giver] -= 1
            moves += 1
            for member_id in (giver, taker):
                heappush(poor, (sizes[member_id], member_id))
                heappush(rich, (-sizes[member_id], member_id))
        return moves
