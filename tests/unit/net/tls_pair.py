"""A client's TLS and a stream that serves it, without a socket between them, for both twins of the data path."""

from __future__ import annotations

import asyncio
import importlib
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.net.test_transport import framed
from tests.unit.net.tls_files import TlsFiles

from ottla.native import is_built
from ottla.net.link import Link, LinkSettings
from ottla.net.tls import TlsOptions, client_context, data_path, server_context
from ottla.net.tls.stream import FixedTls, TlsSession
from ottla.net.transport import StreamLink

NATIVE = "ottla.net.tls._data_path"


class PythonStream(TlsSession, data_path.DataPath, asyncio.BufferedProtocol):
    """A stream over the readable twin, whatever was chosen."""


def native_stream() -> type[TlsSession]:
    twin = importlib.import_module(NATIVE)
    return type("NativeStream", (TlsSession, twin.DataPath, asyncio.BufferedProtocol), {})


STREAMS = {"python": PythonStream, **({"native": native_stream()} if is_built(NATIVE) else {})}
each_stream = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)


class Below:
    """A transport that keeps what is written to it, call by call."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.waiting_bytes = 0
        self.is_reading = True
        self.is_closed = False
        self.was_aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.writes.append(data)

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def set_write_buffer_limits(self, **limits: int) -> None: ...

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write_eof(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.was_aborted = True


class Answering:
    """Answers every frame."""

    def __init__(self, answer: Callable[[Link, bytes], None]) -> None:
        self._answer = answer
        self.frames: list[bytes] = []
        self.endings: list[Exception | None] = []

    def opened(self, link: Link) -> None:
        self.link = link

    def frame_received(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self._answer(self.link, bytes(frame))

    def writable_changed(self, writable: bool) -> None: ...

    def closed(self, error: Exception | None) -> None:
        self.endings.append(error)


class Pair:
    """Both sides after their handshake."""

    def __init__(
        self,
        files: TlsFiles,
        answer: Callable[[Link, bytes], None],
        stream: type[TlsSession],
        adapt: Callable[[ssl.SSLContext], None] = lambda context: None,
    ) -> None:
        self.below, self.events = Below(), Answering(answer)
        server = FixedTls(server_context(TlsOptions(store_location=str(files.server))))
        self.stream = stream(lambda: StreamLink(self.events, LinkSettings()), server, 60_000, set())
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_context(TlsOptions(ca_location=str(files.ca)))
        adapt(context)
        self.client = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.stream.connection_made(self.below)  # type: ignore[arg-type]
        self.alert: str | None = None  # what the client heard last
        self.kept = b""  # the client's last message of the handshake, in TLS 1.3
        self._shake_hands()

    def _shake_hands(self) -> None:
        while True:
            try:
                self.client.do_handshake()
                self.kept = self._outgoing.read()
                return
            except ssl.SSLWantReadError:
                self.deliver(self._outgoing.read())
                for data in self.below.writes:
                    self._incoming.write(data)
                self.below.writes.clear()

    def finish_handshake(self) -> None:
        kept, self.kept = self.kept, b""
        self.deliver(kept)
        for data in self.below.writes:
            self._incoming.write(data)
        self.below.writes.clear()

    def encrypted(self, *bodies: bytes) -> bytes:
        self.client.write(b"".join(framed(*bodies)))
        return self._outgoing.read()

    def goodbye(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self.client.unwrap()
        return self._outgoing.read()

    def deliver(self, encrypted: bytes) -> None:
        """All at once, as far as the buffer goes."""
        while encrypted:
            room = self.stream.get_buffer(-1)
            count = min(len(room), len(encrypted))
            room[:count] = encrypted[:count]
            self.stream.buffer_updated(count)
            encrypted = encrypted[count:]

    def decrypted(self) -> bytes:
        """What the client can read of the writes so far."""
        for data in self.below.writes:
            self._incoming.write(data)
        self.below.writes.clear()
        found = b""
        try:
            while more := self.client.read(1 << 20):
                found += more
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        except ssl.SSLError as error:
            self.alert = str(error.reason)
        return found


def run(test: Callable[[], None]) -> None:
    """A stream has timers, so that it needs a loop."""

    async def scenario() -> None:
        test()

    asyncio.run(scenario())
