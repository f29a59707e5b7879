"""The asyncio face: the same calls as ShareConsumer, awaited where they wait, on the caller's own loop.

    async with AsyncShareConsumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        async for record in consumer:
            with record:                    # accepted at the end, released when it raises
                await work(record.value)

1. Nothing is connected before the first call that is awaited, or `async with`.
2. poll() is for one task at a time. Cancelling it loses nothing: records are taken in one step.
3. Acknowledging does not wait, so records have plain methods; the callback of acknowledgements may be a coroutine.
4. Heartbeats and renewals go on while the application awaits something, but not while it computes.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from random import Random
from types import TracebackType
from typing import Any, Self

from ottla.client.arguments import callable_of, seconds_of
from ottla.client.consumer.consumer import ConcurrentUse, WokenUp
from ottla.client.consumer.face import checked_limit, seconds
from ottla.client.deadline import Deadline
from ottla.client.loop import ForkedClient
from ottla.client.share.commits import CommitResult
from ottla.client.share.core import ShareCore
from ottla.client.share.face import CLOSE_TIMEOUT_S, ITERATION_WAIT_S, POLL_TURN_S, ShareFace, checked_workers
from ottla.client.share.records import ShareRecord
from ottla.clock import Clock
from ottla.net.link import Transport


class AsyncShareConsumer(ShareFace):
    """Reads records of a share group. Arguments are topics and one mapping of settings; keywords are settings too."""

    def __init__(
        self,
        *arguments: str | Mapping[str, object],
        transport: Transport | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        self._first_topics = self._prepare(arguments, settings)
        self._news = asyncio.Event()
        self._is_polling = False
        self._woken = False
        self._starting: asyncio.Task[None] | None = None
        self._process_id = os.getpid()
        world: dict[str, Any] = {"transport": transport, "clock": clock, "random": random}
        self._core = ShareCore(self._settings, self, news=self._news.set, wake_loop=self._wake, **world)

    async def start(self) -> Self:
        """Begin; every other call does it too if need be."""
        self._check_usable()
        if self._process_id != os.getpid():
            raise ForkedClient(f"{self._settings.client_id} in process {os.getpid()}")
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        if not self._starting.done():
            await asyncio.shield(self._starting)
        self._starting.result()
        return self

    async def _start(self) -> None:
        await self._core.start()
        if self._first_topics:
            await self._core.subscribe(self._check_topics(self._first_topics))

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    def _wake(self) -> None:
        # Before the start there is nobody to wake; the start looks at everything anyway.
        if self._starting is not None and self._starting.done():
            self._core.wake()

    def _wake_face(self) -> None:
        self._news.set()

    # --- what to read ---

    async def subscribe(self, topics: Iterable[str] | str) -> None:
        """Read these topics, and nothing else."""
        await self.start()
        await self._core.subscribe(self._check_topics(topics))

    async def unsubscribe(self) -> None:
        """Read nothing any more: send the acknowledgements, give back the other records, leave the group."""
        await self.start()
        self._topics = frozenset()
        self._left.clear()
        await self._core.leave(Deadline(self._core.clock, self._timeout_ms(None)))
        await self._call_back()

    # --- reading ---

    async def poll(
        self, timeout: float | None = None, *, max_records: int | None = None, timeout_ms: float | None = None
    ) -> list[ShareRecord]:
        """Records, at most `max_records` (max.poll.records); waits up to `timeout` seconds (1) for the first."""
        return self._delivered(await self._poll(seconds(timeout, timeout_ms, 1.0), max_records))

    async def _poll(
        self, timeout: float, max_records: int | None, acquire_mode: int | None = None
    ) -> list[ShareRecord]:
        await self.start()
        self._check_subscribed()
        limit = checked_limit(self._settings.max_poll_records if max_records is None else max_records)
        if self._is_polling:
            raise ConcurrentUse()
        self._is_polling = True
        try:
            self._core.metrics.polled(self._core.clock.monotonic_ms())
            self._begin_poll()
            found = await self._poll_until(Deadline(self._core.clock, timeout * 1000), limit, acquire_mode)
            self._core.waited(bool(found))
            return found
        except BaseException:
            self._core.waited(True)
            raise
        finally:
            self._is_polling = False

    async def _poll_until(self, deadline: Deadline, limit: int, acquire_mode: int | None) -> list[ShareRecord]:
        await self._core.clock.sleep(0)
        while True:
            self._core.polled()
            self._news.clear()
            await self._attend()
            found = self._read(limit)
            if found or self._stopping:
                return found
            if not self._core.demand.records:
                self._core.want(limit, acquire_mode)
            if deadline.is_over:
                return found
            await self._wait_for_news(min(deadline.left_ms(), POLL_TURN_S * 1000))

    async def _wait_for_news(self, limit_ms: float) -> None:
        timer = self._core.clock.call_later(limit_ms, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    async def _attend(self) -> None:
        """What only the caller may do: raise errors, run callbacks."""
        if self._woken:
            self._woken = False
            raise WokenUp()
        await self._call_back()
        self._raise_failure()

    async def _call_back(self) -> None:
        while (notice := self._next_notice()) is not None:
            assert self._callback is not None, "there are no notices without one"
            outcome = self._callback(notice.offsets, notice.error)
            if inspect.isawaitable(outcome):
                await outcome

    def wakeup(self) -> None:
        """Let a poll() in another task raise WokenUp, the one that waits now or the next."""
        self._woken = True
        self._news.set()

    async def __aiter__(self) -> AsyncGenerator[ShareRecord, None]:
        """Records one by one, without end; or until none comes for consumer.timeout.ms. In the implicit mode a record
        is accepted when the next one is asked for."""
        limit_ms = self._settings.consumer_timeout_ms
        wait = ITERATION_WAIT_S if limit_ms is None else limit_ms / 1000
        while not self._closed:
            if not self._left:
                self._left.extend(await self._poll(wait, None))
                if not self._left:
                    if limit_ms is not None:
                        return
                    continue
            self._begin_poll()
            for record in self._delivered([self._left.popleft()]):
                yield record

    # --- working ---

    async def work(
        self,
        handler: Callable[[ShareRecord], Awaitable[object]],
        *,
        workers: int = 1,
        max_records: int | None = None,
        idle: float | None = None,
    ) -> int:
        """Await `handler(record)` in so many tasks; see ShareConsumer.work."""
        from ottla.client.share.async_workers import AsyncWorkers

        await self.start()
        checked = callable_of(handler, "a handler")
        return await AsyncWorkers(self, checked, checked_workers(workers)).run(max_records, idle)

    # --- acknowledging ---

    async def commit(self, *, timeout: float | None = None) -> CommitResult:
        """Send what was said of records and wait for the answers: None or an error for each partition. In the implicit
        mode everything that was delivered is accepted before."""
        await self.start()
        self._accept_implicitly()
        result = await self._core.commit(self._timeout_ms(timeout))
        await self._call_back()
        return result

    def commit_async(self) -> None:
        """The same without waiting; the callback of acknowledgements hears what became of it."""
        self._check_usable()
        self._accept_implicitly()
        self._core.commit_in_background()

    # --- the end ---

    async def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Send what was said of records, release the others, leave the group and end everything, within `timeout`
        seconds."""
        if self._closed:
            return
        self._closed = True
        if self._starting is None or self._process_id != os.getpid():
            return
        await asyncio.wait((self._starting,))
        await self._core.close(seconds_of(timeout) * 1000)
        self._news.set()
        await self._call_back()
