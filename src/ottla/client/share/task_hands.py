"""Tasks that take records of a share consumer, one for each record; thread_hands.py has the same with threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.client.share.records import ShareRecord
from ottla.ordered_set import OrderedSet


class TaskHands:
    """`news` is called when one is free again."""

    can_be_cancelled: Final = True

    def __init__(
        self,
        handle: Callable[[ShareRecord], Coroutine[Any, Any, None]],
        count: int,
        news: Callable[[], None],
        name: str,
    ) -> None:
        self.done = 0
        self._handle = handle
        self._news = news
        self._name = name
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()

    @property
    def busy(self) -> int:
        return len(self._tasks)

    def take(self, record: ShareRecord) -> None:
        name = f"{self._name}-worker-{record.topic}-{record.partition}@{record.offset}"
        task = asyncio.get_running_loop().create_task(self._handle(record), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.done += 1
        self._news()

    async def end(self) -> None:
        """What still runs is cancelled."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
