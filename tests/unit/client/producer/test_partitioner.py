"""Where records go: chances by queue lengths, and Java's murmur2 for keys."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.producer.partitioner import BUILT_IN, NAMED, RoundRobin, Shares, murmur2_partition, next_partition


class Always:
    def __init__(self, number):
        self.number = number

    def random(self):
        return self.number


def test_shorter_queues_get_more_chances():
    shares = Shares.of_queues({0: 0, 1: 3, 2: 1})
    assert shares.running_sums == (4, 5, 8)
    assert [shares.draw(Always(point)) for point in (0.0, 0.49, 0.5, 0.62, 0.63, 0.999)] == [0, 0, 1, 1, 2, 2]


def test_equal_queues_say_nothing():
    assert Shares.of_queues({0: 2, 1: 2}) is None
    assert Shares.of_queues({0: 7}) is None


def test_without_shares_partitions_with_a_leader_are_drawn():
    assert next_partition(None, (3, 5), 6, Always(0.6)) == 5
    assert next_partition(None, (), 6, Always(0.99)) == 5


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 20), min_size=2), st.floats(0, 0.999999))
def test_every_draw_is_one_of_the_partitions(queues, point):
    shares = Shares.of_queues(queues)
    if shares is not None:
        assert shares.draw(Always(point)) in queues


def test_the_longest_queue_still_gets_a_chance():
    shares = Shares.of_queues({0: 0, 1: 9})
    drawn = [shares.draw(random.Random(7)) for _ in range(1)] + [shares.draw(Always(0.999))]
    assert 1 in drawn


@pytest.mark.parametrize("key", [b"", b"abc", b"hello", b"a-little-bit-long-string"])
def test_keys_go_where_every_kafka_client_puts_them(key):
    peer = pytest.importorskip("aiokafka.partitioner", reason="needs what pip install 'ottla[dev]' brings")
    assert murmur2_partition(key, 10) == (peer.murmur2(key) & 0x7FFFFFFF) % 10


def test_named_rules_leave_records_without_a_key_to_the_built_in_one():
    assert NAMED["consistent_random"](None, range(4), range(4)) == BUILT_IN
    assert NAMED["consistent_random"](b"k", range(4), range(4)) == NAMED["consistent"](b"k", range(4), range(4))
    turns = RoundRobin()
    assert [turns(b"k", range(3), ()) for _ in range(4)] == [0, 1, 2, 0]
