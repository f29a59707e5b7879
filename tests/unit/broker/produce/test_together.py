"""Requests that came together: answers, logs, producers and counters are those of requests that came one by one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.broker.produce.test_runs import VERSION, deliver, framed, start

from ottla.broker.requests.dispatch import Dispatch
from ottla.errors import DiskFull, NotEnoughReplicas, NotLeaderOrFollower, RequestTimedOut
from ottla.protocol.api import APIS
from ottla.protocol.header import decode_response
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records import BatchBuilder
from ottla.records.compression import Compression
from ottla.records.implementation import CHOSEN

needs_native = pytest.mark.skipif(CHOSEN == "python", reason="the Python twin takes every batch step by step")
CLIENT = {"topic": "orders", "index": 0, "acks": -1, "transactional_id": None, "client_id": "test", "end": b""}


def batch_of(now_ms, *, count=2, size=20, keyed=True, **how):
    builder = BatchBuilder(size_limit_bytes=1 << 20, **how)
    for number in range(count):
        builder.append(now_ms + number, b"k" if keyed else None, bytes([number]) * size, ())
    return bytearray(builder.close())


def produced(now_ms, sequence, *, producer_id=7, epoch=0, **how):
    return batch_of(now_ms, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **how)


def damaged(batch, position):
    batch[position % len(batch)] ^= 1
    return batch


def frame_of(number, records, **how):
    said = {**CLIENT, **how}
    request = ProduceRequest(
        transactional_id=said["transactional_id"],
        acks=said["acks"],
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(
                name=said["topic"],
                partition_data=[PartitionProduceData(index=said["index"], records=records and memoryview(records))],
            )
        ],
    )
    written = framed(request, VERSION, number, said["client_id"])
    return written[: -len(said["end"])] + said["end"] if said["end"] else written


BATCHES = st.one_of(
    st.builds(
        lambda count, size: lambda now: batch_of(now, count=count, size=size), st.integers(1, 4), st.integers(0, 400)
    ),
    st.builds(
        lambda n, e: lambda now: produced(now, n, epoch=e), st.sampled_from([0, 2, 4, 6, 2**31 - 2]), st.integers(0, 1)
    ),
    st.builds(lambda at: lambda now: damaged(batch_of(now), at), st.integers(0, 200)),
    st.sampled_from(
        [
            lambda now: batch_of(now, compression=Compression.GZIP),
            lambda now: batch_of(now + 10**9),
            lambda now: batch_of(now, keyed=False),
            lambda now: produced(now, 0, transactional=True),
            lambda now: produced(now, 0, producer_id=8),
            lambda now: batch_of(now) + batch_of(now),
            lambda now: bytearray(b"rubbish"),
            lambda now: bytearray(),
            lambda now: None,
        ]
    ),
)
WAYS = st.fixed_dictionaries(
    {},
    optional={
        "acks": st.sampled_from([1, -1, 7]),
        "index": st.sampled_from([0, 0, 1, 99]),
        "topic": st.sampled_from(["orders", "orders", "nothing", "__consumer_offsets"]),
        "transactional_id": st.sampled_from([None, "tx"]),
        "client_id": st.sampled_from(["test", "else"]),
        "end": st.sampled_from([b"", b"\x01\x63\x02hi"]),
    },
)
SETTINGS = st.sampled_from(
    [{}, {"internal.segment.bytes": "400"}, {"cleanup.policy": "compact"}, {"compression.type": "lz4"}]
)


def everything(memory_broker, frames, *, together):
    answered = deliver(memory_broker, frames, together=together)
    broker, found = memory_broker.broker, [answered]
    for index in range(2):
        log = broker.replicas.get(("orders", index)).log
        for each in log.segments:
            indexes = each.indexes
            found.append((each.base_offset, each.records.file.read_at(0, each.size_bytes), each.max_timestamp))
            found.append((list(indexes.offsets._keys), list(indexes.offsets._values), list(indexes.times._keys)))
        found.append((log.log_end_offset, log.high_watermark, log.log_start_offset))
        found.append((dict(log.producers.entries), log.producers.end_offset))
    counters = broker.topic_metrics.of("orders")
    found.append((counters.produces.value, counters.bytes_in.value, counters.messages_in.value))
    found.append((counters.failed_produces.value, counters.bytes_rejected.value))
    found.append(broker.request_metrics.of(APIS[0], VERSION).count)
    return found


@pytest.mark.parametrize("durability", ["replicated", "durable"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(sent=st.lists(st.tuples(BATCHES, WAYS), min_size=1, max_size=7), topic=SETTINGS)
def test_drawn_requests_are_answered_as_if_each_had_come_alone(make_broker, durability, sent, topic):
    outcomes = []
    for together in (True, False):
        broker = make_broker(**{"ottla.durability": durability, "log.index.interval.bytes": "100"})
        broker.create_topic("orders", 2, **topic)
        now_ms = broker.clock.now_ms()
        frames = [frame_of(0, batch_of(now_ms))]  # opens the log, and tells the dispatcher of the kind
        frames += [frame_of(number, make(now_ms), **how) for number, (make, how) in enumerate(sent, 1)]
        outcomes.append(everything(broker, frames, together=together))
    assert outcomes[0] == outcomes[1]


@pytest.fixture
def taken(monkeypatch):
    """How many requests went together, time by time."""
    seen = []
    dispatch_run = Dispatch.dispatch_run

    def counted(self, *arguments):
        answers = dispatch_run(self, *arguments)
        if answers is not None:
            seen.append(len(answers.request_bytes))
        return answers

    monkeypatch.setattr(Dispatch, "dispatch_run", counted)
    return seen


def open_orders(make_broker, **how):
    broker = make_broker(**{"ottla.durability": "replicated", **how})
    broker.create_topic("orders", 2)
    return broker, broker.clock.now_ms()


@needs_native
def test_the_requests_of_a_producer_go_together(make_broker, taken):
    broker, now_ms = open_orders(make_broker)
    frames = [frame_of(n, produced(now_ms, 2 * n)) for n in range(4)]
    deliver(broker, frames, together=True)
    assert taken == [3]
    assert broker.broker.replicas.get(("orders", 0)).log.log_end_offset == 8


@needs_native
def test_one_request_alone_waits_for_a_durable_log(make_broker, taken):
    broker, now_ms = open_orders(make_broker, **{"ottla.durability": "durable"})
    frames = [frame_of(n, batch_of(now_ms), client_id=name) for n, name in enumerate("aab")]
    answered, _ = deliver(broker, frames, together=True)
    assert taken == [1, 1]
    partition = broker.broker.replicas.get(("orders", 0))
    assert partition.high_watermark == partition.log.log_end_offset == 6
    assert [struct.unpack_from(">i", answered, at + 4)[0] for at in range(0, len(answered), len(answered) // 3)] == [
        0,
        1,
        2,
    ]


def test_too_few_replicas_are_said_of_each(make_broker, taken):
    broker, now_ms = open_orders(make_broker)
    partition = broker.broker.replicas.get(("orders", 0))
    opened = [frame_of(0, batch_of(now_ms))]
    deliver(broker, opened, together=True)
    partition.min_in_sync_count = 2
    answered, _ = deliver(broker, [frame_of(n, batch_of(now_ms)) for n in range(2)], together=True)
    assert taken == [1]  # the first of its kind goes alone
    assert answered.count(struct.pack(">h", NotEnoughReplicas.code)) >= 2
    assert partition.log.log_end_offset == 2


@needs_native
def test_answers_keep_their_place_behind_a_fetch_that_waits(make_broker, taken):
    broker, now_ms = open_orders(make_broker)
    wanted = FetchPartition(partition=0, fetch_offset=2, partition_max_bytes=1_000)
    fetch = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[wanted])])
    produces = [frame_of(n, batch_of(now_ms)) for n in range(4)]
    answered, _ = deliver(broker, [produces[0], framed(fetch, 12, 9), *produces[1:]], together=True)
    assert taken == [3]
    numbers = []
    while answered:
        size, number = struct.unpack_from(">ii", answered)
        numbers.append(number)
        answered = answered[4 + size :]
    assert numbers == [0, 9, 1, 2, 3]


@needs_native
def test_a_full_disk_refuses_every_request_and_the_next_is_appended(make_broker, taken):
    broker, now_ms = open_orders(make_broker)
    deliver(broker, [frame_of(n, batch_of(now_ms)) for n in range(2)], together=True)
    broker.files.fill(free_bytes=0)
    answered, end = deliver(broker, [frame_of(n, batch_of(now_ms)) for n in range(3)], together=True)
    assert (answered.count(struct.pack(">h", DiskFull.code)) >= 3, end) == (True, None)
    broker.files.fill(free_bytes=1 << 30)
    deliver(broker, [frame_of(n, batch_of(now_ms)) for n in range(3)], together=True)
    assert broker.broker.replicas.get(("orders", 0)).log.log_end_offset == 10
    assert taken == [1, 2, 2]


def test_requests_without_an_answer_go_one_by_one(make_broker, taken):
    broker, now_ms = open_orders(make_broker)
    frames = [frame_of(n, batch_of(now_ms), acks=0) for n in range(3)]
    deliver(broker, frames, together=True)
    assert taken == []
    assert broker.broker.replicas.get(("orders", 0)).log.log_end_offset == 6


# -- answers that are held back until their records are committed ------------------------------------------------------


class HangingDisk:
    """A durable broker whose syncs do not end, and a connection to it."""

    def __init__(self, make_broker, monkeypatch, *, together):
        self.memory_broker = make_broker(**{"ottla.durability": "durable"})
        self.memory_broker.create_topic("orders", 2)
        self.broker = self.memory_broker.broker
        now_ms = self.memory_broker.clock.now_ms()
        deliver(self.memory_broker, [frame_of(0, batch_of(now_ms))], together=True)  # opens the log
        monkeypatch.setattr(self.broker.progress._flusher, "mark", lambda partition: None)
        frames = [frame_of(number, batch_of(now_ms, count=number)) for number in range(1, 4)]
        self.link = start(self.memory_broker, frames, together=together)

    @property
    def partition(self):
        return self.broker.replicas.get(("orders", 0))

    def sync(self):
        job = self.partition.log.flush_job()
        job.run()
        self.partition.log.flushed(job, 0)
        self.broker.progress.flushed(self.partition)


@pytest.fixture(params=[True, False], ids=["together", "one by one"])
def hanging(request, make_broker, monkeypatch):
    return lambda: HangingDisk(make_broker, monkeypatch, together=request.param)


def outcomes(link):
    """The numbers of the requests that were answered, with their errors and base offsets."""
    found, position, written = [], 0, bytes(link.written)
    while position < len(written):
        end = position + 4 + struct.unpack_from(">i", written, position)[0]
        number, answer = decode_response(APIS[0], VERSION, memoryview(written)[position + 4 : end])
        result = answer.responses[0].partition_responses[0]
        found.append((number, result.error_code, result.base_offset))
        position = end
    return found


def test_answers_leave_in_order_when_their_records_are_committed(hanging):
    disk = hanging()
    assert outcomes(disk.link) == []
    disk.memory_broker.do(disk.sync)
    assert outcomes(disk.link) == [(1, 0, 2), (2, 0, 3), (3, 0, 5)]


def test_answers_whose_time_is_over_say_so_each_with_its_own_number(hanging):
    disk = hanging()
    disk.memory_broker.later(1_020)
    assert outcomes(disk.link) == [(number, RequestTimedOut.code, -1) for number in (1, 2, 3)]


def test_answers_of_a_partition_that_is_gone_say_so(hanging):
    disk = hanging()
    partition = disk.partition
    disk.memory_broker.do(lambda: (partition.retire(), disk.broker.progress.forget(partition.name)))
    assert outcomes(disk.link) == [(number, NotLeaderOrFollower.code, -1) for number in (1, 2, 3)]


def test_requests_are_counted_when_they_are_answered(hanging):
    disk = hanging()
    times, topic = disk.broker.request_metrics.of(APIS[0], VERSION), disk.broker.topic_metrics.of("orders")
    before, failed = times.count, topic.failed_produces.value
    disk.memory_broker.later(1_020)
    assert times.count == before + 3
    assert times.remote is not None
    assert times.remote.count >= 3
    assert times.remote.total_ms >= 3 * 1_000, "they waited for a commit that did not come"
    assert topic.failed_produces.value == failed + 3


def test_a_broker_that_stops_answers_what_is_held_back(hanging):
    disk = hanging()
    disk.memory_broker.do(disk.broker.progress.close)
    assert [each[0] for each in outcomes(disk.link)] == [1, 2, 3]
