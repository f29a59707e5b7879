"""The fake cluster does what its script says: each way of bending, seen by a client that is a bare socket."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import time

import confluent_kafka
import pytest
from tests.patience import HANG_S

from ottla.client.network import NetworkClient
from ottla.client.settings import ClientSettings
from ottla.errors import NotLeaderOrFollower
from ottla.protocol.api import api_of
from ottla.protocol.header import decode_response, encode_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records import BatchBuilder, RecordBatch
from ottla.testing import FakeBroker
from ottla.testing.clock import ManualClock
from ottla.testing.network import MemoryNetwork


class Caller:
    """A client that sends one request after the other and believes nothing."""

    def __init__(self, fake: FakeBroker, node: int = 1, limit_s: float = 5) -> None:
        host, port = fake.address(node).split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=limit_s)
        self.number = 0

    def write(self, message, version):
        self.number += 1
        parts = b"".join(encode_request(message, version=version, correlation_id=self.number, client_id="test"))
        self.socket.sendall(struct.pack(">i", len(parts)) + parts)

    def read(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError(f"closed after {len(data)} bytes")
            data += part
        return data

    def frame(self):
        return self.read(struct.unpack(">i", self.read(4))[0])

    def ask(self, message, version=None):
        version = api_of(message).advertised.max if version is None else version
        self.write(message, version)
        number, answer = decode_response(api_of(message), version, self.frame())
        assert number == self.number
        return answer


@pytest.fixture
def fake():
    with FakeBroker(nodes=2) as fake:
        fake.create_topic("t", partitions=2)
        yield fake


@pytest.fixture
def call(fake):
    with contextlib.ExitStack() as stack:

        def connect(node=1, limit_s=HANG_S):
            caller = Caller(fake, node, limit_s)
            stack.callback(caller.socket.close)
            return caller

        yield connect


def produce_request(*values, partition=0, topic="t", producer=(-1, -1, -1)):
    producer_id, epoch, sequence = producer
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    for value in values:
        builder.append(1_000, None, value)
    data = PartitionProduceData(index=partition, records=builder.close())
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def sent(caller, *values, **where):
    answer = caller.ask(produce_request(*values, **where), 12)
    part = answer.responses[0].partition_responses[0]
    return part.error_code, part.base_offset


def fetch_request(offset=0, *, partition=0, session=(0, -1), wait_ms=0, epoch=-1, last_epoch=-1):
    wanted = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_epoch,
    )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic="t", partitions=[wanted])],
    )


def fetched(caller, *arguments, **options):
    return caller.ask(fetch_request(*arguments, **options), 12).responses[0].partitions[0]


def test_records_are_kept_in_order_with_their_offsets(fake, call):
    caller = call()
    assert sent(caller, b"a", b"b") == (0, 0)
    assert sent(caller, b"c") == (0, 2)
    assert [(record.offset, record.value) for record in fake.records("t")] == [(0, b"a"), (1, b"b"), (2, b"c")]
    found = fetched(caller, 2)
    assert (found.error_code, found.high_watermark) == (0, 3)
    assert [record.value for record in RecordBatch(found.records)] == [b"c"]


def test_a_batch_that_comes_again_is_answered_with_its_old_offset(fake, call):
    caller = call()
    assert sent(caller, b"a", producer=(7, 0, 0)) == (0, 0)
    assert sent(caller, b"b", producer=(7, 0, 1)) == (0, 1)
    assert sent(caller, b"a", producer=(7, 0, 0)) == (0, 0)
    assert sent(caller, b"d", producer=(7, 0, 3)) == (45, -1)
    assert sent(caller, b"c", producer=(7, 1, 0)) == (0, 2)
    assert sent(caller, b"late", producer=(7, 0, 2)) == (47, -1)
    fake.forget_producers("t")
    assert sent(caller, b"x", producer=(7, 1, 1)) == (59, -1)
    assert [record.value for record in fake.records("t")] == [b"a", b"b", b"c"]


def test_a_rule_for_an_api_that_is_not_there_is_refused(fake):
    with pytest.raises(ValueError, match="'Prodduce' is not the name of one of Kafka's APIs; did you mean 'Produce'"):
        fake.fail("Prodduce", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(ValueError, match="such as 'Produce'"):
        fake.mute("xyz")


def test_an_error_is_told_so_often_and_only_there(fake, call):
    fake.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2, topic="t", partition=0)
    caller = call()
    assert [sent(caller, b"a")[0] for _ in range(3)] == [19, 19, 0]
    assert len(fake.records("t")) == 1
    rule = fake.fail("Produce", NotLeaderOrFollower, times=None, node=1)
    assert [sent(caller, b"b")[0] for _ in range(3)] == [6, 6, 6]
    assert sent(call(2), b"b", partition=1) == (0, 0)
    rule.stop()
    assert (sent(caller, b"b")[0], rule.used) == (0, 3)
    fake.fail("Produce", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", although_done=True)
    assert sent(caller, b"done")[0] == 20
    assert [record.value for record in fake.records("t")] == [b"a", b"b", b"done"]
    with pytest.raises(ValueError, match="not the name"):
        fake.fail("Produce", "NO_SUCH_ERROR")


def test_only_the_leader_answers_and_says_who_leads(fake, call):
    fake.move_leader("t", 0, to=2)
    answer = call(1).ask(produce_request(b"a"), 12)
    part = answer.responses[0].partition_responses[0]
    assert (part.error_code, part.current_leader.leader_id, part.current_leader.leader_epoch) == (6, 2, 1)
    assert {node.node_id for node in answer.node_endpoints} == {1, 2}
    described = call(1).ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
    assert [part.leader_id for part in described.topics[0].partitions] == [2, 2]


def test_epochs_are_fenced_and_what_was_lost_is_told(fake, call):
    caller = call()
    sent(caller, b"a")
    fake.move_leader("t", 0, to=1)
    sent(caller, b"b")
    fake.truncate("t", 0, 1)
    assert [fetched(caller, 0, epoch=epoch).error_code for epoch in (1, 2, 3)] == [74, 0, 75]
    diverged = fetched(caller, 2, last_epoch=1).diverging_epoch
    assert (diverged.epoch, diverged.end_offset) == (0, 1)
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=1)
    ends = caller.ask(OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])]))
    assert (ends.topics[0].partitions[0].leader_epoch, ends.topics[0].partitions[0].end_offset) == (0, 1)
    assert fetched(caller, 2).error_code == 1
    fake.trim("t", 0, 1)
    assert fetched(caller, 0).error_code == 1
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=-2)]
    found = caller.ask(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=wanted)]))
    assert found.topics[0].partitions[0].offset == 1


def test_fetch_sessions_are_counted(fake, call):
    caller = call()
    first = caller.ask(fetch_request(session=(0, 0)), 12)
    assert first.session_id > 0
    fake.append("t", [b"a"])
    more = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=first.session_id, session_epoch=1, topics=[])
    assert caller.ask(more, 12).responses[0].partitions[0].records
    assert caller.ask(more, 12).error_code == 71
    more.session_id += 100
    assert caller.ask(more, 12).error_code == 70


def test_a_fetch_waits_for_records(fake, call):
    caller = call()
    caller.write(fetch_request(wait_ms=5_000), 12)
    while not fake.asked("Fetch"):
        time.sleep(0.001)
    fake.append("t", [b"late"])
    _, answer = decode_response(api_of(fetch_request()), 12, caller.frame())
    assert answer.responses[0].partitions[0].records


def test_a_late_answer_holds_up_those_behind_it(fake, call):
    fake.delay("Metadata", ms=50)
    caller = call()
    began = time.monotonic()
    caller.write(MetadataRequest(topics=[]), 12)
    caller.write(ListOffsetsRequest(replica_id=-1, topics=[]), 7)
    assert struct.unpack(">i", caller.frame()[:4])[0] == 1
    assert time.monotonic() - began >= 0.05
    assert struct.unpack(">i", caller.frame()[:4])[0] == 2


@pytest.mark.parametrize("although_done", [False, True])
def test_a_mute_connection_says_nothing_any_more(fake, call, although_done):
    fake.mute("Produce", although_done=although_done)
    caller = call(limit_s=0.1)
    caller.write(produce_request(b"a"), 12)
    caller.write(MetadataRequest(topics=[]), 12)
    with pytest.raises(TimeoutError):
        caller.frame()
    assert len(fake.records("t")) == although_done
    assert sent(call(), b"b")[0] == 0


@pytest.mark.parametrize(
    ("when", "is_done", "has_answer"),
    [("before", False, False), ("instead", True, False), ("in the middle", True, False), ("after", True, True)],
)
def test_hanging_up_has_its_moments(fake, call, when, is_done, has_answer):
    fake.hang_up("Produce", when=when)
    caller = call()
    if has_answer:
        assert sent(caller, b"a") == (0, 0)
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        sent(caller, b"b")
    assert len(fake.records("t")) == is_done


def test_nonsense_is_what_it_says(fake, call):
    caller = call()
    fake.garble("Metadata", "twice")
    caller.write(MetadataRequest(topics=[]), 12)
    assert caller.frame() == caller.frame()
    fake.garble("Metadata", "wrong correlation id")
    caller.write(MetadataRequest(topics=[]), 12)
    assert struct.unpack(">i", caller.frame()[:4])[0] == caller.number + 1
    for how in ("garbage", "cut short", "huge count"):
        fake.garble("Metadata", how)
        caller.write(MetadataRequest(topics=[]), 12)
        frame = caller.frame()
        with pytest.raises(Exception, match=r".+"):
            assert decode_response(api_of(MetadataRequest(topics=[])), 12, frame)[0] == caller.number
    fake.garble("Metadata", "oversized")
    caller.write(MetadataRequest(topics=[]), 12)
    assert struct.unpack(">i", caller.read(4))[0] == 2**31 - 1


def test_answers_can_be_changed_and_made(fake, call):
    caller = call()
    fake.throttle("Metadata", ms=77)
    assert caller.ask(MetadataRequest(topics=[])).throttle_time_ms == 77

    def misname(request, response):
        response.topics[0].name = "other"
        return response

    fake.change("Metadata", misname)
    assert caller.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")])).topics[0].name == "other"
    fake.answer("ListGroups", lambda request: ListGroupsResponse(error_code=15, groups=[]), times=1)
    assert caller.ask(ListGroupsRequest()).error_code == 15


def test_everything_that_was_asked_is_kept(fake, call):
    call().ask(MetadataRequest(topics=[]), 9)
    call(2).ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
    assert [(each.node, each.api, each.version, each.client_id) for each in fake.requests] == [
        (1, "Metadata", 9, "test"),
        (2, "InitProducerId", 4, "test"),
    ]
    assert (fake.asked("Metadata"), fake.asked("Metadata", node=2)) == (1, 0)


def test_a_node_goes_and_comes_back_at_its_port(fake, call):
    caller = call(2)
    fake.stop_node(2)
    with pytest.raises(OSError):
        caller.ask(MetadataRequest(topics=[]))
    with pytest.raises(OSError):
        call(2)
    fake.start_node(2)
    assert len(call(2).ask(MetadataRequest(topics=[])).brokers) == 2


def test_slow_nodes_answer_in_pieces(fake, call):
    fake.slow_down(before_ms=10, piece_bytes=20, between_ms=5)
    began = time.monotonic()
    assert len(call().ask(MetadataRequest(topics=[])).brokers) == 2
    assert time.monotonic() - began >= 0.02


def test_a_mistake_of_the_script_is_raised_at_the_end():
    fake = FakeBroker().start()
    fake.answer("Heartbeat", lambda request: 1 / 0)
    caller = Caller(fake)
    with caller.socket, pytest.raises(OSError):
        caller.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    with pytest.raises(RuntimeError, match="could not answer 1 requests"):
        fake.stop()


def test_it_serves_a_network_in_memory():
    async def scenario():
        clock = ManualClock()
        network = MemoryNetwork(clock=clock, random=random.Random(1))
        async with FakeBroker(transport=network, clock=clock, auto_create_topics=True) as fake:
            settings = ClientSettings(bootstrap_servers=fake.bootstrap_servers)
            client = NetworkClient.from_settings(settings, transport=network, clock=clock, random=random.Random(2))
            answer = await client.ask_any(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
            assert answer.topics[0].error_code == 0
            await client.close()
        await network.close()

    asyncio.run(asyncio.wait_for(scenario(), HANG_S))


def test_other_clients_can_talk_to_it(fake):
    producer = confluent_kafka.Producer({"bootstrap.servers": fake.bootstrap_servers, "enable.idempotence": True})
    producer.produce("t", b"a", partition=0)
    assert producer.flush(HANG_S) == 0
    settings = {"bootstrap.servers": fake.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(["t"])
    message = consumer.poll(HANG_S)
    assert message.value() == b"a"
    consumer.commit(message, asynchronous=False)
    consumer.close()
    assert next(iter(fake.committed("g").values())).offset == 1
