"""A link, one open connection that carries frames, and whoever makes links: what both promise.

framed_link.py keeps the promises that need no socket, transport.py is TCP and TLS on an event loop, testing/network.py
and simulation/network.py are its twins in memory.

A link calls four methods of its LinkEvents, always on the loop:
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

import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.net.framing import REQUEST_SIZE_LIMIT_BYTES, Buffer

if TYPE_CHECKING:
    from ottla.net.tls.stream import ServerTls

Address: TypeAlias = tuple[str, int]


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
