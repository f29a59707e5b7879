"""One connection without an event loop: how its set-up fails. tests/client/test_direct_admin.py shows what it asks."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.patience import HANG_S

from ottla.clock import SystemClock
from ottla.errors import NotConnected
from ottla.net.direct import DirectConnection
from ottla.values import Address


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def opened(server: socket.socket, limit_ms: float = HANG_S * 1000) -> DirectConnection:
    address = Address(*server.getsockname())
    return DirectConnection.open(address, SystemClock(), client_id="me", software_version="1", limit_ms=limit_ms)


def serve_one(server: socket.socket, serve: Callable[[socket.socket], object]) -> threading.Thread:
    def run() -> None:
        link, _ = server.accept()
        with link:
            link.recv(4)
            serve(link)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address(*server.getsockname())
    with pytest.raises(NotConnected, match=str(address.port)):
        DirectConnection.open(address, SystemClock(), client_id=None, software_version="1", limit_ms=HANG_S * 1000)


@pytest.mark.parametrize(
    "said",
    [b"", b"HTTP/1.1 400 Bad Request\r\n", b"\xff\xff\xff\xff", b"\x00\x00\x00\x04\x00\x00\x00\x09", b"\x00\x00"],
)
def test_it_does_not_speak_kafka(listener, said):
    thread = serve_one(listener, lambda link: link.sendall(said))
    with pytest.raises(NotConnected):
        opened(listener)
    thread.join(HANG_S)


def test_it_says_nothing(listener):
    with pytest.raises(NotConnected, match="no answer"):
        opened(listener, limit_ms=50)
