"""How often a TLS connection meets the socket: what came together is delivered together and answered by one write."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.net.test_transport import framed
from tests.unit.net.tls_files import TlsFiles

from ottla.net.framing import SIZE
from ottla.net.tls import TlsOptions, client_context, server_context
from ottla.net.tls.stream import HOLD_LIMIT_BYTES, FixedTls, TlsStream
from ottla.net.transport import Link, LinkSettings, StreamLink


class Below:
    """A transport that keeps what is written to it, call by call."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.waiting_bytes = 0
        self.is_closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.writes.append(data)

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def set_write_buffer_limits(self, **limits: int) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Answering:
    """Answers every frame, and counts how many came with the first of a delivery."""

    def __init__(self, answer: Callable[[Link, bytes], None]) -> None:
        self._answer = answer
        self.frames: list[bytes] = []

    def opened(self, link: Link) -> None:
        self.link = link

    def frame_received(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self._answer(self.link, bytes(frame))

    def writable_changed(self, writable: bool) -> None: ...
    def closed(self, error: Exception | None) -> None: ...


class Pair:
    """A client's TLS and a stream that serves it, without a socket between them."""

    def __init__(self, files: TlsFiles, answer: Callable[[Link, bytes], None]) -> None:
        self.below, self.events = Below(), Answering(answer)
        server = FixedTls(server_context(TlsOptions(store_location=str(files.server))))
        self.stream = TlsStream(lambda: StreamLink(self.events, LinkSettings()), server, 60_000, set())
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_context(TlsOptions(ca_location=str(files.ca)))
        self._client = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.stream.connection_made(self.below)  # type: ignore[arg-type]
        self._shake_hands()

    def _shake_hands(self) -> None:
        is_complete = False
        while not is_complete:
            try:
                self._client.do_handshake()
                is_complete = True
            except ssl.SSLWantReadError:
                pass
            self.deliver(self._outgoing.read())
            for data in self.below.writes:
                self._incoming.write(data)
            self.below.writes.clear()

    def encrypted(self, *bodies: bytes) -> bytes:
        self._client.write(b"".join(framed(*bodies)))
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
        found = b""
        try:
            while more := self._client.read(1 << 20):
                found += more
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


def echo(link: Link, frame: bytes) -> None:
    link.write(framed(frame))


def run(test: Callable[[], None]) -> None:
    """A stream has timers, so that it needs a loop."""

    async def scenario() -> None:
        test()

    asyncio.run(scenario())


def test_answers_to_requests_that_came_together_leave_by_one_write(files: TlsFiles) -> None:
    bodies = [bytes([number]) * 3_000 for number in range(5)]  # more than fit into the first buffer of a link

    def test() -> None:
        pair = Pair(files, echo)
        pair.deliver(pair.encrypted(*bodies))
        assert pair.events.frames == bodies
        assert len(pair.below.writes) == 1
        assert pair.decrypted() == b"".join(framed(*bodies))

    run(test)


def test_a_part_of_a_record_waits_and_holds_no_answer_back(files: TlsFiles) -> None:
    def test() -> None:
        pair = Pair(files, echo)
        encrypted = pair.encrypted(b"first") + pair.encrypted(b"second")
        pair.deliver(encrypted[:-1])
        assert pair.decrypted() == b"".join(framed(b"first"))
        pair.below.writes.clear()
        pair.deliver(encrypted[-1:])
        assert pair.decrypted() == b"".join(framed(b"second"))

    run(test)


def test_much_that_is_written_does_not_wait_for_what_is_still_to_be_delivered(files: TlsFiles) -> None:
    seen: list[int] = []
    pairs: list[Pair] = []

    def answer(link: Link, frame: bytes) -> None:
        seen.append(len(pairs[0].below.writes))
        link.write(framed(bytes(HOLD_LIMIT_BYTES)))

    def test() -> None:
        pairs.append(Pair(files, answer))
        pairs[0].deliver(pairs[0].encrypted(b"a", b"b", b"c"))
        assert seen == [0, 1, 2]
        assert len(pairs[0].decrypted()) == 3 * (HOLD_LIMIT_BYTES + SIZE.size)

    run(test)


def test_what_is_held_counts_as_waiting(files: TlsFiles) -> None:
    seen: list[int] = []
    pairs: list[Pair] = []

    def answer(link: Link, frame: bytes) -> None:
        link.write(framed(bytes(5_000)))
        seen.append(pairs[0].stream.get_write_buffer_size())

    def test() -> None:
        pairs.append(Pair(files, answer))
        pairs[0].below.waiting_bytes = 7
        pairs[0].deliver(pairs[0].encrypted(b"a"))
        assert seen[0] > 5_007
        assert pairs[0].stream.get_write_buffer_size() == 7

    run(test)


@pytest.mark.parametrize("is_kind", [True, False], ids=["close", "abort"])
def test_who_closes_while_it_answers_loses_only_what_an_abort_loses(files: TlsFiles, is_kind: bool) -> None:
    def answer(link: Link, frame: bytes) -> None:
        link.write(framed(frame))
        if frame == b"last":
            link.close() if is_kind else link.abort()

    def test() -> None:
        pair = Pair(files, answer)
        pair.deliver(pair.encrypted(b"first", b"last", b"never"))
        assert pair.events.frames == [b"first", b"last"]
        assert pair.below.is_closed
        assert pair.decrypted() == (b"".join(framed(b"first", b"last")) if is_kind else b"")

    run(test)


def test_an_answer_that_comes_later_leaves_at_once(files: TlsFiles) -> None:
    def test() -> None:
        pair = Pair(files, lambda link, frame: None)
        pair.deliver(pair.encrypted(b"question"))
        assert pair.below.writes == []
        pair.events.link.write(framed(b"answer"))
        assert pair.decrypted() == b"".join(framed(b"answer"))

    run(test)
