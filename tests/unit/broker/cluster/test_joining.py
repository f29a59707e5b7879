"""Before a broker serves clients: its earlier session is over, and its view of the cluster is complete."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.broker.cluster.client_gate import KEPT_LIMIT_MS, ClientGate
from ottla.broker.cluster.earlier_session import LIMIT_AT_LEAST_MS, wait_for_earlier_session
from ottla.broker.cluster.first_view import LOG_EVERY_MS, TOPICS_LIMIT_MS, wait_for_first_view
from ottla.broker.cluster.leaving import AWAY_LIMIT_MS, while_reachable
from ottla.broker.network.processor import CloseConnection
from ottla.broker.requests.running import Background, awaited
from ottla.cluster.changes import CreateTopic, RegisterBroker, SetController, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, Partition, Topic
from ottla.cluster.store.interface import BrokerIdTaken, NoSession
from ottla.testing.clock import ManualClock

SESSION_MS = 18_000.0
METADATA, UPDATE_METADATA, API_VERSIONS = 3, 6, 18


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


# --- the earlier session ---------------------------------------------------------------------------------------------


def wait_while_held(held_ms: float) -> tuple[float, BaseException | None]:
    """How long the wait took when the id was held for so long, and how it ended."""

    async def story() -> tuple[float, BaseException | None]:
        clock = ManualClock()

        async def holder_of(broker_id: int) -> str | None:
            assert broker_id == 1
            return "session 0x7" if clock.monotonic_ms() < held_ms else None

        waiting = asyncio.ensure_future(wait_for_earlier_session(1, holder_of, SESSION_MS, clock))
        await turns()
        while not waiting.done():
            await clock.advance(250)
        return clock.monotonic_ms(), waiting.exception()

    return asyncio.run(story())


def test_an_id_that_is_free_is_not_waited_for() -> None:
    assert wait_while_held(0) == (0, None)


def test_the_end_of_an_earlier_session_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert wait_while_held(17_900) == (18_000, None)
    assert "broker id 1 is still registered by session 0x7" in caplog.text
    assert "zookeeper.session.timeout.ms=18000" in caplog.text


@pytest.mark.parametrize("is_slow", [False, True])
def test_while_nobody_answers_the_wait_does_not_count(is_slow: bool) -> None:
    """The ensemble is restarted after 10 s, is away for 60 s, and gives the earlier session its time-out again."""
    back_ms = 70_000.0

    async def story() -> tuple[float, BaseException | None]:
        clock = ManualClock()

        async def holder_of(broker_id: int) -> str | None:
            if 10_000 <= clock.monotonic_ms() < back_ms:
                if not is_slow:
                    raise NoSession("nobody is there")
                await clock.sleep(back_ms - clock.monotonic_ms())
            return "session 0x7" if clock.monotonic_ms() < back_ms + SESSION_MS else None

        waiting = asyncio.ensure_future(wait_for_earlier_session(1, holder_of, SESSION_MS, clock))
        await turns()
        while not waiting.done():
            await clock.advance(250)
        return clock.monotonic_ms(), waiting.exception()

    took_ms, error = asyncio.run(story())
    assert error is None
    assert took_ms <= back_ms + SESSION_MS + 500


def test_a_session_that_never_ends_is_another_broker_with_the_same_id() -> None:
    took_ms, error = wait_while_held(float("inf"))
    assert isinstance(error, BrokerIdTaken)
    assert took_ms == 3 * SESSION_MS
    assert took_ms >= LIMIT_AT_LEAST_MS


# --- the first view --------------------------------------------------------------------------------------------------

BROKERS = [RegisterBroker(Broker(each, ())) for each in (0, 1, 2)]
CONTROLLER = SetController(2, 7)
CLICKS = CreateTopic(Topic("clicks", b"c" * 16, (Partition((0, 1), (0, 1), 0, 0),)))


def image(*changes: Any) -> ClusterImage:
    return apply_all(ClusterImage("cluster"), changes)


class View:
    def __init__(self, topics: frozenset[str] = frozenset(["clicks"])) -> None:
        self.image: ClusterImage | None = None
        self.changed = asyncio.Event()
        self.clock = ManualClock()
        self.waiting = asyncio.ensure_future(
            wait_for_first_view(lambda: self.image, self.changed, broker_id=1, topics=topics, clock=self.clock)
        )

    async def tell(self, *changes: Any) -> None:
        self.image = image(*changes)
        self.changed.set()
        await turns()


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def test_a_view_with_brokers_controller_and_topics_is_complete() -> None:
    async def story() -> None:
        view = View()
        await turns()
        assert not view.waiting.done()
        await view.tell(*BROKERS)
        assert not view.waiting.done(), "there is no controller"
        await view.tell(*BROKERS, CONTROLLER)
        assert not view.waiting.done(), "a topic is missing"
        await view.tell(*BROKERS, CONTROLLER, CLICKS)
        assert view.waiting.done()

    run(story)


@pytest.mark.parametrize(
    "changes", [[BROKERS[0], BROKERS[2], CONTROLLER], [BROKERS[1], CONTROLLER]], ids=["not itself", "no controller"]
)
def test_without_brokers_it_waits_and_says_so(changes: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        view = View()
        await view.tell(*changes, CLICKS)
        await view.clock.advance(60 * LOG_EVERY_MS)
        assert not view.waiting.done()
        view.waiting.cancel()

    run(story)
    assert "clients are not served yet" in caplog.text


def test_a_topic_that_nobody_announces_is_not_waited_for_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        view = View(frozenset(["clicks", "leaderless"]))
        await view.tell(*BROKERS, CONTROLLER, CLICKS)
        assert not view.waiting.done()
        await view.clock.advance(TOPICS_LIMIT_MS)
        assert view.waiting.done()

    run(story)
    assert "leaderless" in caplog.text


# --- the gate --------------------------------------------------------------------------------------------------------


def frame(key: int, text: bytes = b"") -> memoryview:
    return memoryview(key.to_bytes(2) + text)


class Behind:
    """Answers with the request itself."""

    def dispatch(self, frame: memoryview, connection: Any) -> list[bytes]:
        return [bytes(frame)]

    def dispatch_run(self, frame: memoryview, following: deque[memoryview], connection: Any) -> bytes:
        return b"a run"


class FakeConnection:
    """Asks the gate, and notes what is answered."""

    name = "a client"

    def __init__(self, gate: ClientGate) -> None:
        self._gate = gate
        self.answers: list[bytes] = []
        self.is_held = self.is_gone = False

    def frame_received(self, frame: memoryview) -> None:
        Background().start(self._answer(frame))

    async def _answer(self, frame: memoryview) -> None:
        try:
            self.answers += await awaited(self._gate.dispatch(frame, self)) or ()  # type: ignore[arg-type]
        except CloseConnection:
            self.is_gone = True
        self.is_held = False

    def hold(self) -> None:
        self.is_held = True


def test_a_closed_gate_keeps_clients_and_lets_the_controller_through() -> None:
    async def story() -> None:
        gate = ClientGate(Behind(), ManualClock())  # type: ignore[arg-type]
        client, controller = FakeConnection(gate), FakeConnection(gate)
        client.frame_received(frame(API_VERSIONS))
        client.frame_received(frame(METADATA, b"1"))
        controller.frame_received(frame(UPDATE_METADATA))
        assert (client.answers, client.is_held) == ([b"\0\x12"], True)
        assert (controller.answers, controller.is_held) == ([b"\0\x06"], False)
        assert gate.dispatch_run(frame(METADATA), deque(), client) is None  # type: ignore[arg-type]
        gate.open()
        await turns()
        assert (client.answers, client.is_held) == ([b"\0\x12", b"\0\x031"], False)
        client.frame_received(frame(METADATA, b"2"))
        assert client.answers[-1] == b"\0\x032"
        assert gate.dispatch_run(frame(METADATA), deque(), client) == b"a run"  # type: ignore[arg-type]

    run(story)


def test_a_client_that_was_kept_too_long_is_sent_away() -> None:
    async def story() -> None:
        clock = ManualClock()
        gate = ClientGate(Behind(), clock)  # type: ignore[arg-type]
        client = FakeConnection(gate)
        client.frame_received(frame(METADATA))
        await clock.advance(KEPT_LIMIT_MS - 1)
        assert not client.is_gone
        await clock.advance(1)
        assert client.is_gone
        gate.open()
        assert client.answers == []

    run(story)


def test_a_broker_that_ends_without_having_joined_sends_its_clients_away() -> None:
    async def story() -> None:
        gate = ClientGate(Behind(), ManualClock())  # type: ignore[arg-type]
        client = FakeConnection(gate)
        client.frame_received(frame(METADATA))
        gate.close()
        await turns()
        assert (client.is_gone, client.answers) == (True, [])

    run(story)


# --- leaving ---------------------------------------------------------------------------------------------------------


def leave(answers: Callable[[float], bool], work_ms: float) -> tuple[bool, float]:
    """Whether work of that length was done, and how long that took."""

    async def story() -> tuple[bool, float]:
        clock = ManualClock()

        async def ask_store() -> None:
            if not answers(clock.monotonic_ms()):
                await clock.sleep(36_000)
                raise NoSession

        doing = asyncio.ensure_future(while_reachable(clock.sleep(work_ms), ask_store, clock))
        await turns()
        while not doing.done():
            await clock.advance(100)
        return doing.result(), clock.monotonic_ms()

    return asyncio.run(story())


def test_leaving_takes_its_time_while_the_store_answers() -> None:
    assert leave(lambda now_ms: True, 20_000) == (True, 20_000)


def test_leaving_does_not_wait_for_a_store_that_is_away() -> None:
    is_done, took_ms = leave(lambda now_ms: False, 150_000)
    assert not is_done
    assert took_ms <= AWAY_LIMIT_MS + 1_000


def test_leaving_ends_when_the_store_goes_away_meanwhile() -> None:
    is_done, took_ms = leave(lambda now_ms: now_ms < 2_000, 150_000)
    assert not is_done
    assert took_ms <= 2_000 + AWAY_LIMIT_MS + 1_000


def test_what_goes_wrong_while_leaving_is_told() -> None:
    async def work() -> None:
        raise ValueError("wrong")

    async def story() -> None:
        with pytest.raises(ValueError, match="wrong"):
            await while_reachable(work(), lambda: asyncio.sleep(0), ManualClock())

    run(story)
