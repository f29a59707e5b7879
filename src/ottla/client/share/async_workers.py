"""Handlers, so many at a time, each for as long as it takes: work() of both faces of the share consumer. One text.

async_workers.py is that text, with tasks; workers.py is made of it by `make faces`, with threads. What differs is in
task_hands.py and thread_hands.py.

1. As many records are acquired as there are workers that wait for one (share.acquire.mode=record_limit, whatever the
   settings say): no record is locked that nobody works on, and other consumers get the rest. It wants Kafka 4.2.
2. From the moment a worker gets a record its lock is renewed in the background, for at most share.renew.max.ms.
3. A handler that returns accepts its record, one that raises releases it, unless it said something itself. Errors of
   handlers are logged and go no further; with share.dead.letter.topic they end there after enough deliveries.
4. Acknowledgements are sent at once. While all workers are busy the consumer stays a member of its group.
5. At the end the handlers that run are waited for. Cancelling work() cancels handlers that are tasks, and their records
   are released. Ctrl-C does not wait for threads: the process can end, and brokers give the records of such handlers to
   others when the consumer is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.client.share.face import POLL_TURN_S
from ottla.client.share.in_flight import NotHeld
from ottla.client.share.records import ShareRecord
from ottla.client.share.requests import RECORD_LIMIT
from ottla.client.share.task_hands import TaskHands

if TYPE_CHECKING:
    from ottla.client.share.async_calls import AsyncShareCalls

log = logging.getLogger(__name__)


class AsyncWorkers:
    """The workers of one call of work()."""

    def __init__(
        self, consumer: AsyncShareCalls, handler: Callable[[ShareRecord], Awaitable[object]], count: int
    ) -> None:
        self._consumer = consumer
        self._handler = handler
        self._count = count
        self._hands = TaskHands(self._handle, count, consumer._news.set, consumer._settings.client_id)

    async def run(self, max_records: int | None, idle_s: float | None) -> int:
        core = self._consumer._core
        core.sends_acks = True
        try:
            await self._feed(max_records, idle_s)
            while self._hands.busy:
                await self._wait_for_worker(attends=self._hands.can_be_cancelled, most_busy=0)
        finally:
            self._consumer._stopping = False
            core.sends_acks = False
            await self._hands.end()
        return self._hands.done

    async def _feed(self, max_records: int | None, idle_s: float | None) -> None:
        clock = self._consumer._core.clock
        begun = 0
        last_ms = clock.monotonic_ms()
        while not self._consumer._stopping and (max_records is None or begun < max_records):
            free = self._count - self._hands.busy
            if max_records is not None:
                free = min(free, max_records - begun)
            if free <= 0:
                await self._wait_for_worker(attends=True, most_busy=self._count - 1)
                continue
            found = self._consumer._delivered(await self._consumer._poll(POLL_TURN_S, free, RECORD_LIMIT))
            for record in found:
                self._consumer.keep_record(record)
                self._hands.take(record)
            begun += len(found)
            if found or self._hands.busy:
                last_ms = clock.monotonic_ms()
            elif idle_s is not None and clock.monotonic_ms() - last_ms >= idle_s * 1000:
                return

    async def _wait_for_worker(self, *, attends: bool, most_busy: int) -> None:
        """Say that we are there, and wait for news unless so few are busy already. At the end only who can be cancelled
        hears of errors meanwhile: nobody could take a record back from a thread."""
        consumer = self._consumer
        consumer._core.polled()
        consumer._news.clear()
        if attends:
            await consumer._attend()
        if self._hands.busy > most_busy:
            await consumer._wait_for_news(consumer._pace_s() * 1000)

    async def _handle(self, record: ShareRecord) -> None:
        """One record; whatever happens, it is said of it."""
        try:
            with record:
                await self._handler(record)
        except NotHeld as error:
            log.warning("a record was handled, but it is not ours any more: %s", error)
        except Exception:
            log.exception("the handler failed at %s-%s@%s", record.topic, record.partition, record.offset)
