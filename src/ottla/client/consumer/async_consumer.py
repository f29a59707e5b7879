"""The asyncio face: the same calls as Consumer, awaited where they wait, on the caller's own loop and without a thread.

    async with AsyncConsumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        async for record in consumer:
            ...

1. Nothing is connected before the first call that is awaited, or `async with`.
2. poll() is for one task at a time. Cancelling it loses nothing: records are taken in one step, and a change of the
   group that it had begun goes on, with its listener; the next poll, or the end, waits for it.
3. poll() lets the other tasks have their turn, also when records are there; heartbeats go on while the application
   awaits something else, but not while it computes.
4. Listeners and callbacks of commits may be coroutines; they are awaited inside poll().

The calls themselves stand in async_calls.py, and how a task waits in ../task_waits.py; here is what becomes of a poll
that was cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from ottla.client.connections import within
from ottla.client.consumer.async_calls import AsyncConsumerCalls
from ottla.client.consumer.core import ConsumerCore
from ottla.client.deadline import Deadline
from ottla.client.loop import ClientClosed
from ottla.clock import Clock
from ottla.net.link import Transport


class AsyncConsumer(AsyncConsumerCalls):
    """Reads records. Arguments are topics to subscribe to and one mapping of settings; keywords are settings too."""

    _iteration_ends_with = (ClientClosed,)  # closed by another task, which is how it tells this one to end

    def __init__(
        self,
        *arguments: str | Mapping[str, object],
        transport: Transport | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        self._first_topics = self._prepare(arguments, settings)
        self._prepare_to_wait()
        self._errand: asyncio.Task[None] | None = None
        self._core = ConsumerCore(
            self._settings, news=self._news.set, wake_loop=self._wake, transport=transport, clock=clock, random=random
        )

    async def _start(self) -> None:
        await self._core.start()
        if self._first_topics:
            self._subscribe(self._first_topics, None, None)
            await self._subscription_changed()

    async def _wait_for_news(self, limit_ms: float) -> None:
        await super()._wait_for_news(limit_ms)
        self._check_usable()

    # --- what a cancelled poll began ---

    async def _whole(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Do it in a task of its own, which goes on if this poll is cancelled: nobody else would do the rest, and a
        group waits for it."""
        self._errand = asyncio.get_running_loop().create_task(self._finish(call(*arguments)))
        await self._finish_errand()

    async def _finish_errand(self) -> None:
        errand = self._errand
        if errand is None or errand is asyncio.current_task():
            return
        try:
            await asyncio.shield(errand)
        finally:
            if errand.done():
                self._errand = None

    async def _end_errand(self, limit_ms: float) -> Exception | None:
        """Before this member leaves: what a cancelled poll began comes to its end, or is cut off when the time is
        over. Gives its error."""
        errand = self._errand
        if errand is None or errand is asyncio.current_task():
            return None
        if not await within(errand, self._core.clock, limit_ms):
            errand.cancel()
            await asyncio.wait((errand,))
        self._errand = None
        error = None if errand.cancelled() else errand.exception()
        return error if isinstance(error, Exception) else None

    async def _commit_before_revoke(self, limit_ms: float | None) -> None:
        await self._group.commit_before_revoke(self._consumed(), limit_ms)

    # --- the end ---

    async def _leave(self, timeout_ms: float) -> None:
        """Give the partitions back, with the listener, then say goodbye to the group."""
        deadline = Deadline(self._core.clock, timeout_ms)
        failure = await self._end_errand(timeout_ms)
        leaving = asyncio.get_running_loop().create_task(self._group.leave(deadline.left_ms()))
        leaving.add_done_callback(lambda _: self._news.set())
        while not leaving.done():
            self._news.clear()
            failure = await self._change_last(deadline) or failure
            if not leaving.done():
                await self._news.wait()
        if failure is not None:
            raise failure
