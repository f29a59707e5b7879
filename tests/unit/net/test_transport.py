"""One suite for every transport: sockets on asyncio and uvloop, plain and TLS, and the network in memory."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import shutil
import socket
import ssl
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patience import HANG_S

from ottla.clock import SystemClock
from ottla.errors import (
    ConnectionClosed,
    ConnectionRefused,
    FrameTooLarge,
    NotConnected,
    OttlaError,
    TlsHandshakeFailed,
)
from ottla.net.framed_link import JOIN_LIMIT_BYTES, TURN_FRAMES, gathered
from ottla.net.framing import SIZE, Buffer, frame_prefix
from ottla.net.link import Link, LinkEvents, LinkSettings, Transport
from ottla.net.transport import TcpTransport, explained
from ottla.testing.clock import ManualClock
from ottla.testing.network import MemoryNetwork, Weather


class Recorder:
    """Keeps what happened on a link and lets a test wait for it."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.frames: list[bytes] = []
        self.writable: list[bool] = []
        self.endings: list[OttlaError | None] = []
        self._something = asyncio.Event()

    def opened(self, link: Link) -> None:
        assert self.link is None
        self.link = link
        self._something.set()

    def frame_received(self, frame: memoryview) -> None:
        assert not self.endings
        self.frames.append(bytes(frame))
        self._something.set()

    def writable_changed(self, writable: bool) -> None:
        self.writable.append(writable)
        self._something.set()

    def closed(self, error: OttlaError | None) -> None:
        self.endings.append(error)
        self._something.set()

    async def until(self, happened: Callable[[], object]) -> None:
        async with asyncio.timeout(HANG_S):
            while not happened():
                self._something.clear()
                await self._something.wait()


class Echo(Recorder):
    """Sends every frame back."""

    def frame_received(self, frame: memoryview) -> None:
        super().frame_received(frame)
        assert self.link is not None
        self.link.write([frame_prefix([frame]), frame])


@dataclass
class World:
    """A transport with the host it serves and the contexts for both sides."""

    transport: Transport
    host: str
    server_tls: ssl.SSLContext | None = None
    client_tls: ssl.SSLContext | None = None

    async def pair(
        self, server: LinkEvents, *, near: LinkSettings | None = None, far: LinkSettings | None = None
    ) -> tuple[Recorder, Link]:
        """A link to a new server that tells `server` its events."""
        listener = await self.transport.serve(self.host, 0, lambda: server, tls=self.server_tls, settings=far)
        client = Recorder()
        link = await self.transport.connect(self.host, listener.port, client, tls=self.client_tls, settings=near)
        listener.close()
        if isinstance(server, Recorder):
            await server.until(lambda: server.link)
        return client, link


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for localhost, trusted by nobody but this test."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make a certificate")
    target = tmp_path_factory.mktemp("tls") / "both.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
        f" -addext subjectAltName=DNS:localhost -keyout {target} -out {target}.crt"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    target.write_text(target.read_text() + Path(f"{target}.crt").read_text())
    return target


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def make_world(kind: str, request: pytest.FixtureRequest) -> World:
    if "memory" in kind:
        weather = Weather(piece_bytes=1000) if "cut" in kind else None
        return World(MemoryNetwork(clock=SystemClock(), random=random.Random(1), weather=weather), "localhost")
    if "tls" in kind:
        certificate = request.getfixturevalue("certificate")
        trusting = ssl.create_default_context(cafile=f"{certificate}.crt")
        return World(TcpTransport(), "localhost", server_context(certificate), trusting)
    return World(TcpTransport(), "127.0.0.1")


Run = Callable[[Callable[[World], Coroutine[Any, Any, None]]], None]


def runner(kind: str) -> asyncio.Runner:
    return asyncio.Runner(loop_factory=uvloop.new_event_loop if "uvloop" in kind else asyncio.new_event_loop)


@pytest.fixture(params=["memory", "memory cut in pieces", "asyncio", "uvloop", "asyncio tls", "uvloop tls"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test in one of the worlds, on a loop that must not see a single unhandled error."""

    def run_in_world(test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        unhandled: list[dict[str, Any]] = []
        with runner(request.param) as loops:
            loops.get_loop().set_exception_handler(lambda _loop, context: unhandled.append(context))
            loops.run(test(make_world(request.param, request)))
        assert unhandled == []

    return run_in_world


def framed(*bodies: bytes) -> list[Buffer]:
    return [part for body in bodies for part in (frame_prefix([body]), body)]


# --- the suite ---


def test_frames_arrive_whole_and_in_order(run: Run) -> None:
    async def test(world: World) -> None:
        server = Echo()
        client, link = await world.pair(server)
        bodies = [b"", b"a", b"b" * 100, b"c" * 70_000, bytes(range(256)) * 12_000, b"end"]
        for body in bodies:
            link.write(framed(body))
        await client.until(lambda: len(client.frames) == len(bodies))
        assert server.frames == bodies
        assert client.frames == bodies
        link.close()
        await server.until(lambda: server.endings)

    run(test)


def test_a_listener_on_port_zero_knows_its_port_and_lets_several_in(run: Run) -> None:
    async def test(world: World) -> None:
        servers: list[Echo] = []

        def make() -> Echo:
            servers.append(Echo())
            return servers[-1]

        listener = await world.transport.serve(world.host, 0, make, tls=world.server_tls)
        assert listener.port > 0
        assert listener.addresses[0][1] == listener.port
        clients = [Recorder() for _ in range(3)]
        for number, client in enumerate(clients):
            link = await world.transport.connect(world.host, listener.port, client, tls=world.client_tls)
            assert link.remote_address is not None
            assert link.remote_address[1] == listener.port
            link.write(framed(b"%d" % number))
        for number, client in enumerate(clients):
            await client.until(lambda client=client: client.frames)  # type: ignore[misc]
            assert client.frames == [b"%d" % number]
        listener.close()
        with pytest.raises(NotConnected, match=r"refused|cannot be reached"):
            await world.transport.connect(world.host, listener.port, Recorder(), tls=world.client_tls)
        for server in servers:
            assert server.link is not None
            server.link.abort()
            await server.until(lambda server=server: server.endings)  # type: ignore[misc]

    run(test)


def test_close_delivers_what_was_written_and_both_sides_hear_it_once(run: Run) -> None:
    async def test(world: World) -> None:
        server = Recorder()
        client, link = await world.pair(server)
        body = b"x" * 3_000_000
        link.write(framed(body, b"last"))
        link.close()
        link.close()
        link.write(framed(b"too late"))
        await server.until(lambda: server.endings)
        await client.until(lambda: client.endings)
        assert server.frames == [body, b"last"]
        assert server.endings == [None]
        assert client.endings == [None]

    run(test)


def test_what_a_handler_writes_leaves_in_order_and_before_its_close(run: Run) -> None:
    class LastWords(Echo):
        def frame_received(self, frame: memoryview) -> None:
            super().frame_received(frame)
            if frame == b"end":
                assert self.link is not None
                self.link.close()

    async def test(world: World) -> None:
        client, link = await world.pair(LastWords())
        bodies = [b"small", b"x" * 50_000, b"small again", b"end"]
        link.write(framed(*bodies))
        await client.until(lambda: client.endings)
        assert client.frames == bodies

    run(test)


def test_abort_ends_both_sides_once_and_keeps_its_reason(run: Run) -> None:
    async def test(world: World) -> None:
        server = Recorder()
        client, link = await world.pair(server)
        link.abort(ConnectionClosed("enough"))
        link.abort(ConnectionClosed("again"))
        await client.until(lambda: client.endings)
        await server.until(lambda: server.endings)
        (ending,) = client.endings
        assert "enough" in str(ending)
        assert len(server.endings) == 1

    run(test)


def test_a_paused_reader_gets_nothing_until_it_resumes(run: Run) -> None:
    async def test(world: World) -> None:
        class OneAtATime(Recorder):
            def frame_received(self, frame: memoryview) -> None:
                super().frame_received(frame)
                assert self.link is not None
                self.link.pause_reading()

        server = OneAtATime()
        _, link = await world.pair(server)
        link.write(framed(*(b"%d" % number for number in range(5))))
        for number in range(5):
            await server.until(lambda number=number: len(server.frames) > number)  # type: ignore[misc]
            for _ in range(5):
                await asyncio.sleep(0)
            assert server.frames == [b"%d" % seen for seen in range(number + 1)]
            assert server.link is not None
            server.link.resume_reading()
        link.close()
        await server.until(lambda: server.endings)

    run(test)


def test_many_frames_at_once_leave_others_their_turn_and_arrive_before_the_close(run: Run) -> None:
    async def test(world: World) -> None:
        turns = 0
        seen_at: list[int] = []

        class Watched(Recorder):
            def frame_received(self, frame: memoryview) -> None:
                super().frame_received(frame)
                seen_at.append(turns)

        server = Watched()
        _, link = await world.pair(server)
        bodies = [b"%d" % number for number in range(TURN_FRAMES * 10 + 1)]
        link.write([b"".join(map(bytes, framed(*bodies)))])
        link.close()
        while not server.endings:
            await asyncio.sleep(0)
            turns += 1
            assert turns < 1_000_000
        assert server.frames == bodies
        assert server.endings == [None]
        assert max(Counter(seen_at).values()) <= 2 * TURN_FRAMES

    run(test)


def test_frames_of_later_turns_are_delivered_before_a_bad_size_ends_the_link(run: Run) -> None:
    async def test(world: World) -> None:
        server = Recorder()
        _, link = await world.pair(server)
        bodies = [b"%d" % number for number in range(TURN_FRAMES * 3)]
        link.write([b"".join(map(bytes, framed(*bodies))) + SIZE.pack(-1)])
        await server.until(lambda: server.endings)
        assert server.frames == bodies
        assert "-1 bytes" in str(server.endings[0])

    run(test)


def test_a_reader_that_stops_makes_the_writer_stop_and_go_on(run: Run) -> None:
    async def test(world: World) -> None:
        server = Recorder()
        client, link = await world.pair(server, near=LinkSettings(write_pause_bytes=100_000))
        assert server.link is not None
        server.link.pause_reading()
        sent = 0
        while link.writable:
            link.write(framed(b"y" * 200_000))
            sent += 1
            assert sent < 500, "nobody ever said stop"
            await asyncio.sleep(0)
        assert client.writable == [False]
        server.link.resume_reading()
        await client.until(lambda: client.writable == [False, True])
        await server.until(lambda: len(server.frames) == sent)
        link.close()
        await server.until(lambda: server.endings)

    run(test)


def test_a_writer_that_does_not_stop_loses_its_link(run: Run) -> None:
    async def test(world: World) -> None:
        server = Recorder()
        limits = LinkSettings(write_pause_bytes=10_000, write_limit_bytes=1_000_000)
        client, link = await world.pair(server, near=limits)
        assert server.link is not None
        server.link.pause_reading()
        for _ in range(2000):
            link.write(framed(b"z" * 200_000))
            if client.endings:
                break
            await asyncio.sleep(0)
        (ending,) = client.endings
        assert "does not read" in str(ending)
        server.link.abort()
        await server.until(lambda: server.endings)

    run(test)


def test_a_handler_that_fails_costs_its_own_link_only(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    async def test(world: World) -> None:
        class Faulty(Recorder):
            def frame_received(self, frame: memoryview) -> None:
                raise ZeroDivisionError("a fault of ours")

        faulty, healthy = Faulty(), Echo()
        client, link = await world.pair(faulty)
        other, other_link = await world.pair(healthy)
        link.write(framed(b"boom"))
        await faulty.until(lambda: faulty.endings)
        await client.until(lambda: client.endings)
        assert "a fault of ours" in str(faulty.endings[0])
        other_link.write(framed(b"still here"))
        await other.until(lambda: other.frames == [b"still here"])
        other_link.close()
        await healthy.until(lambda: healthy.endings)

    run(test)


def test_when_nobody_can_be_found_for_a_link_it_is_turned_away(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    def nobody() -> LinkEvents:
        raise ZeroDivisionError("no room")

    async def test(world: World) -> None:
        listener = await world.transport.serve(world.host, 0, nobody, tls=world.server_tls)
        client = Recorder()
        try:
            await world.transport.connect(world.host, listener.port, client, tls=world.client_tls)
            await client.until(lambda: client.endings)
        except NotConnected:
            assert world.client_tls is not None  # turned away before our side had finished its handshake
        listener.close()

    run(test)
    assert "nobody could be found" in caplog.text


def test_a_handler_may_pause_and_resume_while_it_has_its_frame(run: Run) -> None:
    async def test(world: World) -> None:
        class Nervous(Recorder):
            def frame_received(self, frame: memoryview) -> None:
                super().frame_received(frame)
                assert self.link is not None
                self.link.pause_reading()
                self.link.resume_reading()

        server = Nervous()
        _, link = await world.pair(server)
        bodies = [b"%d" % number for number in range(5000)]
        link.write(framed(*bodies))
        await server.until(lambda: len(server.frames) == len(bodies))
        assert server.frames == bodies
        link.close()
        await server.until(lambda: server.endings)
        assert server.link is not None
        server.link.pause_reading()
        server.link.resume_reading()

    run(test)


def test_half_a_frame_is_an_error_and_not_an_end(run: Run) -> None:
    async def test(world: World) -> None:
        server = Recorder()
        _, link = await world.pair(server)
        link.write([SIZE.pack(100), b"half"])
        link.close()
        await server.until(lambda: server.endings)
        assert "in the middle of a frame" in str(server.endings[0])

    run(test)


def test_a_frame_above_the_limit_ends_the_link_and_the_limit_can_be_raised(run: Run) -> None:
    async def test(world: World) -> None:
        server = Recorder()
        client, link = await world.pair(server, far=LinkSettings(frame_limit_bytes=10))
        link.write(framed(b"0123456789"))
        await server.until(lambda: server.frames)
        assert server.link is not None
        server.link.frame_limit_bytes = 20
        link.write(framed(b"01234567890123456789", b"x" * 21))
        await server.until(lambda: server.endings)
        await client.until(lambda: client.endings)
        assert server.frames == [b"0123456789", b"01234567890123456789"]
        assert isinstance(server.endings[0], FrameTooLarge)

    run(test)


def test_nobody_there_is_a_declared_error(run: Run) -> None:
    async def test(world: World) -> None:
        listener = await world.transport.serve(world.host, 0, Recorder, tls=world.server_tls)
        port = listener.port
        listener.close()
        await asyncio.sleep(0)
        with pytest.raises(NotConnected, match=f"{world.host}:{port}"):
            await world.transport.connect(world.host, port, Recorder(), tls=world.client_tls)

    run(test)


# --- sockets only ---


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_small_writes_are_not_held_back_by_the_kernel(kind: str) -> None:
    async def test() -> None:
        server = Recorder()
        _, link = await World(TcpTransport(), "127.0.0.1").pair(
            server, near=LinkSettings(send_buffer_bytes=50_000, receive_buffer_bytes=60_000)
        )
        sock = link._stream.get_extra_info("socket")  # type: ignore[attr-defined]
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= 50_000
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 60_000
        link.close()
        await server.until(lambda: server.endings)

    with runner(kind) as loops:
        loops.run(test())


@pytest.mark.parametrize("kind", ["asyncio tls", "uvloop tls"])
def test_an_untrusted_certificate_is_refused_in_words(kind: str, request: pytest.FixtureRequest) -> None:
    async def test() -> None:
        world = make_world(kind, request)
        listener = await world.transport.serve(world.host, 0, Recorder, tls=world.server_tls)
        with pytest.raises(TlsHandshakeFailed, match=r"certificate of localhost:\d+ is not trusted: self.signed"):
            await world.transport.connect(world.host, listener.port, Recorder(), tls=ssl.create_default_context())
        listener.close()

    with runner(kind) as loops:
        loops.run(test())


@pytest.mark.parametrize("kind", ["asyncio tls", "uvloop tls"])
def test_tls_to_a_port_without_tls_ends_with_a_question(kind: str, request: pytest.FixtureRequest) -> None:
    async def test() -> None:
        world = make_world(kind, request)
        server = Recorder()
        listener = await world.transport.serve(world.host, 0, lambda: server)
        with pytest.raises((NotConnected, TlsHandshakeFailed), match="TLS"):
            await world.transport.connect(world.host, listener.port, Recorder(), tls=world.client_tls)
        await server.until(lambda: server.endings)
        assert "the other side speaks TLS and this side does not" in str(server.endings[0])
        listener.close()

    with runner(kind) as loops:
        loops.run(test())


@pytest.mark.parametrize("kind", ["asyncio tls", "uvloop tls"])
def test_plain_bytes_to_a_tls_port_end_the_link(kind: str, request: pytest.FixtureRequest) -> None:
    async def test() -> None:
        world = make_world(kind, request)
        listener = await world.transport.serve(world.host, 0, Recorder, tls=world.server_tls)
        client = Recorder()
        link = await world.transport.connect(world.host, listener.port, client)
        link.write(framed(b"hello" * 10))
        await client.until(lambda: client.endings)
        listener.close()

    with runner(kind) as loops:
        loops.run(test())


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_who_is_being_let_in_while_the_listener_closes_is_not_forgotten_open(
    make_loop: Callable[[], asyncio.AbstractEventLoop], turns: int
) -> None:
    """asyncio's loop has accepted the socket, and makes its link one turn later: the listener may be closed by then."""
    opened: list[Link] = []

    class Gone(Recorder):
        def opened(self, link: Link) -> None:
            opened.append(link)
            link.abort()

    async def story() -> bytes:
        listener = await TcpTransport().serve("127.0.0.1", 0, Gone)
        with socket.create_connection(("127.0.0.1", listener.port)) as client:
            client.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            listener.close()
            try:
                return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), HANG_S)
            except ConnectionResetError:
                return b""

    with warnings.catch_warnings(record=True) as said, asyncio.Runner(loop_factory=make_loop) as runner:
        warnings.simplefilter("always")
        unraisable: list[Any] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "unraisablehook", unraisable.append)
            assert runner.run(story()) == b""
            gc.collect()
    assert [str(each.message) for each in said if issubclass(each.category, ResourceWarning)] == []
    assert unraisable == []


def test_connecting_can_be_cancelled() -> None:
    async def test() -> None:
        with socket.socket() as silent:  # listens, but its queue of one is full: packets wait unanswered
            silent.bind(("127.0.0.1", 0))
            silent.listen(0)
            tasks = [
                asyncio.create_task(TcpTransport().connect("127.0.0.1", silent.getsockname()[1], Recorder()))
                for _ in range(8)
            ]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError | NotConnected) for result in results)

    asyncio.run(test())


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), NotConnected, "name kafka cannot be resolved"),
        (UnicodeError("label too long"), NotConnected, "name kafka cannot be resolved"),
        (ConnectionRefusedError(111, "Connection refused"), ConnectionRefused, "kafka:9092 refused the connection"),
        (OSError(113, "No route to host"), NotConnected, "No route to host"),
        (TimeoutError(), NotConnected, "TimeoutError"),
        (ssl.SSLEOFError(8, "EOF occurred"), NotConnected, "during the TLS handshake"),
        (ssl.SSLError(1, "WRONG_VERSION_NUMBER"), TlsHandshakeFailed, "does this port speak TLS"),
    ],
)
def test_reasons_are_told_in_words(error: OSError, kind: type[OttlaError], words: str) -> None:
    told = explained(error, "kafka", 9092)
    assert type(told) is kind
    assert words in str(told)


# --- joining ---


@given(st.lists(st.sampled_from([0, 1, 4, 100, JOIN_LIMIT_BYTES, JOIN_LIMIT_BYTES + 1, 40_000]), max_size=8))
def test_small_buffers_are_joined_and_big_ones_are_the_same_objects(sizes: list[int]) -> None:
    buffers: Sequence[Buffer] = [bytes([index]) * size for index, size in enumerate(sizes)]
    pieces = gathered(buffers)
    assert b"".join(pieces) == b"".join(buffers)
    big = [buffer for buffer in buffers if len(buffer) > JOIN_LIMIT_BYTES]
    assert [piece for piece in pieces if any(piece is buffer for buffer in big)] == big
    assert len(pieces) <= 2 * len(big) + 1


# --- the network in memory ---


def in_memory(
    test: Callable[[MemoryNetwork, ManualClock], Coroutine[Any, Any, None]], *, seed: int = 1, **weather: Any
) -> None:
    async def with_network() -> None:
        clock = ManualClock()
        network = MemoryNetwork(clock=clock, random=random.Random(seed), weather=Weather(**weather))
        try:
            await test(network, clock)
        finally:
            await network.close()

    asyncio.run(with_network())


def test_nothing_arrives_before_its_time() -> None:
    async def test(network: MemoryNetwork, clock: ManualClock) -> None:
        server = Recorder()
        await network.serve("host", 1, lambda: server)
        connecting = asyncio.create_task(network.connect("host", 1, Recorder()))
        await clock.advance(9.9)
        assert not connecting.done()
        await clock.advance(0.1)
        link = await connecting
        link.write(framed(b"slow"))
        await clock.advance(9.9)
        assert server.frames == []
        await clock.advance(0.1)
        assert server.frames == [b"slow"]

    in_memory(test, delay_ms=(10, 10))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=10), st.integers(1, 20), st.integers(0, 1000))
def test_however_the_network_cuts_and_delays_the_frames_are_the_same(
    bodies: list[bytes], piece_bytes: int, seed: int
) -> None:
    async def test(network: MemoryNetwork, clock: ManualClock) -> None:
        server = Recorder()
        await network.serve("host", 1, lambda: server)
        connecting = asyncio.create_task(network.connect("host", 1, Recorder()))
        await clock.advance(5)
        (await connecting).write(framed(*bodies))
        await clock.advance(10_000)
        assert server.frames == bodies

    in_memory(test, seed=seed, piece_bytes=piece_bytes, delay_ms=(0, 5))


def test_the_same_seed_breaks_at_the_same_byte() -> None:
    seen: list[tuple[list[bytes], list[str]]] = []

    async def test(network: MemoryNetwork, clock: ManualClock) -> None:
        server, client = Recorder(), Recorder()
        await network.serve("host", 1, lambda: server)
        link = await network.connect("host", 1, client)
        link.write(framed(*(b"%d" % number for number in range(200))))
        await clock.advance(10)
        assert network.open_count == 0
        seen.append((server.frames, [str(end) for end in (*server.endings, *client.endings)]))

    for _ in range(2):
        in_memory(test, seed=42, piece_bytes=5, break_chance=0.02)
    in_memory(test, seed=43, piece_bytes=5, break_chance=0.02)
    assert seen[0] == seen[1]
    assert seen[0] != seen[2]
    assert 0 < len(seen[0][0]) < 200


def test_a_black_hole_swallows_silently_and_what_missed_bytes_breaks_when_it_heals() -> None:
    async def test(network: MemoryNetwork, clock: ManualClock) -> None:
        server, client = Recorder(), Recorder()
        await network.serve("host", 1, lambda: server if server.link is None else Recorder())
        link = await network.connect("host", 1, client)
        network.swallow("host", 1)
        link.write(framed(b"lost"))
        hanging = asyncio.create_task(network.connect("host", 1, Recorder()))
        await clock.advance(100_000)
        assert (server.frames, server.endings, client.endings) == ([], [], [])
        assert not hanging.done()
        network.heal()
        await clock.advance(1)
        assert "bytes were lost" in str(client.endings[0])
        hanging.cancel()
        fresh = await network.connect("host", 1, Recorder())
        fresh.abort()
        await clock.advance(1)

    in_memory(test)


def test_break_all_breaks_every_connection() -> None:
    async def test(network: MemoryNetwork, clock: ManualClock) -> None:
        server, client = Recorder(), Recorder()
        await network.serve("host", 1, lambda: server)
        await network.connect("host", 1, client)
        assert network.open_count == 2
        network.break_all()
        await clock.advance(1)
        assert network.open_count == 0
        assert (len(server.endings), len(client.endings)) == (1, 1)

    in_memory(test)


def test_two_listeners_cannot_share_an_address_and_tls_must_be_wanted_by_both() -> None:
    async def test(network: MemoryNetwork, clock: ManualClock) -> None:
        await network.serve("host", 1, Recorder, tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        with pytest.raises(OSError, match="already"):
            await network.serve("host", 1, Recorder)
        with pytest.raises(TlsHandshakeFailed, match="only one side"):
            await network.connect("host", 1, Recorder())

    in_memory(test)


def test_closing_waits_for_a_reader_only_so_long() -> None:
    async def test(network: MemoryNetwork, clock: ManualClock) -> None:
        server, client = Recorder(), Recorder()
        await network.serve("host", 1, lambda: server)
        link = await network.connect("host", 1, client, settings=LinkSettings(close_limit_ms=100))
        assert server.link is not None
        server.link.pause_reading()
        link.write(framed(b"never read"))
        link.close()
        await clock.advance(99)
        assert client.endings == []
        await clock.advance(1)
        assert client.endings == [None]

    in_memory(test)


def test_a_lie_about_a_size_reaches_nobody() -> None:
    async def test(network: MemoryNetwork, clock: ManualClock) -> None:
        server, client = Recorder(), Recorder()
        await network.serve("host", 1, lambda: server)
        link = await network.connect("host", 1, client)
        link.write([SIZE.pack(-5)])
        await clock.advance(1)
        assert server.frames == []
        assert "announces -5 bytes" in str(server.endings[0])

    in_memory(test)
