"""How much the kernel waits for: never more than a frame lacks, and frames arrive whole however they were sent."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest
import uvloop
from tests.patience import HANG_S

from ottla.net.framing import SIZE
from ottla.net.link import LinkSettings
from ottla.net.low_water import LEAST_BYTES, LOW_WATER_BYTES, LowWater, low_water_of
from ottla.net.transport import TcpTransport

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked to wait")


class Socket:
    family = socket.AF_INET

    def __init__(self):
        self.asked = []

    def setsockopt(self, level, option, value):
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        self.asked.append(value)


class Events:
    def __init__(self):
        self.frames = []
        self.link = None
        self.over, self.gone = asyncio.Event(), asyncio.Event()

    def opened(self, link):
        self.link = link

    def frame_received(self, frame):
        self.frames.append(bytes(frame))
        if self.frames[-1] == b"end":
            self.over.set()

    def writable_changed(self, writable): ...
    def closed(self, error):
        self.error = error
        self.over.set()
        self.gone.set()


def test_the_kernel_waits_for_as_much_as_the_frame_lacks_and_no_more():
    sock = Socket()
    low_water = LowWater(sock)
    for missing in (0, LOW_WATER_BYTES * 2, LOW_WATER_BYTES + 1, LOW_WATER_BYTES - 5, LEAST_BYTES, LEAST_BYTES - 1, 0):
        low_water.follow(missing)
    assert sock.asked == [LOW_WATER_BYTES, LOW_WATER_BYTES - 5, LEAST_BYTES, 1]


@linux
def test_a_receive_buffer_that_somebody_chose_is_left_alone():
    assert low_water_of(Socket(), 65_536) is None
    assert low_water_of(None, None) is None
    assert low_water_of(Socket(), None) is not None


def received(new_loop, pieces, settings):
    """What a client gets of bytes that a server sends piece by piece, each in a turn of its own."""

    async def run():
        async def serve(reader, writer):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.001)
            writer.close()
            await writer.wait_closed()
            served.set()

        served = asyncio.Event()
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        events = Events()
        port = server.sockets[0].getsockname()[1]
        await TcpTransport().connect("127.0.0.1", port, events, settings=settings)
        await asyncio.wait_for(events.over.wait(), HANG_S)
        await asyncio.wait_for(served.wait(), HANG_S)
        events.link.abort()
        await asyncio.wait_for(events.gone.wait(), HANG_S)
        server.close()
        await server.wait_closed()
        return events

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(run())


loops = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
SETTINGS = LinkSettings(waits_for_much=True)


@loops
@pytest.mark.parametrize("size", [LEAST_BYTES - 1, LEAST_BYTES + 4_096, LOW_WATER_BYTES * 2 + 77, 3_000_000])
@pytest.mark.parametrize("cut", [50_000, 700_001, 10_000_000])
def test_frames_arrive_whole_and_at_once_however_they_are_cut(new_loop, size, cut):
    frames = [b"begin", b"x" * size, b"y" * size, b"end"]
    stream = b"".join(SIZE.pack(len(each)) + each for each in frames)
    found = received(new_loop, [stream[at : at + cut] for at in range(0, len(stream), cut)], SETTINGS)
    assert found.frames == frames


@loops
def test_an_end_in_the_middle_of_a_large_frame_is_noticed_at_once(new_loop):
    found = received(new_loop, [SIZE.pack(3_000_000) + b"x" * 1_000_000], SETTINGS)
    assert found.frames == []
    assert "in the middle of a frame" in str(found.error)
