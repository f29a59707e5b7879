"""The connections of one client, one for each node it talks to, and what can be seen of them from outside.

1. A connection is made when it is first used, and made again when the node has moved to another address.
2. `attempt` tries to connect once: ready, or the reason why not. While a node is backing off there is no attempt and
   the last reason is raised at once; so whoever tries again must wait a little in between.
3. The owner is told of every change of state (`on_change`, with the state before), and can wait for the next one.
4. An error says which broker, where, and who told us that address. When a broker cannot be reached for WARN_AFTER_MS
   there is one warning: whoever polls sees no error, only nothing. One that wants a login is asked which (network.py),
   because without one nothing will ever come.

Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from ottla.client.closed import ClientClosed
from ottla.client.connection_options import ConnectionOptions
from ottla.clock import Clock
from ottla.errors import AuthenticationFailed, ConnectionClosed, NotConnected, OttlaError
from ottla.net.connection import ApiVersionTable
from ottla.net.decisions import Decision
from ottla.net.link import LinkSettings, Transport
from ottla.net.node import NodeConnection
from ottla.net.peer import Peer, State
from ottla.ordered_set import OrderedSet
from ottla.protocol.api import Api
from ottla.values import Node

log = logging.getLogger(__name__)

WARN_AFTER_MS: Final = 5_000
COORDINATOR_IDS: Final = 2**31 - 1
"""A group's coordinator has a connection of its own, under this number minus its id as in Java: a JoinGroup is answered
after minutes, and everything behind it on the same connection would wait."""


def coordinator_node(node: Node) -> Node:
    """The same broker under the id of its second connection."""
    return node._replace(id=COORDINATOR_IDS - node.id)


def broker_id(node: Node) -> int:
    """The broker's own id, whichever of its connections this is."""
    return COORDINATOR_IDS - node.id if node.id > COORDINATOR_IDS // 2 else node.id


def broker_name(node: Node) -> str:
    """How people call it."""
    if node.is_bootstrap:
        return f"bootstrap server {node.address}"
    return f"broker {broker_id(node)} at {node.address}"


async def within(future: asyncio.Future[Any], clock: Clock, timeout_ms: float) -> bool:
    """Wait for a future on the clock's time; False when the time is over first. The future is not cancelled."""
    if future.done() or timeout_ms <= 0:
        return future.done()
    if timeout_ms == math.inf:
        await asyncio.wait((future,))
        return True
    too_late = asyncio.get_running_loop().create_task(clock.sleep(timeout_ms))
    try:
        await asyncio.wait((future, too_late), return_when=asyncio.FIRST_COMPLETED)
    finally:
        too_late.cancel()
    return future.done()


class WatchedConnection(NodeConnection):
    """A connection whose state can be watched."""

    def __init__(
        self,
        node: Node,
        peer: Peer,
        *,
        on_change: Callable[[WatchedConnection, State], None],
        transport: Transport,
        clock: Clock,
        tls: ssl.SSLContext | None = None,
        link_settings: LinkSettings | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(peer, transport=transport, clock=clock, tls=tls, link_settings=link_settings)
        self.node = node
        self.throttled_until_ms = -math.inf
        self._table: ApiVersionTable | None = None  # what the node serves, and what was chosen of it
        self._chosen: dict[tuple[int, int | None], int] = {}
        self.was_ready = False
        self.was_answered = False
        self.missed_since_ms: float | None = None
        self.warned = False
        self._watch_clock = clock
        self._on_change = on_change
        self._prepare = prepare
        self._watchers: OrderedSet[asyncio.Future[None]] = OrderedSet()

    @property
    def is_ready(self) -> bool:
        return self.peer.state is State.READY

    @property
    def is_backing_off(self) -> bool:
        return self.peer.state is State.BACKING_OFF

    def happened(self, event: Callable[..., list[Decision]], *arguments: Any, **named: Any) -> None:
        before = self.peer.state
        super().happened(event, *arguments, **named)
        if self.peer.state is not before:
            if self.is_ready:
                self.was_ready, self.missed_since_ms, self.warned = True, None, False
            for watcher in self._watchers:
                if not watcher.done():
                    watcher.set_result(None)
            self._on_change(self, before)

    def version_of(self, api: Api, at_most: int | None) -> int | None:
        """The version in which the node can be asked at once; None when it cannot. What was chosen is remembered."""
        table = self.peer.versions
        if table is None or self.peer.state is not State.READY:
            return None
        if table is not self._table:
            self._table, self._chosen = table, {}
        wanted = (api.key, at_most)
        version = self._chosen.get(wanted)
        if version is None:
            version = self._chosen[wanted] = table.choose(api, at_most=at_most)
        return version

    async def attempt(self, timeout_ms: float) -> None:
        """Be ready, with at most one attempt to connect; raises why not."""
        deadline_ms = self._watch_clock.monotonic_ms() + timeout_ms
        if self._prepare is not None and self.peer.state is State.DISCONNECTED:
            await self._prepared(timeout_ms)
        while not self.is_ready:
            if self.is_backing_off:
                raise copy.copy(self.peer.failure) or NotConnected("it is backing off")
            if self.peer.state is State.DISCONNECTED:
                self._refuse_when_closed()
                self.happened(self.peer.connect, until_ms=-math.inf)
            if not self.is_ready and not self.is_backing_off and not await self.change(deadline_ms):
                raise NotConnected(f"{self.peer.host}:{self.peer.port} was not ready within {timeout_ms:.0f} ms")

    async def _prepared(self, timeout_ms: float) -> None:
        """What a login needs beforehand, a token for example."""
        assert self._prepare is not None, "asked for only when there is something to prepare"
        preparing = asyncio.ensure_future(self._prepare())
        try:
            if not await within(preparing, self._watch_clock, timeout_ms):
                raise NotConnected(f"no token for the login came within {timeout_ms:.0f} ms")
            preparing.result()
        finally:
            preparing.cancel()

    async def change(self, deadline_ms: float) -> bool:
        """Wait for the next change of state; False when the time is over first."""
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.add(watcher)
        try:
            return await within(watcher, self._watch_clock, deadline_ms - self._watch_clock.monotonic_ms())
        finally:
            self._watchers.discard(watcher)


class Connections:
    """One connection per node id."""

    def __init__(self, options: ConnectionOptions, *, on_change: Callable[[WatchedConnection, State], None]) -> None:
        self._options = options
        self._on_change = on_change
        self._by_id: dict[int, WatchedConnection] = {}
        self._closing: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self.advertised_by = ""

    def get(self, node_id: int) -> WatchedConnection | None:
        return self._by_id.get(node_id)

    def all(self) -> list[WatchedConnection]:
        return list(self._by_id.values())

    def open_count(self) -> int:
        """Connections that can be used now."""
        return sum(each.is_ready for each in self._by_id.values())

    def of(self, node: Node) -> WatchedConnection:
        """The connection to a node, made if there is none at its address."""
        found = self._by_id.get(node.id)
        if found is not None:
            if found.node is node:
                return found
            if found.node.address == node.address:
                found.node = node  # every refresh makes new nodes; the next look is the quick one again
                return found
            self._retire(found)
        made = self._by_id[node.id] = self._made(node)
        return made

    async def close(self) -> None:
        """Close them all, and wait for those that were retired before."""
        connections, self._by_id = self.all(), {}
        ends = [each.close() for each in connections]
        if self._options.security.close is not None:
            ends.append(_awaited(self._options.security.close()))
        await asyncio.gather(*ends, *self._closing, return_exceptions=True)

    def _made(self, node: Node) -> WatchedConnection:
        options = self._options
        login, prepare = options.security.authenticator, options.security.prepare
        peer = Peer(
            node.host,
            node.port,
            random=options.random,
            settings=options.peer,
            authenticator=None if login is None else partial(login, node.host),
        )
        return WatchedConnection(
            node,
            peer,
            on_change=self._on_change,
            transport=options.transport,
            clock=options.clock,
            tls=options.security.tls,
            prepare=None if prepare is None else partial(prepare, node.host),
            link_settings=options.link,
        )

    def _retire(self, connection: WatchedConnection) -> None:
        task = asyncio.get_running_loop().create_task(connection.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # --- words ---

    def explained(self, connection: WatchedConnection, error: OttlaError) -> OttlaError:
        """The same error with who it is about and what may help."""
        detail = error.detail or error.what
        if isinstance(error, ClientClosed):
            return error
        if isinstance(error, NotConnected):
            text = f"{self._who(connection)} cannot be reached: {detail}{self._hint(connection, detail)}"
            if not connection.node.is_bootstrap:  # of those the keeper of the metadata warns
                self._warn_when_it_lasts(connection, text)
            return NotConnected(text)
        if isinstance(error, ConnectionClosed) and self.may_want_login(connection):
            why = f"it may want a login, and security.protocol here is {self._protocol}"
            return ConnectionClosed(f"{broker_name(connection.node)} hung up on the first request; {why}")
        return error

    def may_want_login(self, connection: WatchedConnection) -> bool:
        """Whether a node that hangs up may do so because nobody logged in."""
        return not connection.was_answered and "SASL" not in self._protocol

    def wants_login(self, connection: WatchedConnection, mechanisms: Sequence[str]) -> AuthenticationFailed:
        """The error when it is known that it does."""
        needed = "SASL_SSL" if self._protocol == "SSL" else "SASL_PLAINTEXT"
        return AuthenticationFailed(
            f"{broker_name(connection.node)} wants a login by {' or '.join(mechanisms) or 'SASL'}, and "
            f"security.protocol here is {self._protocol}: set it to {needed}, with sasl.mechanism and a user"
        )

    def _warn_when_it_lasts(self, connection: WatchedConnection, text: str) -> None:
        now_ms = self._options.clock.monotonic_ms()
        if connection.missed_since_ms is None:
            connection.missed_since_ms = now_ms
        lasted_ms = now_ms - connection.missed_since_ms
        if lasted_ms < WARN_AFTER_MS or connection.warned:
            return
        # A consumer has two connections to its coordinator's broker; one of them speaks for both.
        is_known = any(each.warned and each.node.address == connection.node.address for each in self.all())
        connection.warned = True
        if not is_known:
            log.warning("ottla: still trying after %.0f s: %s", lasted_ms / 1000, text)

    @property
    def _protocol(self) -> str:
        return self._options.security_protocol

    def _who(self, connection: WatchedConnection) -> str:
        name = broker_name(connection.node)
        advertised = not connection.node.is_bootstrap and self.advertised_by
        return f"{name}, advertised by {self.advertised_by}," if advertised else name

    def _hint(self, connection: WatchedConnection, detail: str) -> str:
        hint = f"; security.protocol here is {self._protocol}" if "TLS" in detail else ""
        if not connection.node.is_bootstrap and not connection.was_ready:
            hint += "; see that advertised.listeners of that broker is an address this machine can reach"
        return hint


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable
