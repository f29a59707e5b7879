"""The proxy before real brokers: bytes stay as they are, whatever happens to them on their way."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla.simulation.fault import Fault, read_fault
from ottla.simulation.real.drawing import LONGEST_S, REAL_KINDS, draw_real_faults
from ottla.simulation.real.effects import EFFECTS
from ottla.simulation.real.proxy import HOST, Proxy, caller_in
from ottla.simulation.real.weather import CLIENTS, FINE, WEATHERS, Passing, Weather, cut_in_pieces

CONTENT = Random(3).randbytes(300_000)
BROKER = "broker 0"


class World:
    """A proxy, the broker behind it, which sends back what it gets, and a client."""

    def __init__(self) -> None:
        self.passing = Passing()
        self.event = asyncio.Event()
        self.proxy = Proxy(
            BROKER, is_for_brokers=False, passing=self.passing, random=Random(1), changed=lambda: self.event
        )
        self.heard = bytearray()  # by the broker
        self.ends: list[str] = []  # how connections of the broker ended
        self.ended = asyncio.Event()

    def notify(self) -> None:
        self.event.set()
        self.event = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.heard += data
                writer.write(data)
                await writer.drain()
            self.ends.append("in order")
        except OSError:
            self.ends.append("reset")
        finally:
            self.ended.set()
            writer.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(HOST, self.proxy.port)

    async def link(self) -> Any:
        await until(lambda: bool(self.proxy.links))
        return next(iter(self.proxy.links))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    server = await asyncio.start_server(made.serve, HOST, 0)
    made.proxy.broker_port = server.sockets[0].getsockname()[1]
    await made.proxy.open()
    try:
        async with asyncio.timeout(HANG_S):
            yield made
    finally:
        await made.proxy.close()
        server.close()


async def echoed(made: World, content: bytes) -> bytes:
    reader, writer = await made.connect()
    sending = asyncio.ensure_future(send_all(writer, content))
    found = await reader.readexactly(len(content))
    await sending
    assert await reader.read() == b""
    writer.close()
    return found


async def send_all(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(content)
    await writer.drain()
    writer.write_eof()


WEATHER = {"fine": None, "pieces": WEATHERS["pieces"], "delayed": Weather(delay_s=(0.0, 0.002))}


@pytest.mark.parametrize("name", WEATHER)
def test_bytes_are_the_same_in_any_weather(name: str) -> None:
    async def scenario() -> None:
        async with world() as made:
            made.passing.set_weather(BROKER, WEATHER[name])
            content = CONTENT if name != "pieces" else CONTENT[:20_000]
            assert await echoed(made, content) == content
            await made.ended.wait()
            assert made.ends == ["in order"]

    asyncio.run(scenario())


@pytest.mark.parametrize("after", [1, 2, 4, 1_000, 70_000])
def test_a_connection_is_cut_after_exactly_so_many_bytes(after: int) -> None:
    async def scenario() -> None:
        async with world() as made:
            reader, writer = await made.connect()
            (await made.link()).incoming.cut_after_bytes = after
            writer.write(CONTENT)
            with contextlib.suppress(OSError):
                while await reader.read(1 << 16):
                    pass
            await made.ended.wait()
            assert bytes(made.heard) == CONTENT[: len(made.heard)]
            assert len(made.heard) <= after  # a reset may overtake what was not read yet
            assert made.ends == ["reset"]
            writer.close()

    asyncio.run(scenario())


def test_what_one_side_writes_is_held_back_and_arrives_when_it_may_pass() -> None:
    async def scenario() -> None:
        async with world() as made:
            made.passing.block([(BROKER, CLIENTS)])
            reader, writer = await made.connect()
            writer.write(b"asked")
            await until(lambda: bytes(made.heard) == b"asked")
            answer = asyncio.ensure_future(reader.readexactly(5))
            assert not (await asyncio.wait([answer], timeout=0.05))[0], "the broker hears, and is not heard"
            made.passing.unblock([(BROKER, CLIENTS)])
            made.notify()
            assert await answer == b"asked"
            writer.close()

    asyncio.run(scenario())


def test_one_connection_stalls_while_another_goes_on() -> None:
    async def scenario() -> None:
        async with world() as made:
            reader, writer = await made.connect()
            held = await made.link()
            held.incoming.is_held = True
            writer.write(b"late")
            assert await echoed(made, b"other") == b"other"
            assert bytes(made.heard) == b"other"
            held.incoming.is_held = False
            made.notify()
            assert await reader.readexactly(4) == b"late"
            writer.close()

    asyncio.run(scenario())


def test_a_reset_is_heard_at_both_ends() -> None:
    async def scenario() -> None:
        async with world() as made:
            reader, writer = await made.connect()
            writer.write(b"x")
            await reader.readexactly(1)
            (await made.link()).reset_now()
            with pytest.raises(ConnectionResetError):
                await reader.readexactly(1)
            await made.ended.wait()
            assert made.ends == ["reset"]
            writer.close()

    asyncio.run(scenario())


def test_only_one_end_learns_that_a_connection_is_half_open() -> None:
    async def scenario() -> None:
        async with world() as made:
            reader, writer = await made.connect()
            writer.write(b"x")
            await reader.readexactly(1)
            (await made.link()).lose_one_end(True)
            await made.ended.wait()
            writer.write(b"into nothing")
            silence = asyncio.ensure_future(reader.read(1))
            assert not (await asyncio.wait([silence], timeout=0.05))[0]
            silence.cancel()
            writer.close()

    asyncio.run(scenario())


def test_a_broker_that_does_not_run_refuses() -> None:
    async def scenario() -> None:
        async with world() as made:
            for port in (None, free_port()):
                made.proxy.broker_port = port
                with pytest.raises(ConnectionResetError):
                    await echoed(made, b"x")

    asyncio.run(scenario())


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


# -- decisions ---------------------------------------------------------------------------------------------------------


def test_pieces_are_the_whole() -> None:
    random = Random(4)
    for weather in (*WEATHERS.values(), FINE):
        pieces = list(cut_in_pieces(CONTENT[:5_000], weather, random))
        assert b"".join(piece for piece, _ in pieces) == CONTENT[:5_000]
        assert all(waits_s >= 0 for _, waits_s in pieces)
    assert list(cut_in_pieces(b"", FINE, random)) == []


def test_blocks_that_overlap_are_counted() -> None:
    passing = Passing()
    pair = (BROKER, CLIENTS)
    passing.block([pair])
    passing.block([pair])
    passing.unblock([pair])
    assert not passing.may_pass(*pair)
    assert passing.may_pass(CLIENTS, BROKER)
    passing.unblock([pair])
    assert passing.may_pass(*pair)


def test_who_comes_while_it_is_closed_is_not_left_open() -> None:
    """A socket that nobody closes is found as garbage, in some other test."""

    async def close_after(turns: int) -> None:
        world = World()
        world.proxy.broker_port = 1  # nobody listens there
        await world.proxy.open()
        await asyncio.sleep(0.01)  # it waits for somebody
        with socket.create_connection((HOST, world.proxy.port)):
            for _ in range(turns):
                await asyncio.sleep(0)
            await world.proxy.close()

    for turns in range(6):
        asyncio.run(close_after(turns))
        gc.collect()


@pytest.mark.parametrize(("client_id", "who"), [(b"broker-12", "broker 12"), (b"ottla-forwarder-1 a b", "broker 1")])
def test_a_broker_is_known_by_its_first_request(client_id: bytes, who: str) -> None:
    header = struct.pack(">ihhih", 100, 18, 3, 1, len(client_id)) + client_id
    assert caller_in(header) == who
    assert caller_in(header[:10]) is None
    assert caller_in(struct.pack(">ihhih", 100, 18, 3, 1, -1)) is None
    assert caller_in(struct.pack(">ihhih", 100, 18, 3, 1, 2) + b"me") is None


def test_the_same_seed_draws_the_same_faults_and_they_are_plain_values() -> None:
    def drawn() -> list[Fault]:
        return draw_real_faults(Random(9), kinds=REAL_KINDS, brokers=3, seconds=500.0)

    faults = drawn()
    assert faults == drawn()
    assert {fault.kind for fault in faults} == set(REAL_KINDS) == set(EFFECTS)
    assert all(fault.duration_s <= LONGEST_S[fault.kind] for fault in faults)
    assert [read_fault(fault.line()) for fault in faults] == faults
