"""A long request on a connection, seen as bytes: what is behind it is not begun until its answer has left."""

import asyncio
from collections import deque
from typing import Any

import pytest
from tests.unit.broker.conftest import MemoryBroker

from ottla.broker.network.acceptor import Acceptor, ConnectionLimits
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.served import LARGE_FRAME_BYTES, SERVED_APIS
from ottla.net.framed_link import FramedLink
from ottla.net.framing import SIZE, Buffer
from ottla.net.link import LinkSettings
from ottla.protocol.header import encode_request
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records import BatchBuilder

TOPIC = "orders"
LONG_ID, PRODUCE_ID, LAST_ID = 7, 8, 9
TURNS = 5_000


class BytesLink(FramedLink):
    """The broker's end of a connection: bytes that came wait while it does not read, as in a socket."""

    local_address = remote_address = ("10.0.0.1", 9092)

    def __init__(self, events: Any, settings: LinkSettings, look: Any) -> None:
        super().__init__(events, settings)
        self._look = look
        self._came: deque[bytes] = deque()
        self._is_reading = True
        self.answers: list[tuple[int, int]] = []  # correlation id, and what `look` saw when the answer left
        events.opened(self)

    def come(self, *reads: bytes) -> None:
        self._came.extend(reads)
        self._read()

    def _read(self) -> None:
        while self._came and self._is_reading:
            read = self._came.popleft()
            room = self._lend(-1)
            part = read[: len(room)]
            room[: len(part)] = part
            if part != read:
                self._came.appendleft(read[len(part) :])
            self._received(len(part))

    def _put(self, pieces: list[Buffer]) -> None:
        content, position = b"".join(map(bytes, pieces)), 0
        while position < len(content):
            (size,) = SIZE.unpack_from(content, position)
            self.answers.append((int.from_bytes(content[position + 4 : position + 8], "big"), self._look()))
            position += SIZE.size + size

    def _waiting_bytes(self) -> int:
        return 0

    def _stop_reading(self) -> None:
        self._is_reading = False

    def _go_on_reading(self) -> None:
        self._is_reading = True
        asyncio.get_running_loop().call_soon(self._read)

    def _cut(self) -> None:
        asyncio.get_running_loop().call_soon(self._finish, None)

    def close(self) -> None:
        self.abort()


class Door:
    """A transport with one listener; `knock` is a new connection."""

    port, addresses = 9092, ()

    async def serve(self, host: str, port: int, make_events: Any, *, settings: LinkSettings, **_: Any) -> "Door":
        self._make_events, self._settings = make_events, settings
        return self

    def knock(self, look: Any) -> BytesLink:
        return BytesLink(self._make_events(), self._settings, look)

    def close(self) -> None: ...


def framed(request: Any, version: int, correlation_id: int) -> bytes:
    frame = b"".join(
        map(bytes, encode_request(request, version=version, correlation_id=correlation_id, client_id="test"))
    )
    return SIZE.pack(len(frame)) + frame


def long_request() -> bytes:
    topics = [MetadataRequestTopic(name=f"no-such-topic-{number}") for number in range(800)]
    made = framed(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9, LONG_ID)
    assert len(made) > LARGE_FRAME_BYTES
    return made


def produce_request(correlation_id: int) -> bytes:
    batch = BatchBuilder(size_limit_bytes=1000)
    assert batch.append(1_000, b"key", b"value")
    data = PartitionProduceData(index=0, records=memoryview(bytes(batch.close())))
    topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
    return framed(ProduceRequest(transactional_id=None, acks=1, timeout_ms=1000, topic_data=topics), 9, correlation_id)


def answers_to(broker: MemoryBroker, *reads: bytes) -> list[tuple[int, int]]:
    """The correlation ids of the answers in their order, each with the end of the topic's log when it left."""

    def log_end_offset() -> int:
        return broker.partition(TOPIC).log.log_end_offset  # type: ignore[no-any-return]

    async def play() -> list[tuple[int, int]]:
        door = Door()
        acceptor = Acceptor(
            door,  # type: ignore[arg-type]
            Dispatch(broker.broker, SERVED_APIS, Gate(broker.broker)),
            clock=broker.clock,
            limits=ConnectionLimits(total=10, per_address=10, overrides={}),
            link_settings=LinkSettings(),
            idle_ms=60_000,
        )
        await acceptor.listen("PLAINTEXT", "localhost", 0, backlog=1)
        acceptor.release()
        link = door.knock(log_end_offset)
        link.come(*reads)
        for _ in range(TURNS):
            if len(link.answers) == 3:
                break
            await asyncio.sleep(0)
        acceptor.close()
        return link.answers

    return broker.loop.run_until_complete(play())


@pytest.mark.parametrize("is_one_read", [True, False], ids=["came together", "came one by one"])
def test_requests_behind_a_long_one_are_not_begun_until_it_is_answered(make_broker: Any, is_one_read: bool) -> None:
    broker = make_broker()
    broker.create_topic(TOPIC)
    frames = [long_request(), produce_request(PRODUCE_ID), produce_request(LAST_ID)]
    answers = answers_to(broker, *([b"".join(frames)] if is_one_read else frames))
    assert [correlation_id for correlation_id, _ in answers] == [LONG_ID, PRODUCE_ID, LAST_ID]
    assert answers[0] == (LONG_ID, 0), "a produce request was begun before the long request was answered"
    assert answers[2] == (LAST_ID, 2)


def test_a_long_request_waits_for_what_came_before_it_and_holds_back_what_came_behind(make_broker: Any) -> None:
    broker = make_broker()
    broker.create_topic(TOPIC)
    answers = answers_to(broker, produce_request(PRODUCE_ID) + long_request() + produce_request(LAST_ID))
    assert answers == [(PRODUCE_ID, 1), (LONG_ID, 1), (LAST_ID, 2)]
