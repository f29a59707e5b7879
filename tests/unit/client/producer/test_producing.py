"""Anything may happen to requests: every record arrives exactly once and in order, and futures say the truth."""

import importlib.util
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

_spec = importlib.util.spec_from_file_location("producing", Path(__file__).with_name("producing.py"))
producing = importlib.util.module_from_spec(_spec)
sys.modules["producing"] = producing
_spec.loader.exec_module(producing)

BENDS = ("ok", "ok", "hang up before", "hang up after", "not leader", "not enough replicas after append")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 2), st.integers(1, 80)),
        st.tuples(st.just("send"), st.just(0), st.integers(60, 80)),
        st.tuples(st.just("turn"), st.sampled_from([0, 1, 5, 50, 200]), st.just(0)),
        st.tuples(st.just("answer"), st.integers(1, 2), st.integers(0, len(BENDS) - 1)),
    ),
    max_size=120,
)


def drain(world):
    world.accumulator.change_flushing(1)
    for _ in range(400):
        world.turn()
        for node_id, requests in world.network.requests.items():
            while requests:
                world.answer(node_id)
        if not world.accumulator.incomplete and not world.has_requests():
            return
        world.now_ms += 50
    raise AssertionError("it never ends")


@settings(max_examples=150)
@given(steps, st.integers(60, 400))
def test_every_record_is_delivered_once_and_in_order(script, too_large_bytes):
    world = producing.World(partitions=3, delivery_limit_ms=10**9, memory_bytes=10**6)
    for log in world.logs:
        log.size_limit_bytes = too_large_bytes
    world.turn()
    sent = {0: [], 1: [], 2: []}
    for number, (action, first, second) in enumerate(script):
        if action == "send":
            value = b"%06d" % number + b"x" * second
            sent[first].append((value, world.send(value, partition=first)))
        elif action == "turn":
            world.now_ms += first
            world.turn()
        elif world.network.requests[first]:
            world.answer(first, BENDS[second])
    drain(world)
    for partition, records in sent.items():
        assert world.logs[partition].values == [value for value, _ in records]
        for offset, (_, future) in enumerate(records):
            assert future.result(0).partition == partition
            # An append whose answer was lost is found again by its numbers, so the offset is known all the same.
            assert future.result(0).offset == offset
    assert world.accumulator.pool.available_bytes == 10**6
    assert world.failures.take() is None


@settings(max_examples=150)
@given(steps)
def test_with_little_time_every_future_is_resolved_and_nothing_is_doubled(script):
    world = producing.World(partitions=3, delivery_limit_ms=300, memory_bytes=10**6)
    world.turn()
    sent = []
    for number, (action, first, second) in enumerate(script):
        if action == "send":
            value = b"%06d" % number + b"x" * second
            sent.append((first, value, world.send(value, partition=first)))
        elif action == "turn":
            world.now_ms += first
            world.turn()
        elif world.network.requests[first]:
            world.answer(first, BENDS[second])
    drain(world)
    for log in world.logs:
        assert len(set(log.values)) == len(log.values), "a record is there twice"
        assert log.values == sorted(log.values), "the order is broken"
    for partition, value, future in sent:
        assert future.done()
        if future.exception(0) is None:
            assert world.logs[partition].values[future.result(0).offset] == value
    assert world.accumulator.pool.available_bytes == 10**6
