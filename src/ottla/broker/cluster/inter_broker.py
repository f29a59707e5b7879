"""Connections from this broker to the others of its cluster: one for each, made when somebody has something to say.

1. Where a broker is reached is asked at every request (the endpoint of the inter-broker listener in the newest view),
   so a broker that came back elsewhere is found there; the old connection is closed.
2. `send` ends with the answer or raises why there is none, within its time-out. Requests to one broker leave in the
   order of the calls and are answered in that order, which the controller's channel relies on.
3. Where brokers must log in, every connection does. What a login needs (a token, a ticket) is fetched before, and
   those who ask meanwhile keep their order. A login that is refused fails what waits for it; the next request tries
   again with a new connection: the user may have been made, or its password changed, meanwhile.
4. A broker that nobody knows is BrokerNotAvailable at once: the caller decides whether to wait for it. After `close`
   nothing is connected any more, not even for those who waited for a token or a ticket meanwhile.
5. Answers of one connection come in order. So a broker has several to each other one (`Connections`): what is answered
   when something is committed must not hold up what that commit, or somebody else, may need.

Belongs to the broker's loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

from ottla.broker.security.own_login import OwnLogin
from ottla.clock import Clock
from ottla.cluster.model import Endpoint
from ottla.errors import AuthenticationFailed, BrokerNotAvailable, NotConnected
from ottla.light_tuples import NamedTuple
from ottla.net.connection import ApiVersionTable, Exchange
from ottla.net.link import LinkSettings, Transport
from ottla.net.node import NodeConnection
from ottla.net.peer import Peer, PeerSettings, State
from ottla.protocol.schema import Message, Versions

IN_FLIGHT_LIMIT = 100
NO_VERSIONS = Versions(1, 0)


class InterBroker:
    """See the module."""

    def __init__(
        self,
        broker_id: int,
        endpoint_of: Callable[[int], Endpoint | None],
        *,
        transport: Transport,
        clock: Clock,
        random: Random,
        link_settings: LinkSettings | None = None,
        client_id: str | None = None,
        login: OwnLogin | None = None,
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
        waits_for_refusing: bool = True,
    ) -> None:
        """`tls` is asked whenever a connection is made, so that a new certificate is used without a restart. Without
        `waits_for_refusing` a request to a broker at whose address nothing listens is ConnectionRefused at once."""
        self._client_id = client_id or f"broker-{broker_id}"
        self._endpoint_of = endpoint_of
        self._transport = transport
        self._clock = clock
        self._random = random
        self._link_settings = link_settings
        self._login = login
        self._waits_for_refusing = waits_for_refusing
        self.owns_login = False  # several may share a login, and one of them ends it
        self._tls = tls
        self._connections: dict[int, tuple[Endpoint, NodeConnection]] = {}
        self._closing: list[NodeConnection] = []
        self._is_closed = False
        self._preparing: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)  # as many as brokers were known

    async def send(
        self,
        broker_id: int,
        request: Message,
        *,
        timeout_ms: float,
        at_most: int | None = None,
        client_id: str | None = None,
    ) -> Message:
        """The answer of a broker; `client_id` is that of this request alone."""
        connection = self._connection(broker_id)
        if self._login is not None and self._login.prepare is not None:
            await self._prepare(broker_id, self._login.prepare, timeout_ms)
            connection = self._connection(broker_id)  # it may be elsewhere by now
        try:
            answer: Message = await connection.send(
                request, timeout_ms=timeout_ms, at_most=at_most, client_id=client_id
            )
        except AuthenticationFailed:
            if self._connections.get(broker_id, (None, None))[1] is connection:
                self.forget(broker_id)
            raise
        return answer

    def versions(self, broker_id: int) -> ApiVersionTable | None:
        """What a broker has said that it speaks; None where no connection to it has asked."""
        known = self._connections.get(broker_id)
        return None if known is None else known[1].peer.versions

    def start(self, broker_id: int, exchange: Exchange, *, timeout_ms: float) -> bool:
        """Send what hears of its own end, on a connection that has nothing to decide and speaks its version; False when
        nothing was done."""
        known = self._connections.get(broker_id)
        if known is None or self._is_closed or known[0] != self._endpoint_of(broker_id):
            return False
        connection = known[1]
        versions = connection.peer.versions
        if versions is None or exchange.version not in versions.ranges.get(exchange.api.key, NO_VERSIONS):
            return False
        return connection.start_exchanges((exchange,), self._clock.monotonic_ms(), timeout_ms) == 1

    async def _prepare(self, broker_id: int, prepare: Callable[[str], Awaitable[None]], timeout_ms: float) -> None:
        """One at a time, first come, first served: a lock of asyncio is fair."""
        async with self._preparing[broker_id]:
            peer = self._connection(broker_id).peer
            if peer.state is State.READY:
                return
            preparing, late = (
                asyncio.ensure_future(prepare(peer.host)),
                asyncio.ensure_future(self._clock.sleep(timeout_ms)),
            )
            try:
                await asyncio.wait((preparing, late), return_when=asyncio.FIRST_COMPLETED)
                if not preparing.done():
                    raise NotConnected(f"what a login at {peer.host} needs was not there within {timeout_ms:.0f} ms")
                preparing.result()
            finally:
                preparing.cancel()
                late.cancel()

    def forget(self, broker_id: int) -> None:
        """The broker is gone: what waits for it is failed, and nothing tries to reach it any more."""
        if (found := self._connections.pop(broker_id, None)) is not None:
            self._closing.append(found[1])

    async def close(self) -> None:
        """End all connections."""
        self._is_closed = True
        for broker_id in list(self._connections):
            self.forget(broker_id)
        await self.sweep()
        if self.owns_login and self._login is not None and self._login.close is not None:
            await self._login.close()

    async def sweep(self) -> None:
        """Close the connections that were forgotten."""
        while self._closing:
            await self._closing.pop().close()

    def _connection(self, broker_id: int) -> NodeConnection:
        if self._is_closed:
            raise NotConnected(f"connections to other brokers are closed, also to broker {broker_id}")
        endpoint = self._endpoint_of(broker_id)
        if endpoint is None:
            raise BrokerNotAvailable(f"broker {broker_id} is not in the cluster, or has no listener for brokers")
        known = self._connections.get(broker_id)
        if known is not None and known[0] == endpoint:
            return known[1]
        self.forget(broker_id)
        made = self._connect(endpoint)
        self._connections[broker_id] = endpoint, made
        return made

    def _connect(self, endpoint: Endpoint) -> NodeConnection:
        settings = PeerSettings(
            client_id=self._client_id,
            in_flight_limit=IN_FLIGHT_LIMIT,
            waits_for_refusing=self._waits_for_refusing,
        )
        authenticator = None if self._login is None else partial(self._login.authenticator, endpoint.host)
        peer = Peer(endpoint.host, endpoint.port, random=self._random, settings=settings, authenticator=authenticator)
        return NodeConnection(
            peer, transport=self._transport, clock=self._clock, tls=self._tls, link_settings=self._link_settings
        )


class Connections(NamedTuple):
    """All connections of a broker to the others, by what is said on them; made only where something is."""

    leaders: InterBroker
    """Questions to whoever leads a partition, or has something."""
    markers: InterBroker
    """Markers of transactions: answered when they are committed, which may be never."""
    controller: InterBroker
    """Questions to the controller: who is in sync now may be what a marker waits for."""
    orders: InterBroker
    """Orders that this broker gives as controller: the next one leaves when the one before is answered, and a leader
    may need it to commit a marker."""
    passed_on: InterBroker
    """What clients ask us and only the controller decides: a long answer holds nobody up."""

    def forget(self, broker_id: int) -> None:
        for each in self:
            each.forget(broker_id)

    async def sweep(self) -> None:
        for each in self:
            await each.sweep()

    async def close(self) -> None:
        for each in reversed(self):
            await each.close()
