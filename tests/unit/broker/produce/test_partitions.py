"""Requests of several partitions that came together: answers, logs and counters as if they had come one by one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.broker.produce.test_runs import VERSION, deliver, framed, start
from tests.unit.broker.produce.test_together import (
    BATCHES,
    SETTINGS,
    batch_of,
    everything,
    needs_native,
    produced,
    taken,
)

from ottla.errors import DiskFull, OutOfOrderSequenceNumber
from ottla.protocol.api import APIS
from ottla.protocol.header import decode_response
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def frame_of(number, parts, *, topic="orders", acks=-1, client_id="test"):
    data = [PartitionProduceData(index=index, records=each and memoryview(each)) for index, each in parts]
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=1_000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    return framed(request, VERSION, number, client_id)


def outcomes_of(answered):
    """Number of the request, and error and base offset of each partition."""
    found = []
    while answered:
        end = 4 + struct.unpack_from(">i", answered)[0]
        number, answer = decode_response(APIS[0], VERSION, memoryview(answered)[4:end])
        results = answer.responses[0].partition_responses
        found.append((number, [(each.index, each.error_code, each.base_offset) for each in results]))
        answered = answered[end:]
    return found


def open_orders(make_broker, **how):
    broker = make_broker(**{"ottla.durability": "replicated", **how})
    broker.create_topic("orders", 3)
    now_ms = broker.clock.now_ms()
    first = [(index, produced(now_ms, 0)) for index in range(3)]
    deliver(broker, [frame_of(0, first)], together=True)  # opens the logs, and tells the dispatcher of the kind
    return broker, now_ms


PARTS = st.lists(st.tuples(st.sampled_from([0, 0, 1, 1, 1, 99]), BATCHES), min_size=1, max_size=3)
WAYS = st.fixed_dictionaries(
    {},
    optional={
        "acks": st.sampled_from([1, -1]),
        "topic": st.sampled_from(["orders", "orders", "nothing", "__consumer_offsets"]),
        "client_id": st.sampled_from(["test", "else"]),
    },
)


@pytest.mark.parametrize("durability", ["replicated", "durable"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(sent=st.lists(st.tuples(PARTS, WAYS), min_size=1, max_size=6), topic=SETTINGS)
def test_drawn_requests_are_answered_as_if_each_had_come_alone(make_broker, durability, sent, topic):
    outcomes = []
    for together in (True, False):
        broker = make_broker(**{"ottla.durability": durability, "log.index.interval.bytes": "100"})
        broker.create_topic("orders", 2, **topic)
        now_ms = broker.clock.now_ms()
        frames = [frame_of(0, [(0, batch_of(now_ms)), (1, batch_of(now_ms))])]
        for number, (parts, how) in enumerate(sent, 1):
            frames.append(frame_of(number, [(index, make(now_ms)) for index, make in parts], **how))
        outcomes.append(everything(broker, frames, together=together))
    assert outcomes[0] == outcomes[1]


@needs_native
def test_every_request_is_answered_in_the_order_of_its_partitions(make_broker, taken):
    broker, now_ms = open_orders(make_broker)
    orders = [[0, 1, 2], [2, 0], [1, 2, 0]]
    sequences = dict.fromkeys(range(3), 2)
    frames = []
    for number, order in enumerate(orders, 1):
        frames.append(frame_of(number, [(index, produced(now_ms, sequences[index])) for index in order]))
        for index in order:
            sequences[index] += 2
    answered, _ = deliver(broker, frames, together=True)
    assert taken == [2]  # the first of its kind goes alone
    assert outcomes_of(answered) == [
        (1, [(0, 0, 2), (1, 0, 2), (2, 0, 2)]),
        (2, [(2, 0, 4), (0, 0, 4)]),
        (3, [(1, 0, 4), (2, 0, 6), (0, 0, 6)]),
    ]


def test_a_gap_in_one_partition_concerns_no_other(make_broker, taken):
    broker, now_ms = open_orders(make_broker)
    frames = [
        frame_of(1, [(0, produced(now_ms, 2)), (1, produced(now_ms, 2))]),
        frame_of(2, [(1, produced(now_ms, 8)), (0, produced(now_ms, 4))]),
        frame_of(3, [(1, produced(now_ms, 4)), (0, produced(now_ms, 4))]),
    ]
    answered, _ = deliver(broker, frames, together=True)
    gap = OutOfOrderSequenceNumber.code
    assert taken == [2]  # the first of its kind goes alone
    assert outcomes_of(answered) == [
        (1, [(0, 0, 2), (1, 0, 2)]),
        (2, [(1, gap, -1), (0, 0, 4)]),
        (3, [(1, 0, 4), (0, 0, 4)]),  # partition 0 has it already, and says where
    ]


@needs_native
def test_a_full_disk_refuses_every_batch_and_the_next_are_appended(make_broker, taken):
    broker, now_ms = open_orders(make_broker)
    broker.files.fill(free_bytes=0)
    parts = [(index, batch_of(now_ms)) for index in (0, 1)]
    answered, end = deliver(broker, [frame_of(n, parts) for n in (1, 2)], together=True)
    refused = [(0, DiskFull.code, -1), (1, DiskFull.code, -1)]
    assert (outcomes_of(answered), end) == ([(1, refused), (2, refused)], None)
    broker.files.fill(free_bytes=1 << 30)
    answered, _ = deliver(broker, [frame_of(n, parts) for n in (3, 4)], together=True)
    assert outcomes_of(answered) == [(3, [(0, 0, 2), (1, 0, 2)]), (4, [(0, 0, 4), (1, 0, 4)])]
    assert taken == [1, 1]  # the first of its kind goes alone


@needs_native
def test_what_waits_for_a_sync_goes_together_too(make_broker, taken):
    broker, now_ms = open_orders(make_broker, **{"ottla.durability": "durable"})
    del taken[:]
    frames = [frame_of(n, [(0, batch_of(now_ms)), (1, batch_of(now_ms))]) for n in (1, 2, 3)]
    link = start(broker, frames, together=True)
    assert taken == [2]  # the first of its kind goes alone
    assert outcomes_of(link.written) == [(n, [(0, 0, 2 * n), (1, 0, 2 * n)]) for n in (1, 2, 3)]


__all__ = ["taken"]
