"""Handlers in tasks: the promises of workers.py, with coroutines instead of threads.

Cancelling work() cancels the handlers, and their records are released.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.client.share.face import POLL_TURN_S
from ottla.client.share.in_flight import NotHeld
from ottla.client.share.records import ShareRecord
from ottla.client.share.requests import RECORD_LIMIT
from ottla.ordered_set import OrderedSet

if TYPE_CHECKING:
    from ottla.client.share.async_calls import AsyncShareCalls

log = logging.getLogger(__name__)


class AsyncWorkers:
    """The tasks of one call of work()."""

    def __init__(
        self, consumer: AsyncShareCalls, handler: Callable[[ShareRecord], Awaitable[object]], count: int
    ) -> None:
        self._consumer = consumer
        self._handler = handler
        self._count = count
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._done = 0

    async def run(self, max_records: int | None, idle_s: float | None) -> int:
        core = self._consumer._core
        core.sends_acks = True
        try:
            await self._feed(max_records, idle_s)
            while self._tasks:
                await self._wait_for_worker()
        finally:
            self._consumer._stopping = False
            core.sends_acks = False
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return self._done

    async def _feed(self, max_records: int | None, idle_s: float | None) -> None:
        clock = self._consumer._core.clock
        begun = 0
        last_ms = clock.monotonic_ms()
        while not self._consumer._stopping and (max_records is None or begun < max_records):
            free = self._count - len(self._tasks)
            if max_records is not None:
                free = min(free, max_records - begun)
            if free <= 0:
                await self._wait_for_worker()
                continue
            found = self._consumer._delivered(await self._consumer._poll(POLL_TURN_S, free, RECORD_LIMIT))
            for record in found:
                self._begin(record)
            begun += len(found)
            if found or self._tasks:
                last_ms = clock.monotonic_ms()
            elif idle_s is not None and clock.monotonic_ms() - last_ms >= idle_s * 1000:
                return

    def _begin(self, record: ShareRecord) -> None:
        self._consumer.keep_record(record)
        task = asyncio.get_running_loop().create_task(self._handle(record))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._done += 1
        self._consumer._news.set()

    async def _wait_for_worker(self) -> None:
        """All are busy: say that we are there, and wait until one is not."""
        consumer = self._consumer
        consumer._core.polled()
        consumer._news.clear()
        await consumer._attend()
        await consumer._wait_for_news(consumer._pace_s() * 1000)

    async def _handle(self, record: ShareRecord) -> None:
        try:
            with record:
                await self._handler(record)
        except NotHeld as error:
            log.warning("a record was handled, but it is not ours any more: %s", error)
        except Exception:
            log.exception("the handler failed at %s-%s@%s", record.topic, record.partition, record.offset)
