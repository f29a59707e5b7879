"""What every request passes on its way: checks also for requests that came together, and who asks."""

from __future__ import annotations

from collections import deque

import pytest

from ottla.broker.network.processor import CloseConnection, Connection
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.running import Running
from ottla.broker.requests.served import SERVED_APIS, SMALL_FRAME_BYTES
from ottla.errors import MalformedMessage
from ottla.protocol.header import encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

VERSION = 11
PART = SMALL_FRAME_BYTES // 3 + 1


class CountingGate(Gate):
    """Checks everybody; refuses who asks in vain."""

    def __init__(self, broker, refuses=False):
        super().__init__(broker)
        self.checked = []
        self.refuses = refuses

    def check_of(self, api):
        return self.check

    def check(self, request, context):
        self.checked.append(context.client_id)
        if self.refuses:
            raise CloseConnection("not you")


def produce_frame(records, number):
    topics = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=records)])]
    return frame_of(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), VERSION, number)


def frame_of(request, version, number):
    parts = encode_request(request, version=version, correlation_id=number, client_id="someone")
    return memoryview(bytearray(b"".join(map(bytes, parts))))


def dispatch_together(broker, dispatch, frames):
    """What the dispatcher does with frames that came together, when it knows their kind already."""
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
    broker.do(lambda: dispatch.dispatch(frames[0], connection))
    return broker.do(lambda: dispatch.dispatch_run(frames[1], deque(frames[2:]), connection))


@pytest.fixture
def orders(make_broker):
    broker = make_broker(**{"ottla.durability": "replicated"})
    broker.create_topic("orders")
    return broker


def test_requests_that_are_neither_checked_nor_counted_may_be_handled_together(orders, batch):
    frames = [produce_frame(batch("a"), number) for number in range(4)]
    dispatch = Dispatch(orders.broker, SERVED_APIS, Gate(orders.broker))
    assert isinstance(dispatch_together(orders, dispatch, frames), bytes)
    assert orders.fetch("orders").high_watermark == 4


def test_requests_that_are_checked_are_handled_one_by_one(orders, batch):
    gate = CountingGate(orders.broker)
    frames = [produce_frame(batch("a"), number) for number in range(4)]
    assert dispatch_together(orders, Dispatch(orders.broker, SERVED_APIS, gate), frames) is None
    assert gate.checked == ["someone"]
    assert orders.fetch("orders").high_watermark == 1


def test_what_is_refused_is_not_handled(orders, batch):
    dispatch = Dispatch(orders.broker, SERVED_APIS, CountingGate(orders.broker, refuses=True))
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
    with pytest.raises(CloseConnection, match="not you"):
        orders.do(lambda: dispatch.dispatch(produce_frame(batch("a"), 1), connection))
    assert orders.fetch("orders").high_watermark == 0


def test_whoever_logs_in_again_is_asked_for_by_the_new_name(orders, monkeypatch):
    seen = []
    dispatch = Dispatch(orders.broker, SERVED_APIS, Gate(orders.broker))
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
    frame = frame_of(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3, 1)
    lane = dispatch._new_lane(18, 3)
    handler = lane.handler
    lane.handler = lambda broker, request, context: seen.append(context.principal) or handler(broker, request, context)
    for principal in ("User:anna", "User:anna", "User:bert"):
        connection.authenticated(principal)
        orders.do(lambda: dispatch.dispatch(frame, connection))
    assert seen == ["User:anna", "User:anna", "User:bert"]


def test_answers_of_requests_that_came_together_and_wait_have_their_own_numbers(make_broker, batch, monkeypatch):
    broker = make_broker(**{"ottla.durability": "durable"})
    broker.create_topic("orders")
    progress = broker.broker.progress
    mark = progress._flusher.mark
    monkeypatch.setattr(progress._flusher, "mark", lambda partition: None)  # a disk that takes its time
    frames = [produce_frame(batch("a"), number) for number in (40, 41, 42, 43)]
    dispatch = Dispatch(broker.broker, SERVED_APIS, Gate(broker.broker))
    begun = []

    def begin():
        connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
        begun.append(Running(dispatch.dispatch(frames[0], connection)))
        answers = dispatch.dispatch_run(frames[1], deque(frames[2:]), connection)
        begun.extend(Running(answer) for answer, _ in answers)

    broker.do(begin)
    assert [each.is_done for each in begun] == [False] * 4
    broker.do(lambda: mark(broker.partition("orders")))
    numbers = [int.from_bytes(bytes(each.result()[0][:4])) for each in begun]
    assert numbers == [40, 41, 42, 43]


def test_a_frame_that_is_larger_than_its_kind_needs_is_refused(broker):
    request = HeartbeatRequest(group_id="g" * PART, generation_id=1, member_id="m" * PART, group_instance_id="i" * PART)
    dispatch = Dispatch(broker.broker, SERVED_APIS, Gate(broker.broker))
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
    frame = frame_of(request, 3, 1)
    with pytest.raises(MalformedMessage, match="65536 are allowed"):
        broker.do(lambda: Running(dispatch.dispatch(frame, connection)).result())
