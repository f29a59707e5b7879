"""Calls that wait until a partition has committed up to an offset: markers, and whatever else is not a request.

Everybody who waits is told once: without an error when the offset is committed, with one when it cannot be any more,
because the partition's disk failed or the partition is gone from this broker.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import TypeAlias

from ottla.broker.replication.partition import Partition
from ottla.errors import BrokerError, NotLeaderOrFollower
from ottla.values import TopicPartition

Told: TypeAlias = Callable[[BrokerError | None], None]


class Commits:
    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, list[tuple[int, int, Told]]] = {}
        self._numbers = itertools.count()

    def when_committed(self, partition: Partition, next_offset: int, told: Told) -> None:
        if partition.high_watermark >= next_offset:
            told(None)
        elif partition.offline is not None:
            told(partition.offline)
        else:
            heapq.heappush(self._waiting.setdefault(partition.name, []), (next_offset, next(self._numbers), told))

    def moved(self, partition: Partition) -> None:
        """The high watermark of this partition moved, or its disk failed."""
        waiting = self._waiting.get(partition.name)
        while waiting and waiting[0][0] <= partition.high_watermark:
            heapq.heappop(waiting)[2](None)
        if partition.offline is not None:
            self._refuse(partition.name, partition.offline)
        elif waiting is not None and not waiting:
            self._waiting.pop(partition.name, None)

    def forget(self, name: TopicPartition) -> None:
        """The partition is gone from here."""
        self._refuse(name, NotLeaderOrFollower(f"{name} is not on this broker any more"))

    def _refuse(self, name: TopicPartition, error: BrokerError) -> None:
        for _, _, told in sorted(self._waiting.pop(name, ()), key=lambda each: each[:2]):
            told(error)
