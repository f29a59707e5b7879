"""The admin client for asyncio: the calls of calls.py, carried out on the caller's loop.

    async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topics([NewTopic("clicks", num_partitions=6)])
        print(await admin.describe_topics(["clicks"]))

The first call connects; `close`, or leaving `async with`, ends the connections.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.admin.calls import AdminCalls
from ottla.client.admin.driver import Driver
from ottla.client.admin.plans import Plan, Work
from ottla.client.admin.settings import AdminSettings
from ottla.client.network import NetworkClient
from ottla.clock import Clock
from ottla.metrics import MetricKey, Registry
from ottla.net.link import Transport
from ottla.net.retries import Backoff

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class AsyncAdmin(AdminCalls):
    """Questions and orders to a cluster."""

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        transport: Transport | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
        **settings: object,
    ) -> None:
        self._settings = AdminSettings(config, **settings).named("adminclient")
        self._random = random or Random()
        self._random_bytes = random_bytes
        self._network = NetworkClient.from_settings(
            self._settings, transport=transport, clock=clock, random=self._random
        )
        backoff = Backoff(self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms, self._random)
        self._registry = Registry()
        self._network.measure(self._registry, "admin-client", self._settings.client_id)
        self._network.push_metrics(self._registry, self._settings)
        self._driver = Driver(self._network, backoff=backoff)
        self._started = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, timeout: float = 30.0) -> None:
        """End the connections; calls that wait are failed."""
        await self._network.close(timeout_ms=timeout * 1000)

    def metrics(self) -> dict[MetricKey, float]:
        """Numbers of the connections, under Java's names; from any thread."""
        return self._registry.snapshot(self._network.clock.monotonic_ms())

    async def _carry_on(self, work: Work[Any, Any], *, timeout_ms: float, deadline_ms: float) -> None:
        """End a work that somebody else has begun: what is pending in it is asked until the deadline."""
        await self._start()
        await self._driver.carry_on(work, timeout_ms=timeout_ms, deadline_ms=deadline_ms)

    # --- small parts ---

    async def _carry_out(self, plan: Plan[K, V], keys: Iterable[K], timeout: float | None) -> dict[K, V]:
        await self._start()
        return await self._driver.carry_out(plan, keys, timeout_ms=self._timeout_ms(timeout))

    async def _find_coordinator(self, group_id: str, timeout: float | None) -> None:
        await self._start()
        await self._network.coordinator("group", group_id, timeout_ms=self._timeout_ms(timeout))

    async def _pause(self, pause_ms: float) -> None:
        await self._network.sleep(pause_ms)

    async def _start(self) -> None:
        if not self._started:
            self._started = True
            await self._network.start()
