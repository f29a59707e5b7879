"""Both twins add up the same of the same requests, and what was taken is not taken twice."""

import math

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.producer.producer_metrics import ProducerMetrics
from ottla.client.producer.sending.sender import Send
from ottla.values import Node

SUMS = ("batch_size", "queue_time", "record_size", "records", "latency", "throttle")
contents = st.lists(st.binary(max_size=30), max_size=4)
drawn_batches = st.lists(st.tuples(st.sampled_from("ab"), contents, st.integers(0, 100)), max_size=4)
requests = st.lists(st.tuples(drawn_batches, st.integers(0, 100), st.integers(0, 50)), max_size=5)


def batches_of(twin, drawn):
    made = []
    for topic, values, created_ms in drawn:
        batch = twin.ProducerBatch(None, topic, 0, bytearray(500), 500, limit_bytes=500, created_ms=created_ms)
        for value in values:
            assert batch.append(5, None, value)
        made.append(batch)
    return made


@given(requests)
def test_both_twins_add_up_the_same(both, requests):
    found = []
    for twin in both:
        tally = twin.Tally()
        for drawn, now_ms, throttle_ms in requests:
            tally.sent(batches_of(twin, drawn), now_ms)
            tally.answered(now_ms / 2, throttle_ms)
        taken = [getattr(tally, name).take() for name in SUMS], tally.take_topics()
        found.append(taken)
        assert [getattr(tally, name).take() for name in SUMS] == [(0.0, 0, math.inf, -math.inf)] * len(SUMS)
        assert tally.take_topics() == {}
    assert found[0] == found[1]


def test_what_is_read_has_everything_that_was_counted(twin):
    metrics = ProducerMetrics("me")
    metrics._tally = twin.Tally()
    request = Send(Node(1, "a", 1), tuple(batches_of(twin, [("a", [b"x"] * 3, 10), ("b", [b"y"], 20)])))
    metrics.sending([request], 25.0)
    metrics.answered(4.0, 0, 29.0)
    for _ in range(2):
        read = {(key.name, *(tag for _, tag in key.tags)): value for key, value in metrics.snapshot(30.0).items()}
        assert read["record-send-total", "me"] == 4
        assert read["records-per-request-avg", "me"] == 4
        assert read["record-queue-time-max", "me"] == 15
        assert read["request-latency-avg", "me"] == 4
        assert read["record-send-total", "me", "a"] == 3
