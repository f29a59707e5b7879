"""The task that keeps a client's metadata fresh, and the waiting for what it brings.

It sleeps until Metadata says that a question is due, or until somebody wakes it, asks, and tells everybody who waits.
A fault in asking is an answer like any other: it is logged, remembered as the failure, and the task goes on. When it
goes on like that for WARN_AFTER_MS, or a topic is missing for so long, there is one warning: a consumer of a wrong port
or a misspelt topic would wait in silence otherwise.

It begins with bootstrap.servers. With client.dns.lookup=resolve_canonical_bootstrap_servers_only a name there stands
for the full names of all its addresses: behind one round-robin name there may be brokers whose certificates (or
Kerberos names) know only their own. Otherwise a name stands for itself, and connecting tries its addresses one after
the other.

Lives on one event loop.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from ottla.client.closed import ClientClosed
from ottla.client.connections import within
from ottla.client.metadata import Metadata, bootstrap_nodes
from ottla.clock import Clock
from ottla.errors import OttlaError, RequestTimedOut
from ottla.ordered_set import OrderedSet
from ottla.protocol.schema import Message
from ottla.values import Address, Node

T = TypeVar("T")

log = logging.getLogger(__name__)

NAMED_LIMIT: Final = 3
WARN_AFTER_MS: Final = 5_000


class MetadataTimedOut(RequestTimedOut):
    """What must be known of the cluster first did not come in time.
    Nothing was sent. Check the name, that the brokers are up, and the address: ottla doctor walks the way."""


class MetadataKeeper:
    """Asks when it is time; `describe` carries out one question and gives the answer to the metadata."""

    def __init__(
        self,
        metadata: Metadata,
        describe: Callable[[Message], Awaitable[None]],
        clock: Clock,
        *,
        canonical_names: Sequence[Address] | None = None,
    ) -> None:
        self._metadata = metadata
        self._describe = describe
        self._clock = clock
        self._canonical_names = canonical_names
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._waiters: OrderedSet[asyncio.Future[None]] = OrderedSet()
        self._listeners: list[Callable[[], None]] = []
        self._begun = 0
        self._ended = 0
        self._forced = False
        self._closed = False
        self._troubled_since_ms: float | None = None
        self._warned = False
        metadata.on_request = self.wake

    def start(self) -> None:
        """Start the task; calling it again does nothing."""
        if self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="ottla-metadata")

    async def close(self) -> None:
        """End the task; whoever waits is told that the client is closed."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
        self._wake_waiters()

    def wake(self) -> None:
        """Look again at what is due."""
        self._news.set()

    def ask_soon(self) -> None:
        """Something is stale."""
        self._metadata.request_update()

    def on_update(self, call: Callable[[], None]) -> None:
        """Call this after every refresh, good or bad."""
        self._listeners.append(call)

    async def refresh_now(self, timeout_ms: float) -> None:
        """One refresh that begins after this call, without any wait before it; raises why it failed."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self.start()
        target = self._begun + 1
        self._forced = True
        self.ask_soon()
        while self._ended < target:
            if not await self._next_refresh(deadline_ms):
                raise self._late("waited for a description of the cluster", timeout_ms)
        if self._metadata.failure is not None:
            raise copy.copy(self._metadata.failure)

    async def wait_for(self, condition: Callable[[Metadata], T | None], *, timeout_ms: float, what: str) -> T:
        """What `condition` finds, looked for after every refresh until the time is over."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self.start()
        begun = self._ended
        while (found := condition(self._metadata)) is None:
            failure = self._metadata.failure
            if failure is not None and failure.invalid_configuration and self._ended > begun:
                raise copy.copy(failure)
            self.ask_soon()
            if not await self._next_refresh(deadline_ms):
                raise self._late(f"waited for {what}", timeout_ms)
        return found

    # --- the task ---

    async def _run(self) -> None:
        while True:
            self._news.clear()
            now_ms = self._clock.monotonic_ms()
            due_ms = now_ms if self._forced else self._metadata.due_ms(now_ms)
            if due_ms > now_ms:
                await self._sleep(due_ms - now_ms)
            else:
                await self._refresh(now_ms)

    async def _sleep(self, duration_ms: float) -> None:
        news = asyncio.get_running_loop().create_task(self._news.wait())
        try:
            await within(news, self._clock, duration_ms)
        finally:
            news.cancel()

    async def _refresh(self, now_ms: float) -> None:
        self._forced = False
        self._begun += 1
        if self._metadata.needs_rebootstrap(now_ms) and self._metadata.rebootstrap(now_ms):
            log.info("nobody described the cluster for long; beginning again with bootstrap.servers")
        try:
            # Looked up at every beginning: who is behind a name may have changed since the last one.
            if self._canonical_names is not None and self._metadata.is_bootstrapping:
                self._metadata.begin_with(await canonical_nodes(self._canonical_names))
            await self._describe(self._metadata.request(now_ms))
        except OttlaError as error:
            log.info("the cluster could not be described: %s", error)
            self._metadata.update_failed(error, self._clock.monotonic_ms())
        except Exception as error:
            log.exception("refreshing the metadata failed in itself")
            fault = OttlaError(f"{type(error).__name__}: {error}")
            self._metadata.update_failed(fault, self._clock.monotonic_ms())
        self._ended += 1
        self._warn_of_trouble(self._clock.monotonic_ms())
        self._wake_waiters()
        self._notify_listeners()

    def _warn_of_trouble(self, now_ms: float) -> None:
        """One warning for each time of trouble, and not for what is over soon, like a topic that is being made."""
        reasons = self._reasons()
        if not reasons:
            self._troubled_since_ms, self._warned = None, False
            return
        if self._troubled_since_ms is None:
            self._troubled_since_ms = now_ms
        lasted_ms = now_ms - self._troubled_since_ms
        if lasted_ms >= WARN_AFTER_MS and not self._warned:
            self._warned = True
            log.warning("ottla: still trying after %.0f s: %s", lasted_ms / 1000, "; ".join(reasons))

    # --- who waits ---

    async def _next_refresh(self, deadline_ms: float) -> bool:
        self._refuse_when_closed()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            in_time = await within(waiter, self._clock, deadline_ms - self._clock.monotonic_ms())
        finally:
            self._waiters.discard(waiter)
        self._refuse_when_closed()
        return in_time

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise ClientClosed()

    def _wake_waiters(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _notify_listeners(self) -> None:
        for call in self._listeners:
            try:
                call()
            except Exception:
                log.exception("somebody who wanted to hear of new metadata failed")

    def _late(self, what: str, timeout_ms: float) -> MetadataTimedOut:
        reasons = self._reasons(about=what)
        return MetadataTimedOut(f"{what} for {timeout_ms:.0f} ms" + "".join(f"; {reason}" for reason in reasons))

    def _reasons(self, about: str | None = None) -> list[str]:
        """What is wrong now; of topics only those that were waited for, when a topic was."""
        known = self._metadata
        words: list[str] = [] if about is None else about.split()
        errors = [
            (name, error) for name, error in known.topic_errors().items() if "topic" not in words or name in words
        ]
        reasons = [f"topic {name}: {error.what}" for name, error in errors[:NAMED_LIMIT]]
        if "partition" in words and (there := known.partitions_of(words[-1])):
            reasons.append(f"the last partition of the topic is {len(there) - 1}")
        if known.failure is not None:
            reasons.insert(0, known.failure.detail or known.failure.what)
        elif known.is_bootstrapping:
            asked = ", ".join(str(node.address) for node in known.nodes_to_ask()[:NAMED_LIMIT])
            reasons.insert(0, f"no answer yet from {asked}")
        return reasons


async def canonical_nodes(addresses: Sequence[Address]) -> tuple[Node, ...]:
    """The full names behind the names; a name that cannot be resolved stays, so that connecting says why."""
    found: list[Address] = []
    for address in addresses:
        found += await _canonical(address)
    return bootstrap_nodes(dict.fromkeys(found))


async def _canonical(address: Address) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        places = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        names = [await loop.getnameinfo((str(place[4][0]), address.port), socket.NI_NAMEREQD) for place in places]
    except (OSError, UnicodeError):
        return [address]
    return [Address(name, address.port) for name, _ in names] or [address]
