"""Which heartbeats say nothing: they go the short way, whatever says or needs anything goes the general way.

That both ways answer the same is checked beside every other test of groups (both_ways.py), random walks included.
"""

from __future__ import annotations

import pytest
from tests.unit.broker.coordinators.groups.consumer.conftest import consumers, make_consumers
from tests.unit.broker.coordinators.groups.streams.conftest import make_streams, streams
from tests.unit.broker.coordinators.groups.streams.topologies import stateless

from ottla.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue

__all__ = ["consumers", "make_consumers", "make_streams", "streams"]  # fixtures

CONSUMER, STREAMS = "consumer_heartbeat", "streams_heartbeat"


def settled(consumers, **told):
    """A member that has all it should have."""
    client = consumers.client("A", **told)
    client.beat()
    client.beat()
    return client


def test_a_consumer_that_only_lives_is_idle(consumers, idle_heartbeats):
    client = settled(consumers)
    answer = client.beat(says_nothing=True)
    assert idle_heartbeats[CONSUMER] == 1
    assert (answer.member_epoch, answer.heartbeat_interval_ms, answer.assignment) == (client.epoch, 5_000, None)


def test_so_is_a_static_one(consumers, idle_heartbeats):
    client = settled(consumers, instance="i")
    client.beat(says_nothing=True)
    assert idle_heartbeats[CONSUMER] == 1
    assert consumers.beat("A", client.epoch, instance="other", topics=None).error_code == 25
    assert idle_heartbeats[CONSUMER] == 1


def test_an_idle_consumer_lives_on(consumers, idle_heartbeats):
    client = settled(consumers)
    for _ in range(10):
        consumers.advance(40_000)
        client.last_ms = consumers.now_ms
        assert client.beat(says_nothing=True).error_code == 0
    assert idle_heartbeats[CONSUMER] == 10
    consumers.advance(46_000)
    assert not consumers.consumer_group().members


@pytest.mark.parametrize(
    "said",
    [
        {"topics": ("t", "u")},
        {"rack": "r"},
        {"regex": "t.*"},
        {"assignor": "range"},
        {"rebalance_ms": 5},
        {"owned": []},
    ],
    ids=str,
)
def test_a_consumer_that_says_something_is_heard(consumers, idle_heartbeats, said):
    client = settled(consumers)
    consumers.beat("A", client.epoch, **{"topics": None, **said})
    assert not idle_heartbeats[CONSUMER]


def test_a_consumer_that_must_hear_something_hears_it(consumers, idle_heartbeats):
    client = settled(consumers)
    consumers.grow_topic("t", 9)
    assert len(client.beat(says_nothing=True).assignment.topic_partitions[0].partitions) == 9
    other = consumers.client("B")
    other.beat()
    assert client.beat(says_nothing=True).assignment is not None
    assert consumers.beat("A", client.epoch + 1, topics=None).error_code == 110
    assert not idle_heartbeats[CONSUMER]


def test_a_streams_member_that_only_lives_is_idle(streams, idle_heartbeats):
    client = streams.client("A")
    client.beat()
    client.beat()
    answer = client.say_only_that_it_lives()
    assert idle_heartbeats[STREAMS] == 1
    assert (answer.member_epoch, answer.status, answer.active_tasks) == (client.epoch, [], None)


@pytest.mark.parametrize(
    "said",
    [
        {"rack_id": "r"},
        {"rebalance_timeout_ms": 5},
        {"process_id": "q"},
        {"user_endpoint": Endpoint(host="h", port=1)},
        {"client_tags": [KeyValue(key="k", value="v")]},
        {"topology": stateless()},
        {"shutdown_application": True},
        {"endpoint_information_epoch": 7},
    ],
    ids=lambda said: next(iter(said)),
)
def test_a_streams_member_that_says_something_is_heard(streams, idle_heartbeats, said):
    client = streams.client("A")
    client.beat()
    client.beat()
    client.beat(active_tasks=None, standby_tasks=None, warmup_tasks=None, **said)
    assert not idle_heartbeats[STREAMS]
