"""Who has not said who he is sends little; who sends or reads nothing is closed; who comes too fast waits."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.broker import listeners
from ottla.broker.network.acceptor import IDLE_LOOK_MS, REFUSED_LIMIT, Acceptor, ConnectionLimits
from ottla.broker.network.processor import Connection
from ottla.broker.quotas.connections import ConnectionRates
from ottla.broker.settings import BrokerSettings
from ottla.metrics import Registry
from ottla.net.link import LinkSettings
from ottla.testing.clock import ManualClock

IDLE_MS = 60_000
FULL_LIMIT_BYTES, LOGIN_LIMIT_BYTES = 1 << 26, 1 << 19


class FakeLink:
    def __init__(self) -> None:
        self.writable, self.is_reading, self.end = True, True, ""
        self.remote_address, self.local_address = ("10.0.0.1", 1234), None
        self.frame_limit_bytes, self.chunk_bytes = FULL_LIMIT_BYTES, 131_072
        self.following: tuple[memoryview, ...] = ()

    def write(self, buffers: Any) -> None: ...

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.end = "closed"

    def abort(self, reason: object = None) -> None:
        self.end = "aborted"


class Door:
    """A transport and its listener: whoever knocks is let in."""

    port, addresses = 9092, ()

    async def serve(self, host: str, port: int, make_events: Callable[[], Any], **_: Any) -> "Door":
        self.make_events = make_events
        return self

    def knock(self) -> tuple[Connection, FakeLink]:
        connection, link = self.make_events(), FakeLink()
        connection.opened(link)
        return connection, link

    def close(self) -> None: ...
    def abort_handshakes(self) -> None: ...


class Patient:
    """A dispatcher that never answers."""

    def dispatch(self, frame: memoryview, connection: Connection) -> Any:
        return self._wait()

    def dispatch_run(self, *_: Any) -> None:
        """Nothing goes together."""

    async def _wait(self) -> None:
        await asyncio.get_running_loop().create_future()


def run(
    test: Callable[[Acceptor, Door, ManualClock], Coroutine[Any, Any, None]], rates: ConnectionRates | None = None
) -> None:
    async def begin() -> None:
        clock, door = ManualClock(), Door()
        limits = ConnectionLimits(total=10, per_address=10, overrides={})
        acceptor = Acceptor(
            door,  # type: ignore[arg-type]
            Patient(),
            clock=clock,
            limits=limits,
            rates=rates,
            link_settings=LinkSettings(),
            idle_ms=IDLE_MS,
        )
        acceptor.release()
        await test(acceptor, door, clock)
        acceptor.close()

    asyncio.run(begin())


class AnyLogin(Patient):
    """A login that only has a limit."""

    def __init__(self, receive_limit_bytes: int) -> None:
        self.receive_limit_bytes = receive_limit_bytes

    def begin(self, *_: Any) -> None: ...
    def end(self) -> None: ...


@pytest.mark.parametrize("login_limit_bytes", [None, LOGIN_LIMIT_BYTES, 2 * FULL_LIMIT_BYTES])
def test_requests_are_small_until_it_is_known_who_sends_them(login_limit_bytes: int | None) -> None:
    async def test(acceptor: Acceptor, door: Door, clock: ManualClock) -> None:
        login: Any = None if login_limit_bytes is None else lambda _: AnyLogin(login_limit_bytes)
        await acceptor.listen("ANY", "localhost", 0, backlog=1, login=login)
        connection, link = door.knock()
        assert link.frame_limit_bytes == min(FULL_LIMIT_BYTES, login_limit_bytes or FULL_LIMIT_BYTES)
        connection.authenticated("User:alice")
        assert connection.principal == "User:alice"
        assert link.frame_limit_bytes == FULL_LIMIT_BYTES

    run(test)


def test_a_connection_without_requests_is_closed_and_one_with_a_waiting_request_is_not() -> None:
    async def test(acceptor: Acceptor, door: Door, clock: ManualClock) -> None:
        await acceptor.listen("ANY", "localhost", 0, backlog=1)
        (_, silent), (asking, waiting) = door.knock(), door.knock()
        asking.frame_received(memoryview(b"request"))
        clock.move(IDLE_MS - 1)
        acceptor.close_idle_ones()
        assert (silent.end, waiting.end) == ("", "")
        clock.move(2)
        acceptor.close_idle_ones()
        assert (silent.end, waiting.end) == ("closed", "")

    run(test)


def test_a_client_that_reads_nothing_is_closed_and_one_that_reads_slowly_is_not() -> None:
    async def test(acceptor: Acceptor, door: Door, clock: ManualClock) -> None:
        await acceptor.listen("ANY", "localhost", 0, backlog=1)
        clients = [door.knock() for _ in range(2)]
        for connection, link in clients:
            connection.frame_received(memoryview(b"request"))
            link.writable = False
            connection.writable_changed(False)
        (slow, slow_link), (_, deaf_link) = clients
        clock.move(IDLE_MS - 1)
        for writable in (True, False):  # a megabyte was read, and there was more to write
            slow_link.writable = writable
            slow.writable_changed(writable)
        clock.move(2)
        acceptor.close_idle_ones()
        assert (slow_link.end, deaf_link.end) == ("", "aborted")

    run(test)


def test_idle_connections_are_looked_for_often_enough() -> None:
    assert BrokerSettings({}).connections_max_idle_ms >= IDLE_LOOK_MS * 10


@pytest.mark.parametrize(
    ("given", "backlog"), [({}, listeners.LISTEN_BACKLOG), ({"socket.listen.backlog.size": "7"}, 7)]
)
def test_more_than_kafka_may_wait_to_be_accepted_unless_told_otherwise(given: dict[str, str], backlog: int) -> None:
    assert listeners._backlog(BrokerSettings(given)) == backlog


def rates_of(settings: dict[str, str]) -> ConnectionRates:
    return ConnectionRates(BrokerSettings({"quota.window.num": "2", **settings}), Registry(), lambda: 0.0)


def test_a_connection_above_the_rate_is_heard_later() -> None:
    async def test(acceptor: Acceptor, door: Door, clock: ManualClock) -> None:
        await acceptor.listen("PLAINTEXT", "localhost", 0, backlog=1)
        (_, first), (_, second) = door.knock(), door.knock()
        assert (first.is_reading, second.is_reading) == (True, False)
        acceptor.release()
        assert not second.is_reading
        await clock.advance(1_001)
        assert second.is_reading
        assert (first.end, second.end) == ("", "")

    run(test, rates_of({"max.connection.creation.rate": "1"}))


def test_a_connection_above_the_quota_of_its_address_is_not_heard_and_closed_after_a_while() -> None:
    rates = rates_of({})
    rates.load({None: 1.0})

    async def test(acceptor: Acceptor, door: Door, clock: ManualClock) -> None:
        await acceptor.listen("PLAINTEXT", "localhost", 0, backlog=1)
        (_, first), (refused, second) = door.knock(), door.knock()
        refused.frame_received(memoryview(b"request"))
        assert (first.is_reading, second.is_reading, second.end) == (True, False, "")
        assert acceptor.limits.count == acceptor.refused_count == 1
        await clock.advance(1_001)
        assert second.end == "aborted"
        refused.closed(None)
        assert acceptor.refused_count == 0
        assert first.end == ""

    run(test, rates)


def test_few_refused_connections_are_kept() -> None:
    rates = rates_of({})
    rates.load({None: 1.0})

    async def test(acceptor: Acceptor, door: Door, clock: ManualClock) -> None:
        await acceptor.listen("PLAINTEXT", "localhost", 0, backlog=1)
        acceptor.refused_count = REFUSED_LIMIT
        door.knock()
        assert door.knock()[1].end == "aborted"

    run(test, rates)


def test_who_is_let_in_while_the_broker_ends_is_closed_too() -> None:
    """The loop had accepted it before the listener was closed, and opens it a turn later."""

    async def test(acceptor: Acceptor, door: Door, clock: ManualClock) -> None:
        await acceptor.listen("ANY", "localhost", 0, backlog=1)
        first, first_link = door.knock()
        acceptor.close()
        draining = asyncio.ensure_future(acceptor.drain(1_000))
        await asyncio.sleep(0)
        assert first_link.end == "closed"
        late, late_link = door.knock()
        first.closed(None)
        await clock.advance(100)
        assert late_link.end == "closed"
        late.closed(None)
        await clock.advance(100)
        assert draining.done(), "there is nobody left to wait for"

    run(test)


def test_who_is_let_in_when_the_broker_has_gone_is_cut_off() -> None:
    """As above, when nobody waits any more; such a connection was never closed."""

    async def test(acceptor: Acceptor, door: Door, clock: ManualClock) -> None:
        await acceptor.listen("ANY", "localhost", 0, backlog=1)
        _, first_link = door.knock()
        acceptor.abort()
        _, late_link = door.knock()
        assert (first_link.end, late_link.end) == ("aborted", "aborted")

    run(test)
