"""The keeper of the truth on its socket; the acting half of answers.py.

1. The socket is a file that only its owner can open (0600): who may is decided by the file system.
2. A session is a connection. It ends when the connection does, or when its member gave no sign of life for the session
   time-out (a process that was stopped); the member begins a new one when it comes back.
3. Bounds: CONNECTIONS_LIMIT members; a frame of HELLO_LIMIT_BYTES before the first call and FRAME_LIMIT_BYTES after
   it; a member that does not read loses its session when UNREAD_LIMIT_BYTES wait for it.
4. What the disk cannot write is refused. When the disk failed, `failed` is set: nothing can become true here any more,
   and only a new process, which reads what the disk has, can say what is.
5. Everything runs on one loop, and a commit waits for the disk there: nobody else's work waits with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path
from typing import Any, Final

from ottla.clock import Clock
from ottla.cluster.json_values import MalformedValue
from ottla.cluster.store.interface import StoreFailed
from ottla.cluster.store.member import Notice
from ottla.cluster.store.served.answers import answer
from ottla.cluster.store.served.kept import KeptTruth
from ottla.cluster.store.served.wire import (
    FRAME_LIMIT_BYTES,
    HELLO_LIMIT_BYTES,
    BadFrame,
    Frames,
    frame,
    write_notice,
)
from ottla.errors import OttlaError

CONNECTIONS_LIMIT: Final = 256
UNREAD_LIMIT_BYTES: Final = 2 * FRAME_LIMIT_BYTES
BACKLOG: Final = 128
CHECKS_PER_TIMEOUT: Final = 4

log = logging.getLogger(__name__)


class StoreServer:
    """See above. `grace_ms` is how long brokers that were registered before the start may take to come back."""

    def __init__(self, truth: KeptTruth, path: Path, clock: Clock, *, grace_ms: float) -> None:
        self.truth = truth
        self.failed = asyncio.Event()
        self.all_gone = asyncio.Event()  # nobody is connected
        self.all_gone.set()
        self._path = path
        self._clock = clock
        self._grace_ms = grace_ms
        self._server: asyncio.AbstractServer | None = None
        self._sessions: set[_Session] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        listening = _bound(self._path)
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: _Session(self, self._clock), sock=listening, backlog=BACKLOG
        )
        self._tasks = [asyncio.ensure_future(self._end_silent()), asyncio.ensure_future(self._end_unclaimed())]

    async def stop(self) -> None:
        """No more connections; those that there are end."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in list(self._sessions):
            each.abort("the store stops")
        self._path.unlink(missing_ok=True)

    async def _end_unclaimed(self) -> None:
        if self._grace_ms:
            await self._clock.sleep(self._grace_ms)
        if gone := self.truth.end_unclaimed():
            log.warning("brokers %s did not come back and count as gone", ", ".join(map(str, gone)))

    async def _end_silent(self) -> None:
        timeout_ms = self.truth.session_timeout_ms
        while True:
            await self._clock.sleep(timeout_ms / CHECKS_PER_TIMEOUT)
            now_ms = self._clock.monotonic_ms()
            for each in list(self._sessions):
                if now_ms - each.heard_ms > timeout_ms:
                    each.abort(f"no sign of life for {timeout_ms / 1000:g} s")

    # --- what sessions do ---

    def admit(self, session: _Session) -> bool:
        if len(self._sessions) >= CONNECTIONS_LIMIT:
            return False
        self._sessions.add(session)
        self.all_gone.clear()
        self.truth.seats.append(session)
        return True

    def end(self, session: _Session) -> None:
        if session not in self._sessions:
            return
        self._sessions.discard(session)
        self.truth.seats.remove(session)
        if not self._sessions:
            self.all_gone.set()
        try:
            self.truth.end_session(session)
        except OttlaError:
            log.exception("that a member is gone could not be written")
            self.failed.set()

    def answer(self, session: _Session, request: dict[str, Any]) -> list[dict[str, Any]]:
        answered = answer(self.truth, session, request)
        if answered[0].get("error", [""])[0] == StoreFailed.__name__:
            self.failed.set()
        return answered


class _Session(asyncio.Protocol):
    """One connection: the Seat of its member."""

    def __init__(self, server: StoreServer, clock: Clock) -> None:
        self.has_session = False
        self.watches_everything = False
        self.heard_ms = clock.monotonic_ms()
        self._server = server
        self._clock = clock
        self._frames = Frames(HELLO_LIMIT_BYTES)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._server.admit(self):
            self.abort(f"{CONNECTIONS_LIMIT} are connected already")

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._server.end(self)

    def data_received(self, data: bytes) -> None:
        self.heard_ms = self._clock.monotonic_ms()
        try:
            for request in self._frames.feed(data):
                self._answer(request)
        except (BadFrame, MalformedValue) as error:
            self.abort(str(error))

    def _answer(self, request: dict[str, Any]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if not self.has_session:
            if request.get("call") != "hello":
                raise BadFrame("the first call is not hello")
            self.has_session = True
            self._frames.limit_bytes = FRAME_LIMIT_BYTES
        self._send(*self._server.answer(self, request))

    def put(self, *notices: Notice) -> None:
        self._send(*map(write_notice, notices))

    def _send(self, *contents: dict[str, Any]) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        for content in contents:
            transport.write(frame(content))
        if transport.get_write_buffer_size() > UNREAD_LIMIT_BYTES:
            self.abort("it does not read what it is told")

    def abort(self, why: str) -> None:
        """End the session at once."""
        transport, self._transport = self._transport, None
        if transport is not None:
            log.warning("a connection to the metadata store ends: %s", why)
            transport.abort()
        self._server.end(self)


def _bound(path: Path) -> socket.socket:
    """A socket at that path that only we can open. What is left of an earlier process is in the way, and goes."""
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(str(path))
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(before)
    made.setblocking(False)
    return made
