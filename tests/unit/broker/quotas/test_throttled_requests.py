"""Requests above a quota: what the answer says, that the connection is not heard meanwhile, and what comes of it in 30
seconds. Time is the test's own."""

from __future__ import annotations

from collections import deque

import pytest

from ottla.broker.network.processor import Connection
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.served import SERVED_APIS
from ottla.protocol.api import api_of
from ottla.protocol.compiled import decode
from ottla.protocol.header import encode_request, response_header_version
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MB = 1_000_000
PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"


class Link:
    """Delivers frames while it is read, as a link does."""

    writable = True
    remote_address = ("10.0.0.1", 1234)

    def __init__(self):
        self.following, self.written, self.is_reading = deque(), b"", True

    def write(self, buffers):
        self.written += b"".join(map(bytes, buffers))

    def send_file(self, before, number, position, size_bytes):
        return None

    def pause_reading(self):
        self.is_reading = False

    def resume_reading(self):
        self.is_reading = True


class Client:
    """A connection of a client id; what it asks for is answered when the broker hears it."""

    def __init__(self, memory_broker, client_id, connection_of):
        self.memory_broker, self.client_id, self.link = memory_broker, client_id, Link()
        self.connection = connection_of(self.link)
        self.numbers = 0

    def send(self, *requests, version):
        for request in requests:
            self.numbers += 1
            parts = encode_request(request, version=version, correlation_id=self.numbers, client_id=self.client_id)
            self.link.following.append(memoryview(bytearray(b"".join(map(bytes, parts)))))
        self.memory_broker.do(self.deliver)

    def deliver(self):
        while self.link.following and self.link.is_reading:
            self.connection.frame_received(self.link.following.popleft())

    def answers(self, kind, version):
        """All that were written since."""
        found, written, self.link.written = [], self.link.written, b""
        while written:
            size = int.from_bytes(written[:4])
            header = 4 + response_header_version(api_of(kind).key, version)
            found.append(decode(kind, version, written[4 + header : 4 + size]))
            written = written[4 + size :]
        return found

    def ask(self, request, version):
        self.send(request, version=version)
        (answer,) = self.answers(api_of(request).response, version)
        return answer


class World:
    """A broker with the topic orders, and clients of it."""

    def __init__(self, memory_broker):
        self.memory_broker = memory_broker
        self.clock = memory_broker.clock
        memory_broker.create_topic("orders")
        broker = memory_broker.broker
        self.dispatch = Dispatch(broker, SERVED_APIS, Gate(broker))
        self.connections = []
        broker.quotas.notify = lambda: [each.contexts.clear() for each in self.connections]

    def client(self, client_id):
        return Client(self.memory_broker, client_id, self.connect)

    def connect(self, link):
        connection = Connection(1, "PLAINTEXT", self.dispatch, lambda _: None, clock=self.clock)
        connection.opened(link)
        self.connections.append(connection)
        return connection

    def set_quota(self, client_id, **values):
        entity = [EntityData(entity_type="client-id", entity_name=client_id)]
        ops = [OpData(key=key, value=value or 0, remove=value is None) for key, value in values.items()]
        answer = self.memory_broker.ask(
            AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)], validate_only=False)
        )
        assert answer.entries[0].error_code == 0, answer

    def pass_time(self, ms):
        self.memory_broker.loop.run_until_complete(self.clock.advance(ms))


@pytest.fixture
def world(make_broker):
    return World(make_broker(**{"ottla.durability": "replicated", "message.max.bytes": "50000000"}))


@pytest.fixture
def produce(batch, world):
    def make(size_bytes, acks=-1):
        records = batch("x" * size_bytes, timestamp_ms=world.clock.now_ms(), size_limit_bytes=1 << 24)
        data = PartitionProduceData(index=0, records=records)
        return ProduceRequest(
            acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
        )

    return make


def fetch(offset=0, max_bytes=50 * MB, *, session=(0, -1), max_wait_ms=0, replica_id=-1):
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic="orders", partitions=[wanted])],
        forgotten_topics_data=[],
    )


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_a_produce_request_above_the_quota_is_answered_at_once_and_its_connection_not_heard(world, produce, version):
    world.set_quota("shop", **{PRODUCE: MB})
    client, other = world.client("shop"), world.client("till")
    assert client.ask(produce(10 * MB - 1000), version).throttle_time_ms == 0
    client.send(produce(MB // 2), produce(10), version=version)
    (answer,) = client.answers(api_of(produce(1)).response, version)
    assert answer.responses[0].partition_responses[0].base_offset == 1
    assert answer.throttle_time_ms == pytest.approx(500, abs=2)
    assert not client.link.is_reading
    assert other.ask(produce(MB), version).throttle_time_ms == 0
    world.pass_time(answer.throttle_time_ms - 1)
    assert not client.link.is_reading
    world.pass_time(2)
    assert client.link.is_reading
    client.send(version=version)
    (answer,) = client.answers(api_of(produce(1)).response, version)
    assert answer.throttle_time_ms == 0


def test_a_producer_that_wants_no_answer_is_not_heard_either(world, produce):
    world.set_quota("shop", **{PRODUCE: MB, REQUEST: 0.001})
    client = world.client("shop")
    client.send(produce(11 * MB, acks=0), version=9)
    assert not client.link.is_reading
    assert client.link.written == b""


def test_requests_that_came_together_are_counted_together_and_stop_at_the_quota(world, produce):
    world.set_quota("shop", **{PRODUCE: MB})
    client = world.client("shop")
    client.ask(produce(9 * MB), 11)
    client.send(*(produce(90_000) for _ in range(5)), version=11)
    assert [each.throttle_time_ms for each in client.answers(api_of(produce(1)).response, 11)] == [0] * 5
    client.send(*(produce(200_000) for _ in range(5)), version=11)
    waits = [each.throttle_time_ms for each in client.answers(api_of(produce(1)).response, 11)]
    assert waits == [0, 0, pytest.approx(50, abs=10)]
    assert len(client.link.following) == 2  # they wait until the connection is heard again


def test_a_quota_acts_on_connections_that_are_there_and_so_does_its_end(world, produce):
    client = world.client("shop")
    assert client.ask(produce(11 * MB), 11).throttle_time_ms == 0
    world.set_quota("shop", **{PRODUCE: MB})
    assert client.ask(produce(11 * MB), 11).throttle_time_ms == pytest.approx(1000, abs=2)
    world.pass_time(1100)
    world.set_quota("shop", **{PRODUCE: None})
    assert client.ask(produce(11 * MB), 11).throttle_time_ms == 0


def test_a_fetch_that_is_too_much_is_answered_without_records(world, produce):
    for _ in range(4):
        world.client("till").ask(produce(400_000), 11)
    world.set_quota("shop", **{FETCH: MB // 10})
    client = world.client("shop")
    opened = client.ask(fetch(max_bytes=900_000, session=(0, 0)), 12)
    assert len(opened.responses[0].partitions[0].records) == 900_000
    throttled = client.ask(fetch(2, session=(opened.session_id, 1)), 12)
    assert throttled.responses == []
    assert throttled.throttle_time_ms == pytest.approx(7000, abs=50)
    assert not client.link.is_reading
    world.pass_time(12_000)
    answer = client.ask(fetch(2, session=(opened.session_id, 2)), 12)
    assert answer.error_code == answer.throttle_time_ms == 0
    assert len(answer.responses[0].partitions[0].records) > 800_000


def test_a_fetch_reads_no_more_than_one_who_used_nothing_before_may_have(world, produce):
    for _ in range(4):
        world.client("till").ask(produce(400_000), 11)
    world.set_quota("shop", **{FETCH: MB // 10})
    client = world.client("shop")
    refused = client.ask(fetch(), 12)
    assert refused.throttle_time_ms == 1  # what an answer says beside its records is a little too much
    world.pass_time(2)
    answer = client.ask(fetch(), 12)
    assert len(answer.responses[0].partitions[0].records) == MB


def test_time_counts_too(world):
    world.set_quota("shop", **{REQUEST: 1})
    client = world.client("shop")
    lane = world.dispatch._new_lane(3, 9)
    handler = lane.handler

    def slow(broker, request, context):
        world.clock.move(150)
        return handler(broker, request, context)

    lane.handler = slow
    answer = client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), 9)
    assert answer.throttle_time_ms == 1000  # a window at most
    assert not client.link.is_reading


def steps_of_30_seconds(world, client, request, version):
    """Ask as fast as the answers let one, two milliseconds each; gives what was answered, with the time."""
    answers = []
    end_ms = world.clock.monotonic_ms() + 30_000
    while world.clock.monotonic_ms() < end_ms:
        answer = client.ask(request(), version)
        answers.append(answer)
        world.pass_time(answer.throttle_time_ms + 2)
    return answers


def test_a_producer_under_one_megabyte_a_second_gets_it_for_30_seconds(make_broker, batch):
    world = World(make_broker(**{"ottla.durability": "replicated", "quota.window.num": "6"}))
    world.set_quota("shop", **{PRODUCE: MB})
    records = batch("x" * 100_000, timestamp_ms=world.clock.now_ms())
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=records)])
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])
    answers = steps_of_30_seconds(world, world.client("shop"), lambda: request, 11)
    assert len(answers) * len(records) == pytest.approx(30 * MB, rel=0.05)


def test_a_consumer_under_one_megabyte_a_second_gets_it_for_30_seconds(make_broker, batch):
    world = World(make_broker(**{"ottla.durability": "replicated", "quota.window.num": "6"}))
    world.set_quota("shop", **{FETCH: MB})
    records = batch("x" * 100_000, timestamp_ms=world.clock.now_ms())
    world.memory_broker.produce("orders", records)
    answers = steps_of_30_seconds(world, world.client("shop"), lambda: fetch(max_bytes=100_000), 12)
    got = sum(len(topic.partitions[0].records) for answer in answers for topic in answer.responses)
    assert got == pytest.approx(30 * MB, rel=0.05)
