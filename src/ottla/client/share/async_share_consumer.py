"""The asyncio face: the same calls as ShareConsumer, awaited where they wait, on the caller's own loop.

    async with AsyncShareConsumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        async for record in consumer:
            with record:                    # accepted at the end, released when it raises
                await work(record.value)

1. Nothing is connected before the first call that is awaited, or `async with`.
2. poll() is for one task at a time. Cancelling it loses nothing: records are taken in one step.
3. Acknowledging does not wait, so records have plain methods; the callback of acknowledgements may be a coroutine.
4. Heartbeats and renewals go on while the application awaits something, but not while it computes.

The calls themselves stand in async_calls.py, and how a task waits in ../task_waits.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from ottla.client.share.async_calls import AsyncShareCalls
from ottla.client.share.core import ShareCore
from ottla.clock import Clock
from ottla.net.link import Transport


class AsyncShareConsumer(AsyncShareCalls):
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
        self._prepare_to_wait()
        world: dict[str, Any] = {"transport": transport, "clock": clock, "random": random}
        self._core = ShareCore(self._settings, self, news=self._news.set, wake_loop=self._wake, **world)

    async def _start(self) -> None:
        await self._core.start()
        if self._first_topics:
            await self._core.subscribe(self._check_topics(self._first_topics))
