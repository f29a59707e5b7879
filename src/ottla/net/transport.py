"""Links over TCP and TLS, on asyncio's loop or uvloop. link.py says what they promise."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import ConnectionClosed, ConnectionRefused, NotConnected, OttlaError, TlsHandshakeFailed
from ottla.net.framed_link import GATHERED_LIMIT_BYTES, JOIN_LIMIT_BYTES, FramedLink, fenced
from ottla.net.framing import Buffer
from ottla.net.link import Address, Link, LinkEvents, LinkSettings, Listener
from ottla.net.low_water import LowWater, low_water_of
from ottla.net.sendfile import SendfileDoor, door_of

if TYPE_CHECKING:
    from ottla.net.tls.stream import ServerTls, TlsStream

# asyncio's writelines copied everything into one buffer up to 3.11, and forgot flow control until 3.13.2
# (CVE-2024-12254). Before that, one write per buffer is better on both counts. uvloop always did it well.
ASYNCIO_GATHERS: Final = sys.version_info >= (3, 13, 2)


class StreamLink(FramedLink, asyncio.BufferedProtocol):
    """A link over a socket."""

    _awaits_goodbye = False  # whether the loop keeps the socket until the other side has closed TLS too

    def __init__(self, events: LinkEvents, settings: LinkSettings) -> None:
        super().__init__(events, settings)
        self._transport: asyncio.Transport | None = None
        self._door: SendfileDoor | None = None
        self._low_water: LowWater | None = None
        self._close_timer: asyncio.TimerHandle | None = None

    # --- what the loop calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's transports have no common base
        self._gathers = _gathers(transport)
        self._join_limit_bytes = GATHERED_LIMIT_BYTES if self._gathers else JOIN_LIMIT_BYTES
        self._door = door_of(transport)
        self._stream.set_write_buffer_limits(high=self._settings.write_pause_bytes)
        _set_options(transport.get_extra_info("socket"), self._settings)
        if self._settings.waits_for_much and transport.get_extra_info("sslcontext") is None:
            self._low_water = low_water_of(transport.get_extra_info("socket"), self._settings.receive_buffer_bytes)
        self._notify(self._events.opened, self)

    get_buffer = FramedLink._lend

    def buffer_updated(self, nbytes: int) -> None:
        self._received(nbytes)
        if self._low_water is not None and not self._ending:
            self._low_water.follow(self._reader.big_frame_missing_bytes)

    def eof_received(self) -> None:
        """None lets the loop close the connection: half a connection is of no use to Kafka's protocol."""

    def pause_writing(self) -> None:
        self._writable_is(False)

    def resume_writing(self) -> None:
        self._writable_is(True)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._close_timer is not None:
            self._close_timer.cancel()
        if self._door is not None:
            self._door.close()
        self._finish(None if exc is None else _lost(exc))

    # --- what the owner calls ---

    @property
    def local_address(self) -> Address | None:
        return _address(self._stream.get_extra_info("sockname"))

    @property
    def remote_address(self) -> Address | None:
        return _address(self._stream.get_extra_info("peername"))

    @property
    def peer_certificate(self) -> bytes | None:
        tls = self._stream.get_extra_info("ssl_object")
        certificate: bytes | None = None if tls is None else tls.getpeercert(True)
        return certificate

    def close(self) -> None:
        if self._ending:
            return
        self._write_held()
        self._ending = True
        self._stream.close()
        if self._waiting_bytes() or self._awaits_goodbye:
            loop = asyncio.get_running_loop()
            self._close_timer = loop.call_later(self._settings.close_limit_ms / 1000, self.abort)

    @property
    def _stream(self) -> asyncio.Transport:
        assert self._transport is not None, "a link is handed out after connection_made"
        return self._transport

    def write(self, buffers: Sequence[Buffer]) -> None:
        # What nearly every answer is: one buffer, and nothing waits before it.
        stream = self._transport
        if stream is None or self._delivering or self._ending or len(buffers) != 1 or stream.get_write_buffer_size():
            super().write(buffers)
        else:
            stream.write(buffers[0])

    def write_gathered(self, buffers: list[Buffer]) -> None:
        stream = self._transport
        if stream is None or self._ending or self._delivering or not self._gathers:
            self.write(buffers)
        elif stream.get_write_buffer_size() >= self._settings.write_limit_bytes:
            self._write_now(buffers)  # it knows what that means
        else:
            stream.writelines(buffers)

    def _put(self, pieces: list[Buffer]) -> None:
        if self._gathers and len(pieces) > 1:
            self._stream.writelines(pieces)
        else:
            for piece in pieces:
                self._stream.write(piece)

    def send_file(self, before: Sequence[Buffer], number: int, position: int, size_bytes: int) -> int | None:
        if self._door is None or self._ending or self._held or self._waiting_bytes():
            return None
        sent = self._door.send(before, number, position, size_bytes)
        if isinstance(sent, bytes):  # what is left of the buffers, for which the socket had no room
            self._write_now((sent,))
            return 0
        return sent

    def when_sendable(self, call: Callable[[], None]) -> None:
        assert self._door is not None, "send_file has said that the socket is full"
        self._door.when_sendable(call)

    def _waiting_bytes(self) -> int:
        return self._stream.get_write_buffer_size()

    def _stop_reading(self) -> None:
        if not self._ending:
            self._stream.pause_reading()

    def _go_on_reading(self) -> None:
        if not self._ending:
            self._stream.resume_reading()

    def _cut(self) -> None:
        self._stream.abort()


class TlsClientLink(StreamLink):
    """A link whose TLS is the loop's own: that closes the socket only when the other side has said goodbye too.

    The wait is a task, so that it has an end: whoever ends the loop (asyncio.run, BackgroundLoop) cancels its tasks,
    and a loop must not be closed while it has an open socket.
    """

    _awaits_goodbye = True

    def __init__(self, events: LinkEvents, settings: LinkSettings) -> None:
        super().__init__(events, settings)
        self._gone = asyncio.Event()
        self._goodbye: asyncio.Task[None] | None = None

    def close(self) -> None:
        if not self._ending:
            super().close()
            self._goodbye = asyncio.get_running_loop().create_task(self._wait_for_goodbye())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._gone.set()

    async def _wait_for_goodbye(self) -> None:
        try:
            await self._gone.wait()  # `_close_timer` bounds it
        finally:
            self.abort()  # does nothing where the connection is gone


class TcpListener:
    """An open door on one or more addresses."""

    def __init__(self, server: asyncio.Server, addresses: Sequence[Address], handshakes: set[TlsStream]) -> None:
        self._server = server
        self._handshakes = handshakes
        self.addresses = addresses

    @property
    def port(self) -> int:
        return self.addresses[0][1]

    def close(self) -> None:
        """Let nobody new in.

        asyncio's own loop makes the link of a socket one turn after it has accepted it, and forgets the socket, open,
        if the server is closed by then. So it stops to accept now, and closes when those have their links.
        """
        loop = self._server.get_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            for listening in self._server.sockets:
                loop.remove_reader(listening.fileno())
            loop.call_soon(self._server.close)
        else:
            self._server.close()

    def abort_handshakes(self) -> None:
        for each in list(self._handshakes):
            each.abort()


class TcpTransport:
    """Links over TCP, with TLS when a context is given; on whatever loop is running, uvloop or asyncio's own."""

    async def connect(
        self,
        host: str,
        port: int,
        events: LinkEvents,
        *,
        tls: ssl.SSLContext | None = None,
        settings: LinkSettings | None = None,
    ) -> Link:
        """Open a link; NotConnected or TlsHandshakeFailed says what went wrong. Cancelling closes everything."""
        chosen = settings or LinkSettings()
        loop = asyncio.get_running_loop()
        make = StreamLink if tls is None else TlsClientLink
        try:
            _, link = await loop.create_connection(
                lambda: make(events, chosen), host, port, ssl=tls, ssl_handshake_timeout=_patience(tls, chosen)
            )
        except (OSError, UnicodeError) as error:
            raise explained(error, host, port, tls=tls is not None) from error
        return link

    async def serve(
        self,
        host: str,
        port: int,
        make_events: Callable[[], LinkEvents],
        *,
        tls: ssl.SSLContext | ServerTls | None = None,
        settings: LinkSettings | None = None,
        backlog: int = 128,
    ) -> Listener:
        """Listen; port 0 takes a free one. Every new link gets its own events, with TLS after its handshake."""
        chosen = settings or LinkSettings()
        loop = asyncio.get_running_loop()
        handshakes: set[TlsStream] = set()
        make = _acceptor(fenced(make_events), tls, chosen, handshakes)
        server = await loop.create_server(make, host, port, backlog=backlog, reuse_address=True)
        addresses = [_address(listening.getsockname()) for listening in server.sockets]
        return TcpListener(server, [address for address in addresses if address is not None], handshakes)


def _acceptor(
    make_events: Callable[[], LinkEvents],
    tls: ssl.SSLContext | ServerTls | None,
    settings: LinkSettings,
    handshakes: set[TlsStream],
) -> Callable[[], asyncio.BaseProtocol]:
    """What makes the protocol of a connection that is accepted."""

    def make_link() -> StreamLink:
        return StreamLink(make_events(), settings)

    if tls is None:
        return make_link
    from ottla.net.tls.stream import FixedTls, TlsStream  # who speaks no TLS does not need it

    server = FixedTls(tls) if isinstance(tls, ssl.SSLContext) else tls
    return lambda: TlsStream(make_link, server, settings.handshake_limit_ms, handshakes)


def explained(error: OSError | UnicodeError, host: str, port: int, *, tls: bool = False) -> OttlaError:
    """Why no link could be made, in words of the user's world."""
    where = f"{host}:{port}"
    if isinstance(error, socket.gaierror | UnicodeError):
        return NotConnected(f"the name {host} cannot be resolved ({_words(error)})")
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsHandshakeFailed(f"the certificate of {where} is not trusted: {error.verify_message}")
    hung_up = isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError)
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or (tls and hung_up):
        return NotConnected(f"{where} closed the connection during the TLS handshake; does it speak TLS?")
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or error
        return TlsHandshakeFailed(f"TLS with {where} failed ({reason}); does this port speak TLS?")
    if isinstance(error, ConnectionRefusedError):
        return ConnectionRefused(f"{where} refused the connection; nothing listens there")
    return NotConnected(f"{where} cannot be reached ({_words(error)})")


def _lost(error: Exception) -> OttlaError:
    """Why a link was lost. In TLS 1.3 a server refuses our certificate after the handshake has ended for us."""
    if isinstance(error, ssl.SSLError):
        from ottla.net.tls.words import alert_words

        reason = str(getattr(error, "reason", None) or error)
        if "ALERT" in reason:
            return TlsHandshakeFailed(alert_words(reason) or f"the other side ended TLS: {reason}")
    return ConnectionClosed(f"the network failed: {error}")


def _patience(tls: ssl.SSLContext | None, settings: LinkSettings) -> float | None:
    # Without TLS the loops refuse to be told how long a handshake may take.
    return None if tls is None else settings.handshake_limit_ms / 1000


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _address(name: Any) -> Address | None:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None


def _gathers(transport: object) -> bool:
    """Whether writelines hands all buffers to the kernel without joining them first."""
    if (known := getattr(transport, "gathers", None)) is not None:
        return bool(known)
    own = getattr(type(transport), "writelines", None) is not asyncio.WriteTransport.writelines
    return own and (ASYNCIO_GATHERS or type(transport).__module__.startswith("uvloop"))


def _set_options(sock: Any, settings: LinkSettings) -> None:
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if settings.send_buffer_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
    if settings.receive_buffer_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
