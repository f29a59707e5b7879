"""Files from the kernel to a socket: all bytes in their order, whoever reads how slowly, and nothing left open."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import pytest

from ottla.net.link import LinkSettings
from ottla.net.sendfile import SendfileDoor
from ottla.net.transport import TcpTransport

try:
    import uvloop
except ImportError:
    uvloop = None

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux's sendfile is used")
CONTENT = os.urandom(3_000_000)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    if request.param == "uvloop" and uvloop is None:
        pytest.skip("uvloop is not installed")
    return asyncio.run if request.param == "asyncio" else uvloop.run


@pytest.fixture
def file(tmp_path):
    (tmp_path / "records").write_bytes(CONTENT)
    number = os.open(tmp_path / "records", os.O_RDONLY)
    yield number
    os.close(number)


class Sender:
    """Sends a header, a file and a trailer to whoever connects."""

    def __init__(self, number):
        self._number = number
        self._size_bytes = len(CONTENT)
        self._sent = 0
        self.header = [b"head", b"er"]
        self.waits = 0
        self.ways = set()
        self.has_waited, self.is_closed = asyncio.Event(), asyncio.Event()

    def opened(self, link):
        self.link = link
        self.go_on()

    def go_on(self):
        while self._sent < self._size_bytes:
            wanted = min(200_000, self._size_bytes - self._sent)
            sent = self.link.send_file(self.header, self._number, self._sent, wanted)
            self.ways.add("kernel" if sent is not None else "memory")
            if sent is None:
                self.link.write([*self.header, os.pread(self._number, 50_000, self._sent)])
                self._sent += min(50_000, self._size_bytes - self._sent)
                self.header = []
                asyncio.get_running_loop().call_soon(self.go_on)
                return
            self.header = []
            self._sent += sent
            if sent == 0:
                self.waits += 1
                self.has_waited.set()
                self.link.when_sendable(self.go_on)
                return
        self.link.write([b"trailer"])

    def frame_received(self, frame): ...
    def writable_changed(self, writable): ...

    def closed(self, error):
        self.is_closed.set()


async def listen(sender, **settings):
    return await TcpTransport().serve("127.0.0.1", 0, lambda: sender, settings=LinkSettings(**settings))


async def receive(port, count):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    content = await reader.readexactly(count)
    writer.close()
    await writer.wait_closed()
    return content


def test_a_slow_reader_gets_every_byte_in_order(run, file):
    sender = Sender(file)

    async def test():
        listener = await listen(sender, send_buffer_bytes=40_000)
        wanted = b"header" + CONTENT + b"trailer"
        assert await receive(listener.port, len(wanted)) == wanted
        listener.close()

    run(test())
    assert "kernel" in sender.ways
    assert sender.waits


def test_what_waits_to_be_written_goes_first(run, file):
    class Writing(Sender):
        def opened(self, link):
            link.write([b"first"])
            super().opened(link)

    sender = Writing(file)

    async def test():
        listener = await listen(sender)
        wanted = b"first" + b"header" + CONTENT + b"trailer"
        assert await receive(listener.port, len(wanted)) == wanted
        listener.close()

    run(test())


def test_a_file_that_ends_too_soon_is_left_to_the_other_way(run, file):
    class Beyond(Sender):
        def opened(self, link):
            self.seen = [link.send_file([], self._number, len(CONTENT), 10), link.send_file([], 1 << 30, 0, 10)]
            link.close()

    sender = Beyond(file)

    async def test():
        listener = await listen(sender)
        await receive(listener.port, 0)
        await sender.is_closed.wait()
        listener.close()

    run(test())
    assert sender.seen == [None, None]


def test_a_reader_that_leaves_leaves_nothing_open(run, file):
    sender = Sender(file)

    async def test():
        listener = await listen(sender, send_buffer_bytes=40_000)
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        await sender.has_waited.wait()
        watched = sender.link._door._watched
        assert os.fstat(watched)
        writer.transport.abort()
        await sender.is_closed.wait()
        listener.close()
        assert sender.link.send_file([], file, 0, 10) is None
        assert sender.link._door._watched is None

    run(test())


def test_a_door_that_is_closed_calls_nobody():
    async def test():
        here, there = os.pipe()
        door = SendfileDoor(there, socket.AF_INET, asyncio.get_running_loop())
        called = []
        door.when_sendable(lambda: called.append(1))
        door.close()
        for _ in range(3):
            await asyncio.sleep(0)
        assert called == []
        os.close(here)
        os.close(there)

    asyncio.run(test())
