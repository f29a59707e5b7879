"""TLS on an accepted connection: between the loop's transport below and a link above.

    bytes of the socket → buffer_updated → incoming → SSL object → the link's own buffer
    link.write → SSL object → outgoing → the transport below

The loops' own TLS cannot change its context while it listens, does not say who failed and why, and has a
buffer of 256 KB for every connection. So here:

1. Every connection asks its listener for the context when it begins: new certificates count from then on, and whoever
   is connected stays.
2. Whether and when somebody may begin is asked with his address, before any work is done for him. A handshake ends
   within `handshake_limit_ms`; how it ended is said to the listener once, in words. The other side gets TLS's alert.
3. The link is made when the handshake is complete; it sees a transport like any other.
4. All connections of a thread share one buffer for what is encrypted: it is empty again before the loop goes on.
   Decrypted bytes go straight into the frame they belong to.
5. While the link does not read, nothing is decrypted; what the socket gave stays encrypted, one buffer at most.
6. What is written while bytes are decrypted is encrypted at once and leaves when all that came together is delivered,
   or when it is HOLD_LIMIT_BYTES: a system call and a packet for each answer would cost more than its encryption.
7. Nothing waits for the other side's goodbye: ours is sent, and the connection closed.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from ottla.net.framing import Buffer
from ottla.net.tls.words import handshake_failure

SHARED_BYTES: Final = 262_144
HOLD_LIMIT_BYTES: Final = 16_384
LINGER_S: Final = 1.0


class ServerTls(Protocol):
    """What a listener has to say about TLS."""

    @property
    def context(self) -> ssl.SSLContext:
        """For handshakes that begin now."""

    def admits(self, address: str) -> float | None:
        """After how many milliseconds a handshake with this address may begin; None when it may not, and only then no
        `ended` follows."""

    def ended(self, address: str, failure: str | None) -> None:
        """The handshake is over; None is a success."""


class FixedTls:
    """One context for all time, and everybody may come."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context

    def admits(self, address: str) -> float | None:
        return 0

    def ended(self, address: str, failure: str | None) -> None:
        """Nobody keeps count."""


class StreamEvents(Protocol):
    """The link above: what asyncio calls a buffered protocol."""

    def connection_made(self, transport: Any) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


class _Shared(threading.local):
    """The buffer of a thread's loop."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(SHARED_BYTES))


_shared = _Shared()


class TlsStream(asyncio.BufferedProtocol):
    """Protocol of the transport below, transport of the link above."""

    gathers = True  # writelines encrypts buffer by buffer and hands over the result at once

    def __init__(
        self,
        make_link: Callable[[], StreamEvents],
        tls: ServerTls,
        handshake_limit_ms: float,
        handshakes: set[TlsStream],
    ) -> None:
        """`handshakes` are those that have begun and not ended, for who must end them."""
        self._make_link = make_link
        self._handshakes = handshakes
        self._tls = tls
        self._limit_s = handshake_limit_ms / 1000
        # Only Windows' loop reads into a buffer after it has let others go on.
        self._encrypted = memoryview(bytearray(SHARED_BYTES)) if sys.platform == "win32" else _shared.view
        self._link: StreamEvents | None = None
        self._below: Any = None
        self._address = "unknown"
        self._timer: asyncio.TimerHandle | None = None
        self._is_shaking_hands = False
        self._is_waiting = False  # for its turn to shake hands
        self._is_paused = False
        self._is_closing = False
        self._is_delivering = False  # the link has what was decrypted, and answers
        self._failure: Exception | None = None

    # --- the handshake ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = transport
        name = transport.get_extra_info("peername")
        self._address = str(name[0]) if isinstance(name, tuple) else "unknown"
        wait_ms = self._tls.admits(self._address)
        if wait_ms is None:
            self._is_closing = True
            self._below.abort()
            return
        self._is_shaking_hands = True
        self._handshakes.add(self)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        if wait_ms > 0:
            self._is_waiting = True
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._stop_waiting)
        else:
            self._begin()

    def _stop_waiting(self) -> None:
        self._is_waiting = False
        self._begin()
        self._below.resume_reading()
        if self._incoming.pending:
            self._shake_hands()

    def _begin(self) -> None:
        self._context = self._tls.context
        self._object = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._timer = asyncio.get_running_loop().call_later(self._limit_s, self._handshake_is_late)

    def _shake_hands(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except (ssl.SSLError, OSError) as error:
            self._handshake_ends(handshake_failure(error))
            self._refuse()
            return
        self._flush()
        self._handshake_ends(None)
        self._link = self._make_link()
        self._link.connection_made(self)
        self._decrypt()

    def _refuse(self) -> None:
        """Let TLS's alert reach the other side: closed at once, with bytes of its that nobody has read, the system
        would take the alert back. So its bytes are read and forgotten for a moment."""
        self._flush()
        self._is_closing = True
        self._below.write_eof()
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._below.abort)

    def _handshake_is_late(self) -> None:
        self._handshake_ends(f"it was not complete within {self._limit_s:g} s")
        self._is_closing = True
        self._below.abort()

    def _handshake_ends(self, failure: str | None) -> None:
        if self._is_shaking_hands:
            self._is_shaking_hands = False
            self._handshakes.discard(self)
            if self._timer is not None:
                self._timer.cancel()
            self._tls.ended(self._address, failure)

    # --- what the transport below calls ---

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._encrypted

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_closing:
            return
        self._incoming.write(self._encrypted[:nbytes])
        if self._is_waiting:
            self._below.pause_reading()  # what came is enough until its turn
        elif self._link is None:
            self._shake_hands()
        else:
            self._decrypt()

    def eof_received(self) -> None:
        """None lets the loop close the connection: half a connection is of no use."""

    def pause_writing(self) -> None:
        if self._link is not None:
            self._link.pause_writing()

    def resume_writing(self) -> None:
        if self._link is not None:
            self._link.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._handshake_ends("it left before it was complete")
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self._link.connection_lost(self._failure or exc)

    # --- reading ---

    def _decrypt(self) -> None:
        """Hand over what is there, as long as the link reads."""
        link = self._link
        if link is None:
            return
        self._is_delivering = True
        try:
            self._deliver(link)
        except (ssl.SSLError, OSError) as error:
            self._flush()
            self._end(error)
        finally:
            self._is_delivering = False
        if not self._is_closing:
            self._flush()  # answers, or TLS's own to a change of keys

    def _deliver(self, link: StreamEvents) -> None:
        while not self._is_paused and not self._is_closing and self._has_more():
            room = link.get_buffer(self._incoming.pending)
            size = len(room)
            filled = self._fill(room, size)
            del room  # held by nobody now: the link may resize it
            if filled:
                link.buffer_updated(filled)
            if filled < size:
                break  # nothing is left but a part of a record

    def _has_more(self) -> bool:
        return bool(self._incoming.pending or self._object.pending())

    def _fill(self, room: memoryview, size: int) -> int:
        """Decrypt into a buffer until it is full or nothing is left; a read gives one record of TLS at most, and all of
        it if there is room."""
        read: Any = self._object.read  # returns a count when it is given a buffer
        incoming, filled = self._incoming, 0
        try:
            count: int = read(size, room)
            while count:
                filled += count
                if filled == size or not incoming.pending:
                    return filled
                count = read(size - filled, room[filled:])
        except ssl.SSLWantReadError:
            return filled
        self.close()  # the other side said goodbye
        return filled

    def pause_reading(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_paused or self._is_closing:
            return
        self._is_paused = False
        self._below.resume_reading()
        if self._has_more():
            asyncio.get_running_loop().call_soon(self._decrypt)

    # --- writing ---

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, buffers: Sequence[Buffer]) -> None:
        if self._is_closing:
            return
        try:
            for buffer in buffers:
                self._encrypt(buffer)
        except (ssl.SSLError, OSError) as error:
            self._end(error)
            return
        if not self._is_delivering or self._outgoing.pending >= HOLD_LIMIT_BYTES:
            self._flush()

    def _encrypt(self, buffer: Buffer) -> None:
        size = buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
        done = self._object.write(buffer) if size else 0
        while done < size:
            done += self._object.write(memoryview(buffer)[done:])

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._below.write(self._outgoing.read())

    # --- the end ---

    def close(self) -> None:
        """Say goodbye; what waits is written."""
        if self._is_closing:
            return
        self._is_closing = True
        try:
            self._object.unwrap()
        except (ssl.SSLError, OSError, ValueError):
            pass  # wants the other side's goodbye, which nobody waits for
        self._flush()
        self._below.close()

    def abort(self) -> None:
        self._is_closing = True
        self._below.abort()

    def _end(self, failure: Exception) -> None:
        """Something cannot be understood: close at once, but let TLS's alert leave if there is room for it."""
        self._failure = self._failure or failure
        self._is_closing = True
        if self._below.get_write_buffer_size():
            self._below.abort()
        else:
            self._below.close()

    # --- the rest of a transport ---

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        size: int = self._below.get_write_buffer_size()
        return size + self._outgoing.pending

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._object
        if name == "sslcontext":
            return self._context
        return self._below.get_extra_info(name, default)
