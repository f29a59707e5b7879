"""A member's end of the metadata socket: one thread that reads, one call at a time from other threads.

1. The thread connects, says hello, and reads: notices and answers come in the order in which things became true.
   `adopt`, where a call has one, runs on that thread, in that order.
2. A connection that ends is made again, with pauses that grow up to LONGEST_PAUSE_S, until `close`. Each new one says
   which registrations the member had.
3. A call that only asks, and one that may be made twice, waits for a connection for WAIT_S and is made again when its
   connection ended; after that, and for every other call, it is NoSession. An answer that does not come within
   ANSWER_LIMIT_S ends the connection.
4. A sign of life goes out when nothing was read for a third of the session time-out.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from ottla.cluster.store.interface import NoSession
from ottla.cluster.store.served.wire import FRAME_LIMIT_BYTES, BadFrame, Frames, frame, read_error
from ottla.errors import OttlaError

WAIT_S: Final = 5.0
ATTEMPTS: Final = 5
ANSWER_LIMIT_S: Final = 30.0
SEND_LIMIT_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 0.5
READ_BYTES: Final = 1 << 16
SIGNS_PER_TIMEOUT: Final = 3

log = logging.getLogger(__name__)


class Listener(Protocol):
    """Who hears what comes; all calls are on the connection's thread."""

    def hello(self) -> dict[str, Any]:
        """The arguments of the first call."""

    def connected(self, welcome: dict[str, Any]) -> None: ...
    def noticed(self, notice: dict[str, Any]) -> None: ...
    def disconnected(self) -> None: ...


class _Call:
    """A call that waits for its answer."""

    def __init__(self, number: int, adopt: Callable[[Any], None]) -> None:
        self.number = number
        self.adopt = adopt
        self.done = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.done.set()


class Connection:
    """See above."""

    def __init__(self, path: Path, listener: Listener) -> None:
        self.session_timeout_ms = 18_000.0
        self._path = path
        self._listener = listener
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()  # guards the socket, the call that waits, and sending
        self._one_at_a_time = threading.Lock()
        self._is_there = threading.Event()
        self._closed = threading.Event()
        self._waiting: _Call | None = None
        self._last_number = 0
        self._thread = threading.Thread(target=self._run, name="ottla-metadata", daemon=True)

    def start(self, limit_s: float) -> None:
        """Connect; NoSession when nobody answers within the limit."""
        self._thread.start()
        if not self._is_there.wait(limit_s):
            self.close()
            raise NoSession(f"nobody answers at {self._path}")

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._shut()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    # --- calls ---

    def call(
        self, name: str, *, again: bool = False, adopt: Callable[[Any], None] = lambda value: None, **arguments: Any
    ) -> Any:
        """The answer. `again`: it may be made twice."""
        with self._one_at_a_time:
            for _ in range(ATTEMPTS if again else 1):
                if again and not self._closed.is_set():
                    self._is_there.wait(WAIT_S)
                call = self._send(name, arguments, adopt)
                if not call.done.wait(ANSWER_LIMIT_S):
                    self._give_up()
                    call.done.wait()
                if not isinstance(call.error, NoSession):
                    break
            if call.error is not None:
                raise call.error
            return call.value

    def _give_up(self) -> None:
        """Nobody answers on this connection: it ends, and the thread makes another."""
        log.warning("the metadata store did not answer for %g s", ANSWER_LIMIT_S)
        with self._lock:
            self._shut()

    def _send(self, name: str, arguments: dict[str, Any], adopt: Callable[[Any], None]) -> _Call:
        with self._lock:
            if self._socket is None or not self._is_there.is_set():
                raise NoSession(f"nobody answers at {self._path}")
            self._last_number += 1
            self._waiting = call = _Call(self._last_number, adopt)
            try:
                self._socket.sendall(frame({"id": call.number, "call": name, **arguments}))
            except OSError:
                self._shut()  # the thread notices, and the call fails with the connection
            return call

    # --- the thread ---

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._closed.is_set():
            try:
                for content in self._frames():
                    self._take(content)
                    pause_s = FIRST_PAUSE_S
            except (OSError, OttlaError) as error:
                log.debug("no connection to the metadata store: %s", error)
            except Exception:
                log.exception("what the metadata store said could not be understood")
            self._lost()
            self._closed.wait(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _frames(self) -> Iterator[dict[str, Any]]:
        """Connect, and give what comes until the connection ends."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.closing(made):
            made.settimeout(SEND_LIMIT_S)
            made.connect(str(self._path))
            with self._lock:
                self._socket = made
            if self._closed.is_set():
                return
            made.sendall(frame({"id": 0, "call": "hello", **self._listener.hello()}))
            frames = Frames(FRAME_LIMIT_BYTES)
            while data := self._read(made):
                yield from frames.feed(data)

    def _read(self, made: socket.socket) -> bytes:
        sign_s = self.session_timeout_ms / 1000 / SIGNS_PER_TIMEOUT
        while not select.select([made], [], [], sign_s)[0]:
            with self._lock:
                made.sendall(frame({"id": -1, "call": "ping"}))
        return made.recv(READ_BYTES)

    def _take(self, content: dict[str, Any]) -> None:
        if "event" in content:
            self._listener.noticed(content)
        elif content.get("id") == 0:
            if "error" in content:
                raise read_error(content["error"])
            self.session_timeout_ms = float(content["value"]["session_timeout_ms"])
            self._listener.connected(content["value"])
            self._is_there.set()
        elif content.get("id") != -1:
            self._answered(content)

    def _answered(self, content: dict[str, Any]) -> None:
        with self._lock:
            call, self._waiting = self._waiting, None
        if call is None or content.get("id") != call.number:
            raise BadFrame("an answer to a question that nobody asked")
        try:
            if "error" in content:
                call.error = read_error(content["error"])
            else:
                call.adopt(content.get("value"))
                call.value = content.get("value")
        except Exception as error:
            call.error = error
        finally:
            call.done.set()

    def _lost(self) -> None:
        with self._lock:
            was_there = self._is_there.is_set()
            self._is_there.clear()
            self._shut()
            call, self._waiting = self._waiting, None
        if was_there:
            self._listener.disconnected()
        if call is not None:
            call.fail(NoSession("the connection to the metadata store ended"))

    def _shut(self) -> None:
        made, self._socket = self._socket, None
        if made is not None:
            with contextlib.suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)
