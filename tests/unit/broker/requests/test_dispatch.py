"""What every request passes on its way: checks also for requests that came together, and who asks."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest

from ottla.broker.network.processor import CloseConnection, Connection, _frames_in
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.running import Running, awaited
from ottla.broker.requests.served import SERVED_APIS, SMALL_FRAME_BYTES
from ottla.cluster.changes import CreateAcl, RemoveAcl, apply_all
from ottla.cluster.model import AclBinding, AclEntry, AclPattern
from ottla.errors import MalformedMessage
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
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


def produce_frame(records, number, topic="orders", version=VERSION):
    named = {"name": topic} if isinstance(topic, str) else {"topic_id": topic}
    topics = [TopicProduceData(**named, partition_data=[PartitionProduceData(index=0, records=records)])]
    return frame_of(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), version, number)


def frame_of(request, version, number):
    parts = encode_request(request, version=version, correlation_id=number, client_id="someone")
    return memoryview(bytearray(b"".join(map(bytes, parts))))


def answer_one(broker, dispatch, frame, connection):
    """Dispatch a frame, and let its answer be awaited where it must be."""

    async def answered():
        return await awaited(dispatch.dispatch(frame, connection))

    return broker.loop.run_until_complete(answered())


def dispatch_together(broker, dispatch, frames, principal="User:ANONYMOUS"):
    """What the dispatcher does with frames that came together, when it knows their kind already."""
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
    connection.authenticated(principal)
    answer_one(broker, dispatch, frames[0], connection)
    return broker.do(lambda: dispatch.dispatch_run(frames[1], deque(frames[2:]), connection))


@pytest.fixture
def orders(make_broker):
    broker = make_broker(**{"ottla.durability": "replicated"})
    broker.create_topic("orders")
    return broker


def test_requests_that_are_neither_checked_nor_counted_may_be_handled_together(orders, batch):
    frames = [produce_frame(batch("a"), number) for number in range(4)]
    dispatch = Dispatch(orders.broker, SERVED_APIS, Gate(orders.broker))
    assert dispatch_together(orders, dispatch, frames).is_over
    assert orders.fetch("orders").high_watermark == 4


def secured_orders(make_broker, principal):
    """A broker with a topic that this principal may write to."""
    broker = make_broker(
        **{
            "ottla.durability": "replicated",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )
    broker.create_topic("orders")
    pattern = AclPattern(AclResource.TOPIC, PatternType.LITERAL, "orders")
    entry = AclEntry(principal, "*", AclOperation.WRITE, AclPermission.ALLOW)
    image = apply_all(broker.image, [CreateAcl(AclBinding(pattern, entry))])
    broker.do(lambda: broker.broker.take_image(image))
    return broker


@pytest.mark.parametrize("topic_ids", [False, True])
def test_requests_of_who_may_write_are_handled_together_with_an_authorizer_too(make_broker, batch, topic_ids):
    orders = secured_orders(make_broker, "User:alice")
    version, name = (13, orders.image.topic_id("orders")) if topic_ids else (VERSION, "orders")
    frames = [produce_frame(batch("a"), number, name, version) for number in range(4)]
    dispatch = Dispatch(orders.broker, SERVED_APIS, Gate(orders.broker))
    assert dispatch_together(orders, dispatch, frames, "User:alice").is_over
    assert orders.fetch("orders").high_watermark == 4


def test_a_rule_that_goes_ends_what_was_remembered_of_a_connection(make_broker, batch):
    orders = secured_orders(make_broker, "User:alice")
    dispatch = Dispatch(orders.broker, SERVED_APIS, Gate(orders.broker))
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
    connection.authenticated("User:alice")
    frames = [produce_frame(batch("a"), number) for number in range(6)]
    answer_one(orders, dispatch, frames[0], connection)
    assert orders.fetch("orders").high_watermark == 1
    without = apply_all(orders.image, [RemoveAcl(each) for each in orders.image.acl_bindings()])
    orders.do(lambda: orders.broker.take_image(without))
    assert orders.do(lambda: dispatch.dispatch_run(frames[1], deque(frames[2:5]), connection)) is None
    answer_one(orders, dispatch, frames[5], connection)
    assert orders.fetch("orders").high_watermark == 1


def test_requests_of_who_may_not_write_are_not_handled_together(make_broker, batch):
    orders = secured_orders(make_broker, "User:bob")
    frames = [produce_frame(batch("a"), number) for number in range(4)]
    dispatch = Dispatch(orders.broker, SERVED_APIS, Gate(orders.broker))
    assert dispatch_together(orders, dispatch, frames, "User:alice") is None
    assert orders.fetch("orders").high_watermark == 0


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
    begun, left = [], []

    def begin():
        connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
        begun.append(Running(dispatch.dispatch(frames[0], connection)))
        answers = dispatch.dispatch_run(frames[1], deque(frames[2:]), connection)
        assert answers.request_bytes == [len(frame) for frame in frames[1:]]
        answers.leave_by(SimpleNamespace(leave=lambda places, content: left.append(content)), [1, 2, 3])

    broker.do(begin)
    assert (begun[0].is_done, left) == (False, [])
    broker.do(lambda: mark(broker.partition("orders")))
    [together] = left
    numbers = [bytes(begun[0].result()[0][:4]), *(bytes(frame[:4]) for frame in _frames_in(together))]
    assert [int.from_bytes(each) for each in numbers] == [40, 41, 42, 43]


def test_a_frame_that_is_larger_than_its_kind_needs_is_refused(broker):
    request = HeartbeatRequest(group_id="g" * PART, generation_id=1, member_id="m" * PART, group_instance_id="i" * PART)
    dispatch = Dispatch(broker.broker, SERVED_APIS, Gate(broker.broker))
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
    frame = frame_of(request, 3, 1)
    with pytest.raises(MalformedMessage, match="65536 are allowed"):
        broker.do(lambda: Running(dispatch.dispatch(frame, connection)).result())
