"""Listens on the endpoints of a broker and keeps count of who is connected.

1. Connections are limited: in total, per listener and per address. Who is over a limit is turned away at once; nobody
   else notices. How fast they come is limited too (quotas/connections.py): who is above a rate is heard later. Who is
   above the quota of its address is closed after a while; of those at most REFUSED_LIMIT are kept, the others are
   closed at once.
2. A connection without a request for connections.max.idle.ms is closed; bytes that make no request do not count. So is
   one whose client has read nothing for that long of what it asked for.
3. Until `release` is called connections are let in and their requests wait: a port must be known before the cluster
   can be told where this broker is.
4. Whoever has to say first who he is may send only small requests until he has, and all of them together hold little
   memory (login_memory.py).
5. `close` stops listening; `drain` waits, bounded, until what is being answered has left, then closes the rest.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from ottla.broker.network.handshakes import Handshakes, ListenerTls
from ottla.broker.network.large_frames import LargeFrames
from ottla.broker.network.login_memory import LOGIN_CHUNK_BYTES, LoginMemory
from ottla.broker.network.processor import Connection, Dispatcher
from ottla.broker.network.waiting_requests import WaitingRequests
from ottla.broker.observe.log_limit import LineLimit
from ottla.broker.quotas.connections import Arrival, ConnectionRates
from ottla.clock import Clock, Timer
from ottla.errors import ConnectionClosed, OttlaError, TlsHandshakeFailed
from ottla.light_dataclasses import replace
from ottla.net.framing import LARGE_CHUNK_BYTES
from ottla.net.link import Link, LinkSettings, Listener, Transport

log = logging.getLogger(__name__)
log.addFilter(LineLimit())

REFUSED_LIMIT: Final = 1_000
IDLE_LOOK_MS: Final = 10_000
DRAIN_STEP_MS: Final = 5
LARGE_CHUNK_CONNECTIONS: Final = 64
"""With at most so many open, one more may read requests of 64 KiB several at a time: 32 MiB for all of them."""
ABOVE_RATE: Final = "more connections a second than the quota of its address allows"


class ConnectionLimits:
    """How many connections, from whom and where. Plain counting.

    `listeners` are the limits of single listeners (listener.name.<name>.max.connections), by name."""

    def __init__(
        self, *, total: int, per_address: int, overrides: dict[str, int], listeners: Mapping[str, int] | None = None
    ) -> None:
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self.change(total=total, per_address=per_address, overrides=overrides, listeners=listeners)

    @property
    def count(self) -> int:
        return self._by_address.total()

    def change(
        self, *, total: int, per_address: int, overrides: dict[str, int], listeners: Mapping[str, int] | None = None
    ) -> None:
        """New limits for those who come; who is connected stays."""
        self._total = total
        self._per_address = per_address
        self._overrides = overrides
        self._listeners = listeners or {}

    def refusal(self, address: str, listener: str = "") -> str | None:
        """Why this address may not connect now; None counts it in."""
        if self.count >= self._total:
            return f"max.connections={self._total} are open"
        of_listener = self._listeners.get(listener, self._total)
        if self._by_listener[listener] >= of_listener:
            return f"max.connections={of_listener} of the listener {listener} are open"
        limit = self._overrides.get(address, self._per_address)
        if self._by_address[address] >= limit:
            return f"{address} has {limit} connections, as many as max.connections.per.ip allows"
        self._by_address[address] += 1
        self._by_listener[listener] += 1
        return None

    def left(self, address: str, listener: str = "") -> None:
        for counter, name in ((self._by_address, address), (self._by_listener, listener)):
            counter[name] -= 1
            if counter[name] <= 0:
                del counter[name]


class Login(Dispatcher, Protocol):
    """A login of one connection (security/logins.py), which stands before the dispatcher."""

    @property
    def receive_limit_bytes(self) -> int:
        """How large a request may be before its sender is known."""

    def begin(self, connection: Connection, is_holding: Callable[[], bool]) -> None: ...
    def end(self) -> None: ...


class _Guarded(Connection):
    """A connection that is counted from its first moment to its last."""

    def __init__(
        self,
        acceptor: Acceptor,
        number: int,
        listener: str,
        protocol: str,
        login: Login | None,
        tls: ListenerTls | None,
    ) -> None:
        dispatcher = acceptor.dispatcher if login is None else login
        super().__init__(number, listener, dispatcher, acceptor.gone, acceptor.waiting, acceptor.clock, protocol)
        self._acceptor = acceptor
        self._login = login  # None: nobody has to say who he is
        self._tls = tls
        self._full_limit_bytes = self._full_chunk_bytes = 0
        self.counted_address: str | None = None
        self._refusal_timer: Timer | None = None

    def opened(self, link: Link) -> None:
        if self._acceptor.is_over:  # the loop had accepted it before we stopped to listen
            link.abort(ConnectionClosed("the broker is gone"))
            return
        address = link.remote_address[0] if link.remote_address else "unknown"
        # With TLS it was asked and counted before its handshake began (handshakes.py).
        arrival = Arrival() if self._tls is not None else self._acceptor.arrived(self.listener, address)
        if arrival.is_refused:
            self._refuse_later(link, address, arrival.wait_ms)
            return
        refusal = self._acceptor.limits.refusal(address, self.listener) if self._tls is None else None
        if refusal is not None:
            log.warning("a connection from %s is turned away: %s", address, refusal)
            link.abort(ConnectionClosed(refusal))
            return
        self.counted_address = address
        self._acceptor.opened[self.listener] += 1
        self.last_active_ms = self._acceptor.clock.monotonic_ms()
        super().opened(link)
        if self._acceptor.connection_count <= LARGE_CHUNK_CONNECTIONS:
            link.chunk_bytes = max(link.chunk_bytes, LARGE_CHUNK_BYTES)
        if self._login is not None:
            self._begin_login(link, self._login)
        if self._tls is not None and self.security_protocol == "SSL":
            self._identify(self._tls, link)
        if self._acceptor.is_holding:
            link.pause_reading()
        self.throttle(arrival.wait_ms)

    def _begin_login(self, link: Link, login: Login) -> None:
        """Until it is known who it is, it gets little."""
        self._full_limit_bytes, self._full_chunk_bytes = link.frame_limit_bytes, link.chunk_bytes
        link.frame_limit_bytes = min(self._full_limit_bytes, login.receive_limit_bytes)
        link.chunk_bytes = LOGIN_CHUNK_BYTES
        self._acceptor.login_memory.enter(link)
        login.begin(self, lambda: self._acceptor.is_holding)

    def _end_login(self, link: Link) -> None:
        self._acceptor.login_memory.leave(link)
        link.frame_limit_bytes, link.chunk_bytes = self._full_limit_bytes, self._full_chunk_bytes

    def _refuse_later(self, link: Link, address: str, wait_ms: float) -> None:
        """Its address makes connections too fast: keep it silent for a while, then close it."""
        log.info("a connection from %s is turned away: its address makes too many of them", address)
        super().opened(link)
        link.pause_reading()
        if self._acceptor.refused_count >= REFUSED_LIMIT or wait_ms <= 0:
            self.abort(ABOVE_RATE)
            return
        self._acceptor.refused_count += 1
        self._refusal_timer = self._acceptor.clock.call_later(wait_ms, lambda: self.abort(ABOVE_RATE))

    def _identify(self, tls: ListenerTls, link: Link) -> None:
        """Its certificate says who it is; nothing was read yet that could ask."""
        try:
            self.authenticated(tls.principal_of(link.peer_certificate))
        except TlsHandshakeFailed as reason:
            log.info("%s: closing the connection: %s", self.name, reason)
            link.abort(reason)

    def authenticated(self, principal: str, *, by_token: bool = False) -> None:
        super().authenticated(principal, by_token=by_token)
        if self._login is not None and self._link is not None:
            self._end_login(self._link)

    def frame_received(self, frame: memoryview) -> None:
        if self.counted_address is not None:
            self.last_active_ms = self._acceptor.clock.monotonic_ms()
            super().frame_received(frame)

    def writable_changed(self, writable: bool) -> None:
        self.last_active_ms = self._acceptor.clock.monotonic_ms()
        super().writable_changed(writable)

    def closed(self, error: OttlaError | None) -> None:
        if self.counted_address is not None:
            self._acceptor.limits.left(self.counted_address, self.listener)
            self._acceptor.closed[self.listener] += 1
        if self._refusal_timer is not None:
            self._refusal_timer.cancel()
            self._acceptor.refused_count -= 1
        if self._login is not None:
            self._login.end()
            if self._link is not None:
                self._acceptor.login_memory.leave(self._link)
        super().closed(error)


class Acceptor:
    def __init__(
        self,
        transport: Transport,
        dispatcher: Dispatcher,
        *,
        clock: Clock,
        limits: ConnectionLimits,
        rates: ConnectionRates | None = None,
        link_settings: LinkSettings,
        idle_ms: int,
        waiting_limit_bytes: int = -1,
    ) -> None:
        """`waiting_limit_bytes`: see waiting_requests.py and large_frames.py."""
        self._waiting_limit_bytes = waiting_limit_bytes
        self.waiting = WaitingRequests(waiting_limit_bytes, self._read_or_rest)
        self.large_frames = LargeFrames(self.waiting, waiting_limit_bytes, clock)
        self.login_memory = LoginMemory(self.large_frames)
        self.dispatcher = dispatcher
        self.clock = clock
        self.limits = limits
        self._rates = rates
        self.opened: Counter[str] = Counter()  # connections since the start, by listener
        self.closed: Counter[str] = Counter()
        self.refused_count = 0  # connections that wait for being closed
        self._transport = transport
        self._link_settings = replace(link_settings, frame_memory=self.large_frames)
        self._idle_ms = idle_ms
        self._listeners: list[Listener] = []
        self._connections: dict[int, Connection] = {}
        self._numbers = 0
        self._idle_timer: Timer | None = None
        self.is_holding = True
        self.is_over = False

    def release(self) -> None:
        """The broker is ready: answer those who came early, and everybody from now on."""
        self.is_holding = False
        self._read_or_rest()

    def _read_or_rest(self) -> None:
        for connection in self.connections:
            connection.resume()
        self.large_frames.schedule()

    @property
    def waiting_bytes(self) -> tuple[int, int]:
        """The bytes of requests that are not answered, and how many may be; 0 or less is no limit."""
        return self.waiting.size_bytes, self._waiting_limit_bytes

    @property
    def connections(self) -> list[Connection]:
        return list(self._connections.values())

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def listen(
        self,
        name: str,
        host: str,
        port: int,
        *,
        backlog: int,
        protocol: str = "PLAINTEXT",
        login: Callable[[Dispatcher], Login] | None = None,
        tls: ListenerTls | None = None,
    ) -> int:
        """Open one endpoint; returns the port, which is another one when 0 was asked for.

        `login` makes the login of a new connection; None where nobody has to say who he is. `tls` is for a listener
        that speaks it.
        """
        settings = self._link_settings
        if login is not None:
            settings = replace(settings, frame_memory=self.login_memory)
        listener = await self._transport.serve(
            host,
            port,
            self._maker(name, protocol, login, tls),
            tls=None if tls is None else self._handshakes(name, tls),
            settings=settings,
            backlog=backlog,
        )
        self._listeners.append(listener)
        if self._idle_timer is None:
            self._schedule_idle_check()
        return listener.port

    def close(self) -> None:
        """Let nobody new in."""
        for listener in self._listeners:
            listener.close()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self.large_frames.close()

    def abort(self) -> None:
        """Let nobody in, and cut all connections."""
        self.close()
        self.is_over = True
        for connection in self.connections:
            connection.abort("the broker is gone")

    async def drain(self, limit_ms: float) -> None:
        """Wait until every connection is quiet, at most so long, then close them all."""
        end_ms = self.clock.monotonic_ms() + limit_ms
        while any(not one.is_idle for one in self._connections.values()) and self.clock.monotonic_ms() < end_ms:
            await self.clock.sleep(DRAIN_STEP_MS)
        for listener in self._listeners:
            listener.abort_handshakes()
        self._close_connections()
        while self._connections and self.clock.monotonic_ms() < end_ms:
            await self.clock.sleep(DRAIN_STEP_MS)
            self._close_connections()  # the loop opens after us whom it had accepted before
        self.is_over = True

    def _close_connections(self) -> None:
        for connection in self.connections:
            connection.close()

    def _handshakes(self, listener: str, tls: ListenerTls) -> Handshakes:
        refusal = partial(self.limits.refusal, listener=listener)
        left = partial(self.limits.left, listener=listener)
        return Handshakes(tls, partial(self.arrived, listener), refusal, left)

    def arrived(self, listener: str, address: str) -> Arrival:
        """What becomes of a connection that has just come."""
        return Arrival() if self._rates is None else self._rates.arrived(listener, address, self.clock.monotonic_ms())

    def forget_contexts(self) -> None:
        """What is known of clients by their connections may have changed: find it out again at the next request."""
        for connection in self._connections.values():
            connection.contexts.clear()

    def gone(self, connection: Connection) -> None:
        self._connections.pop(connection.number, None)

    def _maker(
        self, name: str, protocol: str, login: Callable[[Dispatcher], Login] | None, tls: ListenerTls | None
    ) -> Callable[[], Connection]:
        def make() -> Connection:
            self._numbers += 1
            made = None if login is None else login(self.dispatcher)
            connection = _Guarded(self, self._numbers, name, protocol, made, tls)
            self._connections[self._numbers] = connection
            return connection

        return make

    def _schedule_idle_check(self) -> None:
        wait_ms = min(IDLE_LOOK_MS, self._idle_ms)
        self._idle_timer = self.clock.call_later(wait_ms, self._close_idle)

    def _close_idle(self) -> None:
        self.close_idle_ones()
        self._schedule_idle_check()

    def close_idle_ones(self) -> None:
        """Close who has been idle for too long."""
        border_ms = self.clock.monotonic_ms() - self._idle_ms
        for connection in self.connections:
            if connection.last_active_ms >= border_ms:
                continue
            if connection.is_stuck:
                connection.abort(f"nothing was read of its answers for {self._idle_ms} ms")
            elif connection.is_idle:
                log.debug("%s: closed after %d ms without a request", connection.name, self._idle_ms)
                connection.close()
