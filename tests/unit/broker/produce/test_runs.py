"""Produce requests that came together get the answers that they would have got one by one."""

from __future__ import annotations

from collections import deque

import pytest

from ottla.broker.network.processor import Connection
from ottla.broker.replication.partition import Partition
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.served import SERVED_APIS
from ottla.protocol.api import APIS
from ottla.protocol.header import encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records import BatchBuilder
from ottla.records.implementation import CHOSEN

VERSION = 11
NOW_MS = 1_700_000_000_000


class Link:
    """Delivers frames that came together, as a link does."""

    writable = True
    remote_address = ("10.0.0.1", 1234)

    def __init__(self):
        self.following = deque()
        self.written = b""
        self.end = None

    def write(self, buffers):
        self.written += b"".join(map(bytes, buffers))

    def pause_reading(self): ...
    def resume_reading(self): ...

    def close(self):
        self.end = "closed"
        self.following.clear()

    def abort(self, reason=None):
        self.end = "aborted"


def batch(now_ms, value=b"value"):
    builder = BatchBuilder(size_limit_bytes=1 << 20)
    builder.append(now_ms, None, value, ())
    return memoryview(bytearray(builder.close()))


def produce(records, *, topic="orders", partitions=(0,), acks=-1, number=1, client_id="test", transactional_id=None):
    data = [PartitionProduceData(index=index, records=records) for index in partitions]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1_000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    return framed(request, VERSION, number, client_id)


def framed(request, version, number, client_id="test"):
    parts = encode_request(request, version=version, correlation_id=number, client_id=client_id)
    return b"".join(map(bytes, parts))


def deliver(memory_broker, frames, *, together):
    """What is answered to these frames; where they are not to go together, each is read and handled step by step."""
    link = start(memory_broker, frames, together=together)
    return link.written, link.end


def start(memory_broker, frames, *, together):
    """The same for answers that come later: the link, to which they are written."""
    link = Link()
    dispatch = Dispatch(memory_broker.broker, SERVED_APIS, Gate(memory_broker.broker))
    if not together:
        dispatch.dispatch_run = lambda *_: None
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)
    connection.opened(link)

    def run():
        link.following.extend(memoryview(bytearray(frame)) for frame in frames)
        while link.following:
            frame = link.following.popleft()
            if together:
                connection.frame_received(frame)
            else:
                rest, link.following = link.following, deque()
                connection.frame_received(frame)
                link.following = rest if link.end is None else deque()

    memory_broker.do(run)
    return link


def cases(now_ms):
    good, damaged = batch(now_ms), bytearray(batch(now_ms))
    damaged[-3] ^= 1
    return {
        "plain": [produce(good, number=n) for n in range(5)],
        "one partition after another": [produce(good, partitions=(n % 2, 2), number=n) for n in range(6)],
        "acks=1": [produce(good, acks=1, number=n) for n in range(3)],
        "acks change": [produce(good, acks=acks, number=acks + 2) for acks in (1, 1, -1, 0, -1, 7)],
        "a damaged one": [produce(each, number=n) for n, each in enumerate([good, memoryview(damaged), good])],
        "an unknown topic": [produce(good, topic=name) for name in ("orders", "nothing", "orders")],
        "an unknown partition": [produce(good, partitions=(0, 99)), produce(good)],
        "an internal topic": [produce(good), produce(good, topic="__consumer_offsets"), produce(good)],
        "no records": [produce(good), produce(None), produce(good)],
        "another client": [produce(good), produce(good), produce(good, client_id="else"), produce(good)],
        "another kind": [
            produce(good),
            framed(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3, 5),
            produce(good),
        ],
        "one that cannot be read": [produce(good), produce(good), produce(good)[:-30], produce(good)],
        "more than a run takes": [produce(good, number=n) for n in range(40)],
        "nothing kept": [produce(good, acks=0, number=n) for n in range(3)],
    }


@pytest.mark.parametrize("durability", ["replicated", "durable"])
@pytest.mark.parametrize("name", list(cases(0)))
def test_a_run_is_answered_as_if_every_request_had_come_alone(make_broker, name, durability):
    outcomes = []
    for together in (True, False):
        broker = make_broker(**{"ottla.durability": durability})
        broker.create_topic("orders", 3)
        frames = cases(broker.clock.now_ms())[name]
        answered = deliver(broker, frames, together=together)
        logs = [broker.broker.replicas.get(("orders", index)).log for index in range(3)]
        contents = [log.active.records.file.read_at(0, log.active.size_bytes) for log in logs]
        offsets = [(log.log_end_offset, log.high_watermark) for log in logs]
        metrics = broker.broker.topic_metrics.of("orders")
        counted = metrics.produces.value, metrics.bytes_in.value, metrics.messages_in.value
        counted += metrics.failed_produces.value, broker.broker.request_metrics.of(APIS[0], VERSION).count
        outcomes.append((answered, contents, offsets, counted))
    assert outcomes[0] == outcomes[1]


@pytest.mark.skipif(CHOSEN == "python", reason="the Python twin takes every batch step by step, and is asked twice")
def test_requests_that_came_together_reach_the_log_together(make_broker, monkeypatch):
    broker = make_broker(**{"ottla.durability": "replicated"})
    broker.create_topic("orders", 3)
    seen = []
    append_run = Partition.append_run

    def counted(self, buffers, **how):
        seen.append(len(buffers))
        return append_run(self, buffers, **how)

    monkeypatch.setattr(Partition, "append_run", counted)
    deliver(broker, cases(broker.clock.now_ms())["more than a run takes"], together=True)
    assert seen == [1, 16, 16, 7]  # the very first of its kind goes alone
