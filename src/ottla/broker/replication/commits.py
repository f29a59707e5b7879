"""Calls that wait until a partition has committed up to an offset: markers, and whatever else is not a request."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from ottla.broker.replication.partition import Partition
from ottla.values import TopicPartition


class Commits:
    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, list[tuple[int, int, Callable[[], None]]]] = {}
        self._numbers = itertools.count()

    def when_committed(self, partition: Partition, next_offset: int, call: Callable[[], None]) -> None:
        if partition.high_watermark >= next_offset:
            call()
            return
        heapq.heappush(self._waiting.setdefault(partition.name, []), (next_offset, next(self._numbers), call))

    def moved(self, partition: Partition) -> None:
        """The high watermark of this partition moved."""
        waiting = self._waiting.get(partition.name)
        while waiting and waiting[0][0] <= partition.high_watermark:
            heapq.heappop(waiting)[2]()
        if waiting is not None and not waiting:
            self._waiting.pop(partition.name, None)

    def forget(self, name: TopicPartition) -> None:
        """The partition is gone from here; whoever waited for it finds out by its own time-out."""
        self._waiting.pop(name, None)
