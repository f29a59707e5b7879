"""Who stays when too many are connected to the HTTP door."""

import asyncio
import contextlib
import socket

import pytest
from tests.patience import HANG_S
from tests.unit.broker.http.http_client import HttpClient

from ottla.broker.http import gathering, serving
from ottla.broker.http.admission import CONNECTIONS_LIMIT, SPARE, Admission
from ottla.testing.broker import KafkaBroker


class Guest:
    def __init__(self, address="a", is_busy=False):
        self.address, self.is_busy, self.has_left = address, is_busy, False

    def give_way(self):
        self.has_left = True


def admitted(admission, count, **how):
    guests = [Guest(**how) for _ in range(count)]
    for guest in guests:
        admission.came(guest)
    return guests


def test_who_asks_for_nothing_gives_way_the_oldest_first():
    admission = Admission(3, 2)
    busy = admitted(admission, 1, is_busy=True)
    idle = admitted(admission, 4)
    assert [guest.has_left for guest in (*busy, *idle)] == [False, True, True, False, False]
    assert not admission.is_full


def test_an_address_with_many_connections_displaces_its_own():
    admission = Admission(4, 2)
    one = admitted(admission, 1, address="quiet")
    many = admitted(admission, 20, address="loud")
    assert not one[0].has_left
    assert sum(guest.has_left for guest in many) == 17


def test_where_all_are_busy_a_few_more_are_let_in_for_who_watches():
    admission = Admission(3, 2)
    busy = admitted(admission, 5, is_busy=True)
    assert admission.is_full
    assert not any(guest.has_left for guest in busy)
    admitted(admission, 1, is_busy=True)
    assert [guest.has_left for guest in busy] == [True, False, False, False, False]
    for guest in busy[1:]:
        admission.left(guest)
    assert not admission.is_full


@pytest.fixture
def broker():
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}) as broker:
        yield broker


def connected(broker, count):
    stack = contextlib.ExitStack()
    sockets = [stack.enter_context(socket.create_connection(broker.info.admin_address, HANG_S)) for _ in range(count)]
    return stack, sockets


def test_idle_connections_lock_nobody_out(broker):
    client = HttpClient(broker)
    assert client.get("/health/live").status == 200
    stack, sockets = connected(broker, CONNECTIONS_LIMIT + SPARE)
    with stack:
        for each in sockets[::2]:
            each.send(b"GET /health/live HTTP/1.1\r\nHost: loc")  # half of them have begun a head
        for path in ("/health/live", "/health/ready", "/metrics", "/api/session"):
            assert client.get(path).status == 200, path


def test_while_all_connections_are_busy_health_and_metrics_are_answered(broker):
    client = HttpClient(broker)
    token = client.get("/api/session").value["token"]
    head = (
        f"POST /api/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"X-Ottla-Token: {token}\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS_LIMIT + SPARE // 2):
            each = stack.enter_context(socket.create_connection(broker.info.admin_address, HANG_S))
            each.send(head.encode())
            answer = each.recv(100)  # so it is busy: with its body, or with too many others
            assert answer.startswith((b"HTTP/1.1 100", b"HTTP/1.1 503"))
        for path in ("/health/live", "/health/ready", "/metrics"):
            assert client.get(path).status == 200, path
        assert client.get("/api/session").status == 503


def test_a_head_and_a_body_must_come_in_time(monkeypatch):
    monkeypatch.setattr(gathering, "HEAD_MS", 200)
    monkeypatch.setattr(serving, "BODY_MS", 200)
    with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}) as broker:
        token = HttpClient(broker).get("/api/session").value["token"]
        stack, (silent, slow, body) = connected(broker, 3)
        with stack:
            slow.send(b"GET /health/live HT")
            body.send(
                f"POST /api/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"X-Ottla-Token: {token}\r\nContent-Length: 100\r\n\r\n{{".encode()
            )
            assert body.recv(100).startswith(b"HTTP/1.1 408")
            for each in (silent, slow):
                with contextlib.suppress(ConnectionResetError):
                    assert each.recv(100) == b""


def test_the_small_server_answers_beside_idle_connections():
    asyncio.run(_small_server())


async def _small_server():
    from ottla.broker.observe.admin_http import CONNECTIONS_LIMIT, AdminServer, Watch

    async def prepared():
        return None

    server = AdminServer(Watch(metrics=lambda: iter(()), not_ready_because=lambda: None, prepare=prepared))
    address = await server.start("127.0.0.1", 0)
    idle = [await asyncio.open_connection(*address) for _ in range(CONNECTIONS_LIMIT + 5)]
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    for _, each in [*idle, (reader, writer)]:
        each.close()
    await server.stop()
