"""Frames to and from the network: asyncio TCP and TLS behind a small interface. testing/network.py has its twin.

A link is one open connection. It calls four methods of its LinkEvents, always on the loop:
1. `opened` first and once, `closed` last and once; frames in the order they were sent, each of them whole.
2. After `pause_reading` no frame is delivered until `resume_reading`; what was already read is kept back, and TCP
   tells the other side to stop.
3. `write` takes buffers and returns at once. They must not change before they are written. Small neighbours are
   joined, big ones go to the socket as they are. What is written while frames are delivered leaves when all that came
   together have been, or when it is HOLD_LIMIT_BYTES: one call for five answers costs as much as one for each.
   `writable_changed` says when to stop and when to go on: above `write_pause_bytes` it turns False. Whoever goes on
   all the same loses the link at `write_limit_bytes`, because the other side does not read and memory is not endless.
   Writing to a link that is closing does nothing.
   `send_file` gives the buffers and then bytes of a file to the kernel at once, past all that: it says how many of the
   file's bytes the socket took. 0 is a full socket, and `when_sendable` calls once when it has room again. None is a
   link that cannot (TLS, memory, something waits to be written); then nothing was sent, the buffers neither.
4. `close` writes what waits, at most for `close_limit_ms`, and then closes; `abort` closes now. A loop that ends first
   cancels that wait, and the socket is closed all the same.
5. Nothing leaks into the loop: an exception in one of the four methods is logged and ends this link, no other.
6. Somebody may keep a budget for the big frames of all links (`LinkSettings.frame_memory`): he is told what they hold,
   and `wait_for_memory` stops reading in the middle of one, whatever the owner of the link asks for.
7. Others get their turn: after TURN_FRAMES frames that came together the rest waits for the next turn of the loop, and
   nothing more is read meanwhile. A chunk of tiny requests is thousands of them.
8. Errors are declared ones: `connect` says in words whether the name, the port, TLS or the network was wrong.
"""

from __future__ import annotations

import abc
import asyncio
import logging
import socket
import ssl
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from ottla.errors import ConnectionClosed, NotConnected, OttlaError, TlsHandshakeFailed
from ottla.light_dataclasses import dataclass
from ottla.net.framing import REQUEST_SIZE_LIMIT_BYTES, Buffer
from ottla.net.framing_choice import FrameReader
from ottla.net.low_water import LowWater, low_water_of
from ottla.net.sendfile import SendfileDoor, door_of

if TYPE_CHECKING:
    from ottla.net.tls.stream import ServerTls, TlsStream

log = logging.getLogger(__name__)

Address: TypeAlias = tuple[str, int]

JOIN_LIMIT_BYTES: Final = 16_384
GATHERED_LIMIT_BYTES: Final = 4_096  # where one call takes many buffers, larger ones are not worth a copy
HOLD_LIMIT_BYTES: Final = 2_048
TURN_FRAMES: Final = 64
SCRATCH_BYTES: Final = 4_096

# asyncio's writelines copied everything into one buffer up to 3.11, and forgot flow control until 3.13.2
# (CVE-2024-12254). Before that, one write per buffer is better on both counts. uvloop always did it well.
ASYNCIO_GATHERS: Final = sys.version_info >= (3, 13, 2)


class FrameMemory(Protocol):
    """Who keeps the budget for big frames that are being received."""

    def receiving(self, link: Any) -> None:
        """More of a big frame has arrived by this FramedLink."""

    def received(self, link: Any) -> None:
        """That frame is whole, or will never be."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Limits and options of a link."""

    frame_limit_bytes: int = REQUEST_SIZE_LIMIT_BYTES
    kind_limit_bytes: Callable[[int], int] | None = None  # of frames that begin with this int16: a request's API
    write_pause_bytes: int = 1_048_576
    write_limit_bytes: int = 67_108_864
    close_limit_ms: float = 5_000
    handshake_limit_ms: float = 10_000
    send_buffer_bytes: int | None = None  # send.buffer.bytes; None leaves it to the system
    receive_buffer_bytes: int | None = None  # receive.buffer.bytes
    waits_for_much: bool = False  # of a large frame, see low_water.py; for who reads little else
    frame_memory: FrameMemory | None = None


class Link(Protocol):
    """One open connection, from either side."""

    frame_limit_bytes: int  # may be raised once the other side has said who it is
    chunk_bytes: int  # of the memory for small frames; so may this
    following: deque[memoryview]  # frames that came with the one being delivered; who deals with one takes it away

    @property
    def writable(self) -> bool: ...
    @property
    def local_address(self) -> Address | None: ...
    @property
    def remote_address(self) -> Address | None: ...
    def write(self, buffers: Sequence[Buffer]) -> None: ...
    def write_gathered(self, buffers: list[Buffer]) -> None:
        """`write` for buffers whose small neighbours are joined already."""

    @property
    def peer_certificate(self) -> bytes | None:
        """What the other side showed of itself in TLS, as DER; checked against the trusted ones."""

    def send_file(self, before: Sequence[Buffer], number: int, position: int, size_bytes: int) -> int | None: ...
    def when_sendable(self, call: Callable[[], None]) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...
    def abort(self, reason: OttlaError | None = None) -> None: ...


class LinkEvents(Protocol):
    """Who is told what happens on a link."""

    def opened(self, link: Link) -> None: ...
    def frame_received(self, frame: memoryview) -> None: ...
    def writable_changed(self, writable: bool) -> None: ...
    def closed(self, error: OttlaError | None) -> None:
        """The link is gone; None when both sides meant it or the other side simply closed."""


class Listener(Protocol):
    """An open door."""

    @property
    def addresses(self) -> Sequence[Address]: ...
    @property
    def port(self) -> int: ...
    def close(self) -> None:
        """Let nobody new in; links that are open stay open, and handshakes of TLS go on."""

    def abort_handshakes(self) -> None:
        """End the handshakes of TLS that are not complete."""


class Transport(Protocol):
    """A way to make links: TcpTransport, or MemoryNetwork in tests."""

    async def connect(
        self,
        host: str,
        port: int,
        events: LinkEvents,
        *,
        tls: ssl.SSLContext | None = None,
        settings: LinkSettings | None = None,
    ) -> Link: ...

    async def serve(
        self,
        host: str,
        port: int,
        make_events: Callable[[], LinkEvents],
        *,
        tls: ssl.SSLContext | ServerTls | None = None,
        settings: LinkSettings | None = None,
        backlog: int = 128,
    ) -> Listener: ...


def gathered(buffers: Sequence[Buffer], join_limit_bytes: int = JOIN_LIMIT_BYTES) -> list[Buffer]:
    """The same bytes in few pieces: runs of small buffers joined, big ones untouched."""
    if len(buffers) == 1:
        return list(buffers)
    pieces: list[Buffer] = []
    small: list[Buffer] = []
    for buffer in buffers:
        if len(buffer) <= join_limit_bytes:
            small.append(buffer)
            continue
        if small:
            pieces.append(b"".join(small))
            small = []
        pieces.append(buffer)
    if small:
        pieces.append(b"".join(small))
    return pieces


class _TurnedAway:
    """Events of a link that nobody wants."""

    def opened(self, link: Link) -> None:
        link.abort()

    def frame_received(self, frame: memoryview) -> None: ...
    def writable_changed(self, writable: bool) -> None: ...
    def closed(self, error: OttlaError | None) -> None: ...


def fenced(make_events: Callable[[], LinkEvents]) -> Callable[[], LinkEvents]:
    """The same factory, but its failure turns one link away instead of disturbing the loop."""

    def make() -> LinkEvents:
        try:
            return make_events()
        except Exception:
            log.exception("nobody could be found for a new connection; it is closed")
            return _TurnedAway()

    return make


class FramedLink(abc.ABC):
    """What the link over sockets and its twin in memory have in common: frames, fences, limits."""

    def __init__(self, events: LinkEvents, settings: LinkSettings) -> None:
        self._events = events
        self._settings = settings
        self._reader = FrameReader(
            size_limit_bytes=settings.frame_limit_bytes, kind_limit_bytes=settings.kind_limit_bytes
        )
        self.following: deque[memoryview] = deque()
        self._frame_memory = settings.frame_memory
        self._is_in_budget = False  # the frame memory counts a frame of this link
        self._waits_for_memory = False
        self._paused = False
        self._delivering = False
        self._yielding = False  # the frames kept back wait for the next turn of the loop
        self._held: list[Buffer] = []
        self._held_bytes = 0
        self._join_limit_bytes = JOIN_LIMIT_BYTES
        self._ending = False
        self._finished = False
        self._reason: OttlaError | None = None
        self.writable = True

    @property
    def frame_limit_bytes(self) -> int:
        return self._reader.size_limit_bytes

    @frame_limit_bytes.setter
    def frame_limit_bytes(self, limit: int) -> None:
        self._reader.size_limit_bytes = limit

    @property
    def chunk_bytes(self) -> int:
        return self._reader.chunk_bytes

    @chunk_bytes.setter
    def chunk_bytes(self, size: int) -> None:
        self._reader.chunk_bytes = size

    @property
    def big_frame_bytes(self) -> int:
        return self._reader.big_frame_bytes

    @property
    def big_frame_missing_bytes(self) -> int:
        return self._reader.big_frame_missing_bytes

    @property
    def peer_certificate(self) -> bytes | None:
        return None

    @property
    def is_paused(self) -> bool:
        """Whether the owner of this link does not want to read now."""
        return self._paused

    def wait_for_memory(self, waits: bool) -> None:
        """Stop reading because there is no memory for more, or go on."""
        if waits is self._waits_for_memory:
            return
        self._waits_for_memory = waits
        if waits:
            self._stop_reading()
        else:
            self._read_unless_stopped()

    def write(self, buffers: Sequence[Buffer]) -> None:
        if self._ending:
            return
        if self._delivering:
            self._held.extend(buffers)
            self._held_bytes += sum(map(len, buffers))
            if self._held_bytes >= HOLD_LIMIT_BYTES:
                self._write_held()
            return
        self._write_now(buffers)

    def write_gathered(self, buffers: list[Buffer]) -> None:
        self.write(buffers)

    def _write_held(self) -> None:
        if self._held:
            buffers, self._held, self._held_bytes = self._held, [], 0
            self._write_now(buffers)

    def _write_now(self, buffers: Sequence[Buffer]) -> None:
        waiting_bytes = self._waiting_bytes()
        if waiting_bytes >= self._settings.write_limit_bytes:
            self.abort(ConnectionClosed(f"the other side does not read: {waiting_bytes} bytes wait to be written"))
            return
        self._put(gathered(buffers, self._join_limit_bytes))

    def send_file(self, before: Sequence[Buffer], number: int, position: int, size_bytes: int) -> int | None:
        return None

    def when_sendable(self, call: Callable[[], None]) -> None:
        raise NotImplementedError("only who sends files has to wait for room")

    def pause_reading(self) -> None:
        if not self._paused:
            self._paused = True
            self._stop_reading()

    def resume_reading(self) -> None:
        if not self._paused:
            return
        self._paused = False
        self._deliver()
        self._read_unless_stopped()

    def _read_unless_stopped(self) -> None:
        if not (self._paused or self._yielding or self._waits_for_memory or self._ending):
            self._go_on_reading()

    def abort(self, reason: OttlaError | None = None) -> None:
        if not self._finished:
            self._ending = True
            self._reason = self._reason or reason
            self._cut()

    @abc.abstractmethod
    def close(self) -> None: ...
    @abc.abstractmethod
    def _put(self, pieces: list[Buffer]) -> None: ...
    @abc.abstractmethod
    def _waiting_bytes(self) -> int: ...
    @abc.abstractmethod
    def _stop_reading(self) -> None: ...
    @abc.abstractmethod
    def _go_on_reading(self) -> None: ...
    @abc.abstractmethod
    def _cut(self) -> None:
        """Close now; `_finish` must be called later, not from here."""

    def _lend(self, sizehint: int) -> memoryview:
        # A loop may ask once more after the link was given up; those bytes are read and forgotten.
        if self._ending or self._reader.broken is not None:
            return memoryview(bytearray(SCRATCH_BYTES))
        return self._reader.get_buffer(sizehint)

    def _received(self, nbytes: int) -> None:
        if self._ending or self._reader.broken is not None:
            return
        try:
            frames = self._reader.received(nbytes)
        except OttlaError as error:
            self.abort(error)
            return
        if self._frame_memory is not None:
            self._count_memory(self._frame_memory)
        if not frames:
            return  # a part of a big one; there will be many
        self.following.extend(frames)
        self._deliver()
        self._end_if_broken()

    def _count_memory(self, frame_memory: FrameMemory) -> None:
        if self._reader.big_frame_bytes:
            self._is_in_budget = True
            frame_memory.receiving(self)
        elif self._is_in_budget:
            self._is_in_budget = False
            frame_memory.received(self)

    def _end_if_broken(self) -> None:
        if self._reader.broken is not None and not self._yielding:
            self.abort(self._reader.broken)

    def _deliver(self) -> None:
        # A handler may pause and resume while it has its frame; the loop that called it goes on with the next.
        if self._delivering or self._yielding:
            return
        self._delivering = True
        left = TURN_FRAMES
        while self.following and left > 0 and not self._paused and not self._ending:
            left -= len(self.following)
            self._notify(self._events.frame_received, self.following.popleft())
            left += len(self.following)
        self._delivering = False
        if self._ending:
            return
        self._write_held()
        if self.following and not self._paused:
            self._yielding = True
            self._stop_reading()
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._yielding = False
        if self._ending:
            return
        self._deliver()
        self._end_if_broken()
        self._read_unless_stopped()

    def _writable_is(self, writable: bool) -> None:
        if self.writable != writable and not self._ending:
            self.writable = writable
            self._notify(self._events.writable_changed, writable)

    def _finish(self, error: OttlaError | None) -> None:
        if self._finished:
            return
        if error is None and not self._ending and self._reader.pending_bytes:
            error = ConnectionClosed("the other side closed it in the middle of a frame")
        self._finished = self._ending = True
        self.following.clear()
        if self._frame_memory is not None and self._is_in_budget:
            self._is_in_budget = False
            self._frame_memory.received(self)
        self._notify(self._events.closed, self._reason or error)

    def _notify(self, event: Callable[..., None], *arguments: Any) -> None:
        """The fence: a fault of whoever listens costs this link and nothing else."""
        try:
            event(*arguments)
        except Exception as error:
            log.exception("a handler of network events failed; its connection is closed")
            self.abort(ConnectionClosed(f"this side failed while handling it: {type(error).__name__}: {error}"))


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

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._lend(sizehint)

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

    def __init__(
        self, server: asyncio.AbstractServer, addresses: Sequence[Address], handshakes: set[TlsStream]
    ) -> None:
        self._server = server
        self._handshakes = handshakes
        self.addresses = addresses

    @property
    def port(self) -> int:
        return self.addresses[0][1]

    def close(self) -> None:
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
        return NotConnected(f"{where} refused the connection; nothing listens there")
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
