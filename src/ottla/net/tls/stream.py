"""TLS on an accepted connection: between the loop's transport below and a link above.

Here a connection begins and ends; what happens to its data in between is in data_path.py, which has a native twin.

The loops' own TLS cannot change its context while it listens, does not say who failed and why, and has a
buffer of 256 KB for every connection. So here:

1. Every connection asks its listener for the context when it begins: new certificates count from then on, and whoever
   is connected stays.
2. Whether and when somebody may begin is asked with his address, before any work is done for him. A handshake ends
   within `handshake_limit_ms`; how it ended is said to the listener once, in words. The other side gets TLS's alert.
3. The link is made when the handshake is complete; it sees a transport like any other.
4. All connections of a thread share one buffer for what is encrypted: it is empty again before the loop goes on.
   Decrypted bytes go straight into the frame they belong to.
5. Nothing waits for the other side's goodbye: ours is sent, and the connection closed.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.net.tls.data_choice import DataPath
from ottla.net.tls.data_path import StreamEvents
from ottla.net.tls.words import handshake_failure

if TYPE_CHECKING:
    from ottla.net.tls.data_path import DataPath as _Base
else:
    _Base = object  # either twin comes in behind it

SHARED_BYTES: Final = 262_144
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


class _Shared(threading.local):
    """The buffer of a thread's loop."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(SHARED_BYTES))


_shared = _Shared()


class TlsSession(_Base):
    """The beginning and the end of a connection, over either twin of the data path."""

    def __init__(
        self,
        make_link: Callable[[], StreamEvents],
        tls: ServerTls,
        handshake_limit_ms: float,
        handshakes: set[Any],
    ) -> None:
        """`handshakes` are those that have begun and not ended, for who must end them."""
        # Only Windows' loop reads into a buffer after it has let others go on.
        super().__init__(memoryview(bytearray(SHARED_BYTES)) if sys.platform == "win32" else _shared.view)
        self._make_link = make_link
        self._handshakes = handshakes
        self._tls = tls
        self._limit_s = handshake_limit_ms / 1000
        self._address = "unknown"
        self._timer: asyncio.TimerHandle | None = None
        self._is_shaking_hands = False
        self._is_waiting = False  # for its turn to shake hands

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
        self._decrypt(self._incoming.read())  # what came with the last of the handshake

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

    def _handshake_received(self) -> None:
        if self._is_waiting:
            self._below.pause_reading()  # what came is enough until its turn
        else:
            self._shake_hands()

    # --- what the transport below calls ---

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
        """Close at once, but let answers and TLS's alert leave if nothing waits already."""
        if self._is_closing:
            return
        self._failure = self._failure or failure
        self._is_closing = True
        is_free = not self._below.get_write_buffer_size()
        self._flush()
        if is_free:
            self._below.close()
        else:
            self._below.abort()

    # --- the rest of a transport ---

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high=high, low=low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._object
        if name == "sslcontext":
            return self._context
        return self._below.get_extra_info(name, default)


class TlsStream(TlsSession, DataPath, asyncio.BufferedProtocol):
    """Protocol of the transport below, transport of the link above."""
