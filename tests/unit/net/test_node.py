"""A peer that really runs: over memory with a clock that moves when told, and over sockets on both loops.

The last tests let other people's clients talk to our side of the transport.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import Any

import pytest
import uvloop
from tests.patience import HANG_S

from ottla.clock import SystemClock
from ottla.errors import AuthenticationFailed, ConnectionClosed, NotConnected, OttlaError, RequestTimedOut
from ottla.net.connection import AnswerOrder, ApiVersionTable
from ottla.net.framing import Buffer, frame_prefix
from ottla.net.handshake import Ask, Authenticated
from ottla.net.link import Link, LinkSettings, Transport
from ottla.net.node import NodeConnection
from ottla.net.peer import Peer, PeerSettings, State
from ottla.net.transport import TcpTransport
from ottla.protocol.api import APIS
from ottla.protocol.header import decode_request, decode_request_header, encode_response, read_key_and_version
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.schema import Message
from ottla.testing.clock import ManualClock
from ottla.testing.network import MemoryNetwork, Weather

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=7, member_id="m")


@pytest.fixture(autouse=True)
def _nothing_fails_in_itself(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A fault inside is fenced off and logged; here it must not go unnoticed, unless a test made it itself."""
    yield
    faults = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR and record.exc_info]
    assert [fault.exc_text for fault in faults if "a fault of ours" not in str(fault.exc_text)] == []


class TinyBroker:
    """The answering side of one link: decodes, asks `respond`, keeps the order. None from `respond` means later."""

    def __init__(
        self,
        respond: Callable[[Message], Message | None],
        highest_api_versions: int = 4,
        offered: Collection[int] = APIS.keys(),
    ) -> None:
        self._respond = respond
        self._offered = offered
        self._highest = highest_api_versions
        self._order: AnswerOrder[list[Buffer]] = AnswerOrder(request_limit=4)
        self.link: Link | None = None
        self.requests: list[Message] = []
        self.unanswered: list[tuple[int, int, int]] = []
        self.endings: list[OttlaError | None] = []

    def opened(self, link: Link) -> None:
        self.link = link

    def frame_received(self, frame: memoryview) -> None:
        place = self._order.arrived(len(frame))
        key, version = read_key_and_version(frame)
        if key == 18 and version > self._highest:
            header, _ = decode_request_header(frame)
            self.answer(place, 0, header.correlation_id, self._versions(error_code=35))
            return
        header, request = decode_request(frame)
        self.requests.append(request)
        response = self._versions() if key == 18 else self._respond(request)
        if response is None:
            self.unanswered.append((place, version, header.correlation_id))
        else:
            self.answer(place, version, header.correlation_id, response)

    def answer(self, place: int, version: int, correlation_id: int, response: Message) -> None:
        assert self.link is not None
        parts = encode_response(response, version=version, correlation_id=correlation_id)
        for ready in self._order.answered(place, [frame_prefix(parts), *parts]):
            self.link.write(ready)

    def writable_changed(self, writable: bool) -> None:
        """Answers here are small."""

    def closed(self, error: OttlaError | None) -> None:
        self.endings.append(error)

    def _versions(self, error_code: int = 0) -> ApiVersionsResponse:
        keys = [
            ApiVersion(
                api_key=key,
                min_version=api.versions.min if key else 0,
                max_version=self._highest if key == 18 else api.versions.max,
            )
            for key, api in APIS.items()
            if key in self._offered
        ]
        return ApiVersionsResponse(error_code=error_code, api_keys=keys)


def alive(request: Message) -> Message | None:
    """Answers a heartbeat with its generation, so that answers can be told apart."""
    assert isinstance(request, HeartbeatRequest)
    return HeartbeatResponse(throttle_time_ms=request.generation_id, error_code=0)


def node_for(
    transport: Transport, clock: Any, port: int, *, host: str = "broker", authenticator: Any = None, **changed: Any
) -> NodeConnection:
    settings = PeerSettings(client_id="test", jitter=0, **changed)
    peer = Peer(host, port, random=random.Random(1), settings=settings, authenticator=authenticator)
    return NodeConnection(peer, transport=transport, clock=clock)


class Stage:
    """A network in memory with one broker on it."""

    def __init__(self, respond: Callable[[Message], Message | None] = alive, **weather: Any) -> None:
        self.clock = ManualClock()
        self.network = MemoryNetwork(clock=self.clock, random=random.Random(3), weather=Weather(**weather))
        self.brokers: list[TinyBroker] = []
        self._respond = respond

    async def serve(self) -> None:
        await self.network.serve("broker", 9092, self._new_broker)

    def _new_broker(self) -> TinyBroker:
        self.brokers.append(TinyBroker(self._respond))
        return self.brokers[-1]

    def node(self, **changed: Any) -> NodeConnection:
        return node_for(self.network, self.clock, 9092, **changed)


def on_stage(test: Callable[[Stage], Coroutine[Any, Any, None]], stage_of: Callable[[], Stage] = Stage) -> None:
    async def with_stage() -> None:
        stage = stage_of()
        await stage.serve()
        await test(stage)
        await stage.network.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert left == []

    asyncio.run(with_stage())


def test_a_request_is_answered() -> None:
    async def test(stage: Stage) -> None:
        node = stage.node()
        assert await node.send(HEARTBEAT) == HeartbeatResponse(throttle_time_ms=7, error_code=0)
        assert node.peer.state is State.READY
        await node.close()
        await stage.clock.advance(0)
        assert stage.brokers[0].endings == [None]

    on_stage(test)


def test_many_requests_at_once_get_their_own_answers() -> None:
    async def test(stage: Stage) -> None:
        node = stage.node(in_flight_limit=3)
        requests = [HeartbeatRequest(group_id="g", generation_id=number, member_id="m") for number in range(40)]
        sends = [asyncio.create_task(node.send(request)) for request in requests]
        await stage.clock.advance(5000)
        answers = [(await send).throttle_time_ms for send in sends]
        assert answers == list(range(40))
        await node.close()

    on_stage(test, lambda: Stage(delay_ms=(0, 20), piece_bytes=7))


def test_connect_tells_the_versions() -> None:
    async def test(stage: Stage) -> None:
        node = stage.node()
        versions = await node.connect()
        assert isinstance(versions, ApiVersionTable)
        assert versions.choose(APIS[12]) == APIS[12].versions.max
        assert await node.connect() is versions
        await node.close()

    on_stage(test)


def test_connect_tries_again_and_says_why_it_gave_up() -> None:
    async def test(stage: Stage) -> None:
        node = node_for(stage.network, stage.clock, 1)
        connecting = asyncio.create_task(node.connect(timeout_ms=1000))
        await stage.clock.advance(999)
        assert not connecting.done()
        assert len([step for step in node.peer.story() if "to connecting" in step]) == 5  # 0, 50, 150, 350, 750 ms
        await stage.clock.advance(1)
        with pytest.raises(NotConnected, match="nothing listens there"):
            await connecting
        await stage.clock.advance(5000)
        assert node.peer.state is State.DISCONNECTED
        await node.close()

    on_stage(test)


def test_a_request_survives_a_broker_that_starts_late() -> None:
    async def test(stage: Stage) -> None:
        node = node_for(stage.network, stage.clock, 1)
        sending = asyncio.create_task(node.send(HEARTBEAT, timeout_ms=10_000))
        await stage.clock.advance(2000)
        await stage.network.serve("broker", 1, lambda: TinyBroker(alive))
        await stage.clock.advance(2000)
        assert (await sending).throttle_time_ms == 7
        await node.close()

    on_stage(test)


def test_silence_ends_in_time() -> None:
    async def test(stage: Stage) -> None:
        node = stage.node()
        await node.connect()
        first = asyncio.create_task(node.send(HEARTBEAT, timeout_ms=100))
        second = asyncio.create_task(node.send(HEARTBEAT, timeout_ms=10_000))
        await stage.clock.advance(99)
        assert not first.done()
        await stage.clock.advance(1)
        with pytest.raises(RequestTimedOut, match="no answer to Heartbeat"):
            await first
        with pytest.raises(ConnectionClosed, match="had no answer yet"):
            await second
        assert stage.brokers[0].endings == [None]
        await node.close()

    on_stage(test, lambda: Stage(lambda request: None))


def test_a_black_hole_ends_in_time_too() -> None:
    async def test(stage: Stage) -> None:
        stage.network.swallow("broker", 9092)
        node = stage.node()
        sending = asyncio.create_task(node.send(HEARTBEAT, timeout_ms=15_000))
        await stage.clock.advance(10_000)
        assert "does not answer at all" in str(node.peer.failure)
        await stage.clock.advance(5000)
        with pytest.raises(NotConnected, match="waited too long"):
            await sending
        await node.close()

    on_stage(test)


def test_a_broken_connection_fails_what_was_sent_and_the_next_request_connects_again() -> None:
    async def test(stage: Stage) -> None:
        node = stage.node()
        await node.connect()
        broker = stage.brokers[0]
        sending = asyncio.create_task(node.send(HEARTBEAT))
        await stage.clock.advance(1)
        assert len(broker.unanswered) == 1
        stage.network.break_all()
        with pytest.raises(ConnectionClosed, match="the network broke"):
            await sending
        again = asyncio.create_task(node.send(HEARTBEAT))
        await stage.clock.advance(100)
        second = stage.brokers[1]
        second.answer(*second.unanswered.pop(), HeartbeatResponse(throttle_time_ms=1, error_code=0))
        assert (await again).throttle_time_ms == 1
        await node.close()

    on_stage(test, lambda: Stage(lambda request: None))


def test_after_a_fault_in_itself_the_next_request_connects_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: list[Buffer]) -> None:
        raise ZeroDivisionError("a fault of ours")

    async def test(stage: Stage) -> None:
        node = stage.node()
        await node.connect()
        assert node.newest is not None
        assert node.newest.link is not None
        monkeypatch.setattr(node.newest.link, "write", fail)
        with pytest.raises(ZeroDivisionError):
            await node.send(HEARTBEAT)
        again = asyncio.create_task(node.send(HEARTBEAT))
        await stage.clock.advance(100)
        second = stage.brokers[1]
        second.answer(*second.unanswered.pop(), HeartbeatResponse(throttle_time_ms=1, error_code=0))
        assert (await again).throttle_time_ms == 1
        await node.close()

    on_stage(test, lambda: Stage(lambda request: None))


def test_cancelling_one_request_disturbs_no_other() -> None:
    async def test(stage: Stage) -> None:
        node = stage.node(in_flight_limit=1)
        await node.connect()
        broker = stage.brokers[0]
        sends = [asyncio.create_task(node.send(HEARTBEAT)) for _ in range(3)]
        await stage.clock.advance(1)
        sends[0].cancel()  # already written: its answer comes and is dropped
        sends[1].cancel()  # not written yet, and never will be
        await stage.clock.advance(1)
        for generation in (10, 30):
            broker.answer(*broker.unanswered.pop(), HeartbeatResponse(throttle_time_ms=generation, error_code=0))
            await stage.clock.advance(1)
        assert (await sends[2]).throttle_time_ms == 30
        assert [send.cancelled() for send in sends] == [True, True, False]
        assert len(broker.requests) == 3  # ApiVersions and the two that were written
        await node.close()

    on_stage(test, lambda: Stage(lambda request: None))


def test_close_fails_what_waits_and_then_refuses() -> None:
    async def test(stage: Stage) -> None:
        node = stage.node()
        sending = asyncio.create_task(node.send(HEARTBEAT))
        await stage.clock.advance(1)
        await node.close()
        with pytest.raises(ConnectionClosed, match="closed by us"):
            await sending
        with pytest.raises(NotConnected, match="closed by us"):
            await node.send(HEARTBEAT)
        with pytest.raises(NotConnected, match="closed by us"):
            await node.connect()
        await node.close()

    on_stage(test, lambda: Stage(lambda request: None))


def test_close_while_connecting_leaves_nothing_behind() -> None:
    async def test(stage: Stage) -> None:
        stage.network.swallow("broker", 9092)
        node = stage.node()
        sending = asyncio.create_task(node.send(HEARTBEAT))
        await stage.clock.advance(100)
        await node.close()
        with pytest.raises(NotConnected):
            await sending

    on_stage(test)


def test_an_idle_connection_is_closed_and_made_again() -> None:
    async def test(stage: Stage) -> None:
        node = stage.node(idle_limit_ms=1000)
        await node.send(HEARTBEAT)
        await stage.clock.advance(60_000)
        assert stage.network.open_count == 0
        await node.send(HEARTBEAT)
        assert len(stage.brokers) == 2
        await node.close()

    on_stage(test)


def test_a_request_without_answer_returns_at_once() -> None:
    async def test(stage: Stage) -> None:
        node = stage.node()
        assert await node.send(HEARTBEAT, expects_response=False) is None
        await stage.clock.advance(1)
        assert stage.brokers[0].requests[-1] == HEARTBEAT
        await node.close()

    on_stage(test, lambda: Stage(lambda request: None))


class Doorman:
    """Asks for a handshake and lets in those whose mechanism the broker knows."""

    def start(self, versions: ApiVersionTable) -> Ask | Authenticated:
        return Ask(SaslHandshakeRequest(mechanism="SCRIPT"), versions.choose(APIS[17]))

    def answered(self, response: Message) -> Ask | Authenticated:
        assert isinstance(response, SaslHandshakeResponse)
        if response.error_code:
            raise AuthenticationFailed(f"the broker knows {response.mechanisms}")
        return Authenticated()


@pytest.mark.parametrize("known", [True, False])
def test_an_authenticator_decides_who_gets_in(known: bool) -> None:
    def respond(request: Message) -> Message | None:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(error_code=0 if known else 33, mechanisms=["OTHER"])
        return alive(request)

    async def test(stage: Stage) -> None:
        node = stage.node(authenticator=Doorman)
        if known:
            assert (await node.send(HEARTBEAT)).throttle_time_ms == 7
        else:
            for _ in range(2):
                with pytest.raises(AuthenticationFailed, match="OTHER"):
                    await node.send(HEARTBEAT)
            connecting = asyncio.create_task(node.connect())
            await stage.clock.advance(100)
            with pytest.raises(AuthenticationFailed, match="OTHER"):
                await connecting
            await stage.clock.advance(60_000)
            assert len(stage.brokers) == 2  # once by the first request, once because connect asked again
        await node.close()

    on_stage(test, lambda: Stage(respond))


def test_a_fault_in_the_transport_reaches_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(MemoryNetwork):
        async def connect(self, *arguments: Any, **named: Any) -> Link:
            raise ZeroDivisionError("a fault of ours")

    async def test() -> None:
        clock = ManualClock()
        node = node_for(Faulty(clock=clock, random=random.Random(1)), clock, 1)
        connecting = asyncio.create_task(node.connect(timeout_ms=10))
        await clock.advance(10)
        with pytest.raises(NotConnected, match="a fault of ours"):
            await connecting
        await node.close()

    asyncio.run(test())
    assert "unexpected way" in caplog.text


@pytest.mark.parametrize("seed", range(12))
def test_in_any_weather_every_request_ends_once_and_with_its_own_answer(seed: int) -> None:
    async def run() -> list[str]:
        clock = ManualClock()
        weather = Weather(delay_ms=(0, 40), piece_bytes=30, break_chance=0.01)
        network = MemoryNetwork(clock=clock, random=random.Random(seed), weather=weather)
        await network.serve("broker", 9092, lambda: TinyBroker(alive))
        node = node_for(network, clock, 9092)
        requests = [HeartbeatRequest(group_id="g", generation_id=number, member_id="m") for number in range(60)]
        sends = [asyncio.create_task(node.send(request, timeout_ms=20_000)) for request in requests]
        await clock.advance(20_001)
        assert all(send.done() for send in sends)
        results = await asyncio.gather(*sends, return_exceptions=True)
        for number, result in enumerate(results):
            assert isinstance(result, OttlaError) or result.throttle_time_ms == number  # type: ignore[union-attr]
        await node.close()
        await network.close()
        return [repr(result) for result in results]

    first = asyncio.run(run())
    assert first == asyncio.run(run())
    assert any("HeartbeatResponse" in result for result in first)


# --- over sockets ---


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("highest_api_versions", [0, 2, 4])
def test_over_sockets_old_and_new_brokers_are_understood(loop_factory: Any, highest_api_versions: int) -> None:
    async def test() -> None:
        transport = TcpTransport()
        listener = await transport.serve("127.0.0.1", 0, lambda: TinyBroker(alive, highest_api_versions))
        node = node_for(transport, SystemClock(), listener.port, host="127.0.0.1")
        requests = [HeartbeatRequest(group_id="g", generation_id=number, member_id="m") for number in range(200)]
        answers = await asyncio.gather(*(node.send(request, timeout_ms=10_000) for request in requests))
        assert [answer.throttle_time_ms for answer in answers] == list(range(200))
        await node.close()
        listener.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(test())


def test_an_http_server_is_called_by_its_name() -> None:
    class Http(TinyBroker):
        def opened(self, link: Link) -> None:
            link.write([b"HTTP/1.1 400 Bad Request\r\n\r\n"])

        def frame_received(self, frame: memoryview) -> None:
            """Whatever we say, it has said its piece."""

    async def test() -> None:
        transport = TcpTransport()
        listener = await transport.serve("127.0.0.1", 0, lambda: Http(alive))
        node = node_for(transport, SystemClock(), listener.port, host="127.0.0.1")
        with pytest.raises(NotConnected, match=r"does not speak Kafka: .*HTTP server"):
            await node.connect(timeout_ms=40)
        await node.close()
        listener.close()

    asyncio.run(test())


# --- other people's clients ---


class ServedInThread:
    """Our side of the transport in a thread of its own: some clients block the thread they are called from."""

    def __init__(self) -> None:
        self.port = 0
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> int:
        self._thread.start()
        assert self._started.wait(HANG_S)
        return self.port

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANG_S)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        listener = await TcpTransport().serve(
            "127.0.0.1",
            0,
            lambda: TinyBroker(self._respond, offered={3, 18}),
            settings=LinkSettings(frame_limit_bytes=1_000_000),
        )
        self.port = listener.port
        self._started.set()
        await self._stop.wait()
        listener.close()

    def _respond(self, request: Message) -> Message | None:
        assert isinstance(request, MetadataRequest)
        partition = MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1]
        )
        topics = [
            MetadataResponseTopic(error_code=0, name=name, topic_id=bytes(15) + bytes([number]), partitions=[partition])
            for number, name in enumerate(["metamorphosis", "the-castle"], start=1)
        ]
        broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)
        return MetadataResponse(brokers=[broker], topics=topics, cluster_id="prague", controller_id=1)


TOPICS = {"metamorphosis", "the-castle"}


def test_librdkafka_lists_topics_from_our_side_of_the_wire() -> None:
    admin_module = pytest.importorskip("confluent_kafka.admin", reason="needs what pip install 'ottla[dev]' brings")
    with ServedInThread() as port:
        admin = admin_module.AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        listed = admin.list_topics(timeout=HANG_S)
        assert set(listed.topics) == TOPICS
        assert listed.cluster_id == "prague"
        del admin


def test_kafka_python_lists_topics_from_our_side_of_the_wire() -> None:
    kafka = pytest.importorskip("kafka", reason="needs what pip install 'ottla[dev]' brings")
    with ServedInThread() as port:
        admin = kafka.KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}", request_timeout_ms=10_000)
        assert set(admin.list_topics()) == TOPICS
        admin.close()


def test_aiokafka_lists_topics_from_our_side_of_the_wire() -> None:
    admin_module = pytest.importorskip("aiokafka.admin", reason="needs what pip install 'ottla[dev]' brings")

    async def list_topics(port: int) -> set[str]:
        admin = admin_module.AIOKafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}", request_timeout_ms=10_000)
        async with asyncio.timeout(HANG_S):
            await admin.start()
            try:
                return set(await admin.list_topics())
            finally:
                await admin.close()

    with ServedInThread() as port:
        assert asyncio.run(list_topics(port)) == TOPICS
