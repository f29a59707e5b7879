"""Waits until a partition has committed up to an offset: markers, and whatever else is not a request with a deadline.

    await commits.committed(partition, next_offset)

A waiter is resolved once: when the offset is committed, or with an error when it cannot be any more, because the
partition's disk failed or the partition is gone from this broker.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools

from ottla.broker.replication.partition import Partition
from ottla.errors import BrokerError, NotLeaderOrFollower
from ottla.values import TopicPartition


class Commits:
    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, list[tuple[int, int, asyncio.Future[None]]]] = {}
        self._numbers = itertools.count()

    def committed(self, partition: Partition, next_offset: int) -> asyncio.Future[None]:
        """Done when everything before `next_offset` is committed; raises when that cannot be any more."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if partition.high_watermark >= next_offset:
            future.set_result(None)
        elif partition.offline is not None:
            future.set_exception(partition.offline)
        else:
            heapq.heappush(self._waiting.setdefault(partition.name, []), (next_offset, next(self._numbers), future))
        return future

    def check(self, partition: Partition) -> None:
        """The high watermark of this partition moved, or its disk failed."""
        waiting = self._waiting.get(partition.name)
        while waiting and waiting[0][0] <= partition.high_watermark:
            future = heapq.heappop(waiting)[2]
            if not future.done():
                future.set_result(None)
        if partition.offline is not None:
            self._refuse(partition.name, partition.offline)
        elif waiting is not None and not waiting:
            self._waiting.pop(partition.name, None)

    def forget(self, name: TopicPartition) -> None:
        """The partition is gone from here."""
        self._refuse(name, NotLeaderOrFollower(f"{name} is not on this broker any more"))

    def _refuse(self, name: TopicPartition, error: BrokerError) -> None:
        for _, _, future in sorted(self._waiting.pop(name, ()), key=lambda each: each[:2]):
            if not future.done():
                future.set_exception(error)
