"""One connection to one broker, without an event loop: a request is written, and its answer waited for.

For programs that ask a few questions and end. Loading asyncio and what belongs to it takes longer than all of that.

1. What is said on the connection, and its checks, are those of ClientConnection and VersionNegotiation; here is only
   the socket. No TLS and no login.
2. Every step has a limit in time. Whatever goes wrong before a request is written is NotConnected; afterwards, when
   nobody knows whether it was carried out, ConnectionClosed or RequestTimedOut. Then the connection is of no use any
   more: close it.
3. Nothing is tried twice.
"""

from __future__ import annotations

import socket
from typing import Final

from ottla.clock import Clock
from ottla.errors import ConnectionClosed, MalformedMessage, NotConnected, OttlaError, RequestTimedOut
from ottla.net.connection import ApiVersionTable, ClientConnection
from ottla.net.framing import Buffer
from ottla.net.handshake import Ask, VersionNegotiation
from ottla.protocol.api import api_of
from ottla.protocol.schema import Message
from ottla.values import Address

SIZE_BYTES: Final = 4
ANSWER_LIMIT_BYTES: Final = 1 << 30
LEAST_WAIT_S: Final = 0.001
"""An answer that is there already is read although time is over; a time-out of 0 would mean not to wait at all."""


class DirectConnection:
    """A connection whose versions are known; at most one request waits for its answer."""

    def __init__(self, link: socket.socket, clock: Clock, client_id: str | None) -> None:
        self._link = link
        self._clock = clock
        self._talk = ClientConnection(client_id=client_id, in_flight_limit=1)
        self.versions = ApiVersionTable({})

    @classmethod
    def open(
        cls, address: Address, clock: Clock, *, client_id: str | None, software_version: str, limit_ms: float
    ) -> DirectConnection:
        """Connect and ask for the versions, within the limit; NotConnected says why it cannot be."""
        deadline_ms = clock.monotonic_ms() + limit_ms
        try:
            link = _connected(address, clock, deadline_ms)
        except (OSError, UnicodeError) as error:
            raise NotConnected(f"{address}: {error}") from error
        made = cls(link, clock, client_id)
        try:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made._negotiate(software_version, deadline_ms)
        except (OttlaError, OSError) as error:
            made.close()
            raise NotConnected(f"{address}: {error}") from None
        return made

    def send(self, request: Message, *, deadline_ms: float, at_most: int | None = None) -> int:
        """Write a request in the highest version that both sides know, and return that."""
        version = self.versions.choose(api_of(request), at_most=at_most)
        self._write(self._talk.send(None, request, version=version, deadline_ms=deadline_ms), deadline_ms)
        return version

    def receive(self, deadline_ms: float) -> object:
        """The answer to what was sent."""
        try:
            size = int.from_bytes(self._read(SIZE_BYTES, deadline_ms), "big", signed=True)
            if not 0 <= size <= ANSWER_LIMIT_BYTES:
                raise MalformedMessage(f"an answer of {size} bytes")
            return self._talk.receive(self._read(size, deadline_ms)).response
        except TimeoutError:
            raise RequestTimedOut("no answer") from None
        except (OSError, MalformedMessage) as error:
            raise ConnectionClosed(str(error)) from None

    def close(self) -> None:
        self._link.close()

    def _negotiate(self, software_version: str, deadline_ms: float) -> None:
        negotiation = VersionNegotiation(software_name="ottla", software_version=software_version)
        step: Ask | ApiVersionTable = negotiation.start()
        while isinstance(step, Ask):
            written = self._talk.send(None, step.request, version=step.version, deadline_ms=deadline_ms)
            self._write(written, deadline_ms)
            answer = self.receive(deadline_ms)
            assert isinstance(answer, Message), "ApiVersions is answered by a message"
            step = negotiation.answered(answer)
        self.versions = step

    def _write(self, buffers: list[Buffer], deadline_ms: float) -> None:
        self._limit(deadline_ms)
        try:
            self._link.sendall(b"".join(buffers))
        except TimeoutError:
            raise RequestTimedOut("the request could not be written in time") from None
        except OSError as error:
            raise ConnectionClosed(str(error)) from None

    def _read(self, size: int, deadline_ms: float) -> bytearray:
        found = bytearray(size)
        rest = memoryview(found)
        while rest:
            self._limit(deadline_ms)
            count = self._link.recv_into(rest)
            if not count:
                raise ConnectionClosed("the broker closed the connection")
            rest = rest[count:]
        return found

    def _limit(self, deadline_ms: float) -> None:
        self._link.settimeout(max((deadline_ms - self._clock.monotonic_ms()) / 1000, LEAST_WAIT_S))


def _connected(address: Address, clock: Clock, deadline_ms: float) -> socket.socket:
    """A socket to the first of the name's addresses that takes one."""
    # Python loads its tables of Unicode for a name that is no bytes.
    host = address.host.encode() if address.host.isascii() else address.host
    failure = OSError("the name has no address")
    for family, kind, protocol, _, place in socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM):
        link = socket.socket(family, kind, protocol)
        try:
            link.settimeout(max((deadline_ms - clock.monotonic_ms()) / 1000, LEAST_WAIT_S))
            link.connect(place)
        except OSError as error:
            link.close()
            failure = error
        else:
            return link
    raise failure
