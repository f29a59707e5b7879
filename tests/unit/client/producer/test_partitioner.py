"""Where records go: chances by queue lengths, and Java's murmur2 for keys."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.producer.partitioner import BUILT_IN, NAMED, RoundRobin, murmur2_partition, next_partition


class Always:
    def __init__(self, number):
        self.number = number

    def random(self):
        return self.number


def drawn(waiting, available, steps=1000):
    """How often each partition is drawn, by points that lie side by side."""
    points = [step / steps for step in range(steps)]
    return collections.Counter(next_partition(waiting, available, 9, Always(point)) for point in points)


def test_shorter_queues_get_more_chances():
    assert drawn({1: 3, 2: 1}, (0, 1, 2), steps=800) == {0: 400, 1: 100, 2: 300}


def test_equal_queues_have_equal_chances():
    assert drawn({0: 2, 1: 2}, (0, 1)) == {0: 500, 1: 500}
    assert drawn({}, (0, 1)) == {0: 500, 1: 500}


def test_the_longest_queue_still_gets_a_chance():
    assert drawn({1: 9}, (0, 1), steps=1100) == {0: 1000, 1: 100}


def test_without_queues_partitions_with_a_leader_are_drawn():
    assert next_partition({}, (3, 5), 6, Always(0.6)) == 5
    assert next_partition({}, (), 6, Always(0.99)) == 5


@given(
    st.dictionaries(st.integers(0, 9), st.integers(1, 20)),
    st.sets(st.integers(0, 9), min_size=1).map(sorted).map(tuple),
)
def test_chances_are_those_of_a_full_walk_over_all_partitions(waiting, available):
    longest = max(waiting.values(), default=0)
    chances = {each: longest + 1 - waiting.get(each, 0) for each in available}
    assert drawn(waiting, available, steps=sum(chances.values())) == chances


@pytest.mark.parametrize("key", [b"", b"abc", b"hello", b"a-little-bit-long-string"])
def test_keys_go_where_every_kafka_client_puts_them(key):
    peer = pytest.importorskip("aiokafka.partitioner", reason="needs what pip install 'ottla[dev]' brings")
    assert murmur2_partition(key, 10) == (peer.murmur2(key) & 0x7FFFFFFF) % 10


def test_named_rules_leave_records_without_a_key_to_the_built_in_one():
    assert NAMED["consistent_random"](None, range(4), range(4)) == BUILT_IN
    assert NAMED["consistent_random"](b"k", range(4), range(4)) == NAMED["consistent"](b"k", range(4), range(4))
    turns = RoundRobin()
    assert [turns(b"k", range(3), ()) for _ in range(4)] == [0, 1, 2, 0]
