"""TLS of accepted connections: handshakes that fail, stop half-way or never begin, on both kinds of loops."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.patience import HANG_S
from tests.unit.net.test_transport import Recorder, framed
from tests.unit.net.tls_files import TlsFiles

from ottla.client.loop import BackgroundLoop
from ottla.net.link import LinkSettings, Listener
from ottla.net.tls import TlsOptions, client_context, server_context
from ottla.net.tls.stream import SHARED_BYTES
from ottla.net.transport import TcpTransport


class Tls:
    """Counts handshakes, and lets only those in that it likes."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.admitted = 0
        self.is_open = True
        self.wait_ms = 0.0
        self.endings: list[str | None] = []
        self.changed = asyncio.Event()

    def admits(self, address: str) -> float | None:
        assert address == "127.0.0.1"
        self.admitted += self.is_open
        return self.wait_ms if self.is_open else None

    def ended(self, address: str, failure: str | None) -> None:
        self.endings.append(failure)
        self.changed.set()

    async def until_ended(self, count: int) -> None:
        async with asyncio.timeout(HANG_S):
            while len(self.endings) < count:
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


Test = Callable[["World"], Coroutine[Any, Any, None]]


class World:
    """A listener with TLS that counts."""

    def __init__(self, files: TlsFiles, **settings: Any) -> None:
        self.files = files
        self.tls = Tls(server_context(TlsOptions(store_location=str(files.server))))
        self.settings = LinkSettings(**settings)
        self.servers: list[Recorder] = []
        self.listener: Listener

    async def listen(self) -> None:
        self.listener = await TcpTransport().serve("127.0.0.1", 0, self._make, tls=self.tls, settings=self.settings)

    def _make(self) -> Recorder:
        self.servers.append(Recorder())
        return self.servers[-1]

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.listener.port)

    async def connect(self) -> tuple[Recorder, Any]:
        client = Recorder()
        context = client_context(TlsOptions(ca_location=str(self.files.ca)))
        return client, await TcpTransport().connect("localhost", self.listener.port, client, tls=context)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, files: TlsFiles) -> Callable[..., None]:
    def run_test(test: Test, **settings: Any) -> None:
        async def scenario() -> None:
            unhandled: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
            world = World(files, **settings)
            await world.listen()
            try:
                await test(world)
            finally:
                world.listener.close()
                world.listener.abort_handshakes()
                await asyncio.sleep(0)
            assert unhandled == []

        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(scenario())

    return run_test


@pytest.mark.parametrize("start", [b"", b"\x16", bytes.fromhex("1603010200010001fc0303")], ids=["mute", "byte", "half"])
def test_a_handshake_that_stops_half_way_is_ended_in_time(run: Callable[..., None], start: bytes) -> None:
    async def test(world: World) -> None:
        reader, writer = await world.raw()
        writer.write(start)
        assert await asyncio.wait_for(reader.read(), HANG_S) == b""
        writer.close()
        assert world.tls.endings == ["it was not complete within 0.2 s"]
        assert world.servers == []  # nobody was told of a link that never was

    run(test, handshake_limit_ms=200)


def test_others_are_served_while_many_handshakes_stop_half_way(run: Callable[..., None]) -> None:
    async def test(world: World) -> None:
        stuck = [await world.raw() for _ in range(50)]
        for _, writer in stuck:
            writer.write(b"\x16\x03\x01\x02\x00")
        client, link = await world.connect()
        link.write(framed(b"hello"))
        await world.tls.until_ended(1)
        await world.servers[0].until(lambda: world.servers[0].frames == [b"hello"])
        assert world.tls.endings == [None]
        for _, writer in stuck:
            writer.close()
        await world.tls.until_ended(51)
        assert set(world.tls.endings[1:]) == {"it left before it was complete"}
        link.close()
        await client.until(lambda: client.endings)

    run(test)


@pytest.mark.parametrize(
    ("junk", "why"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", "it speaks HTTP, not TLS"),
        (bytes.fromhex("0000001a0012000300000001"), "does not speak TLS"),
        (b"\x16\x03\x01\x00\x05hello", "unexpected message|length|bad"),
    ],
)
def test_what_is_not_tls_is_named(run: Callable[..., None], junk: bytes, why: str) -> None:

    async def test(world: World) -> None:
        reader, writer = await world.raw()
        writer.write(junk)
        await asyncio.wait_for(reader.read(), HANG_S)
        writer.close()
        await world.tls.until_ended(1)
        assert re.search(why, str(world.tls.endings[0]))

    run(test)


def test_who_is_not_admitted_costs_no_handshake(run: Callable[..., None]) -> None:
    async def test(world: World) -> None:
        world.tls.is_open = False
        reader, writer = await world.raw()
        try:
            assert await asyncio.wait_for(reader.read(), HANG_S) == b""
        except ConnectionResetError:
            pass
        writer.close()
        assert world.tls.endings == []

    run(test)


def test_who_comes_too_fast_waits_for_its_turn_and_then_goes_on(run: Callable[..., None]) -> None:
    async def test(world: World) -> None:
        world.tls.wait_ms = 100
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        client, link = await world.connect()
        link.write(framed(b"hello"))
        await world.tls.until_ended(1)
        assert loop.time() - began_s >= 0.09
        server = world.servers[0]
        await server.until(lambda: server.frames == [b"hello"])
        link.close()
        await client.until(lambda: client.endings)

    run(test)


def test_who_leaves_before_its_turn_is_counted_out(run: Callable[..., None]) -> None:
    async def test(world: World) -> None:
        world.tls.wait_ms = 3_600_000
        reader, writer = await world.raw()
        writer.write(b"\x16" * 10)
        writer.close()
        world.listener.abort_handshakes()
        await world.tls.until_ended(1)
        assert reader is not None

    run(test)


def test_a_client_is_told_that_its_certificate_is_missing(run: Callable[..., None], files: TlsFiles) -> None:
    """In TLS 1.3 the alert comes after the client's first request is on its way; it must not be lost for that."""

    async def test(world: World) -> None:
        asks = TlsOptions(store_location=str(files.server), ca_location=str(files.ca), client_auth="required")
        world.tls.context = server_context(asks)
        client, link = await world.connect()
        link.write(framed(bytes(100_000)))
        await client.until(lambda: client.endings)
        assert "wants a certificate of ours" in str(client.endings[0])
        assert world.tls.endings == ["it showed no certificate, and ssl.client.auth is required"]

    run(test)


def test_frames_wait_while_nobody_reads_and_come_in_order(run: Callable[..., None]) -> None:
    bodies = [bytes([number]) * size for number, size in enumerate((10, SHARED_BYTES, 5, 3 * SHARED_BYTES, 20_000, 1))]

    async def test(world: World) -> None:
        client, link = await world.connect()
        await world.tls.until_ended(1)
        server = world.servers[0]
        await server.until(lambda: server.link)
        assert server.link is not None
        server.link.pause_reading()
        for body in bodies:
            link.write(framed(body))
        for _ in range(20):
            await asyncio.sleep(0)
        assert server.frames == []
        server.link.resume_reading()
        await server.until(lambda: len(server.frames) == len(bodies))
        assert server.frames == bodies
        server.link.write(framed(*reversed(bodies)))
        await client.until(lambda: len(client.frames) == len(bodies))
        assert client.frames == bodies[::-1]
        link.close()
        await server.until(lambda: server.endings)
        assert server.endings == [None]

    run(test)


def test_bytes_that_were_changed_on_the_way_end_the_link(run: Callable[..., None], files: TlsFiles) -> None:
    async def test(world: World) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_context(TlsOptions(ca_location=str(files.ca)))
        mine = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        reader, writer = await world.raw()
        while True:
            try:
                mine.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await asyncio.wait_for(reader.read(65_536), HANG_S))
        mine.write(b"\0\0\0\1x")
        changed = bytearray(outgoing.read())
        changed[-1] ^= 1
        writer.write(changed)
        await world.tls.until_ended(1)
        server = world.servers[0]
        await server.until(lambda: server.endings)
        assert server.endings != [None]
        assert server.frames == []
        writer.close()

    run(test)


def test_a_listener_that_closes_lets_handshakes_go_on(files: TlsFiles, tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(files)
        await world.listen()
        port = world.listener.port
        raw = socket.create_connection(("127.0.0.1", port))
        await asyncio.sleep(0.05)  # accepted
        world.listener.close()
        context = client_context(TlsOptions(ca_location=str(files.ca)))
        loop = asyncio.get_running_loop()
        wrapped = await loop.run_in_executor(None, lambda: context.wrap_socket(raw, server_hostname="localhost"))
        await world.tls.until_ended(1)
        assert world.tls.endings == [None]
        wrapped.close()

    asyncio.run(scenario())


def shake_hands_and_keep_still(context: ssl.SSLContext, listening: socket.socket, done: threading.Event) -> None:
    """A server that never says goodbye: OpenSSL would answer the client's only while it reads."""
    connection, _ = listening.accept()
    with context.wrap_socket(connection, server_side=True):
        done.wait(HANG_S)


def test_a_loop_may_end_while_the_other_side_has_not_said_goodbye(files: TlsFiles) -> None:
    context = server_context(TlsOptions(store_location=str(files.server)))
    trusting = client_context(TlsOptions(ca_location=str(files.ca)))
    done, loop = threading.Event(), BackgroundLoop("client")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=shake_hands_and_keep_still, args=(context, listening, done))
        server.start()
        events = Recorder()
        connecting = TcpTransport().connect("127.0.0.1", listening.getsockname()[1], events, tls=trusting)
        link = loop.run(connecting, HANG_S)
        loop.call_soon(link.close)
        loop.close(HANG_S)  # what the thread raises, and a socket left open, fails the test
        done.set()
        server.join(HANG_S)
    assert events.endings == [None]
