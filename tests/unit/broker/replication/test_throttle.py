"""How fast replicas that only catch up may be, and where consumers are sent."""

import pytest

from ottla.broker.fetch.replica_selector import LEADER, RACK_AWARE, View, is_rack_aware, preferred
from ottla.broker.replication.replication import fetch_version
from ottla.broker.replication.throttle import Throttle, is_listed
from ottla.errors import InvalidConfig
from ottla.values import TopicPartition

ORDERS = TopicPartition("orders", 3)


def test_a_burst_after_a_pause_is_allowed_and_more_is_not():
    throttle = Throttle(samples=11, sample_ms=1_000)
    assert not throttle.is_exceeded(0, 0)
    throttle.record(10_000, 0)
    assert not throttle.is_exceeded(1_000, 0)  # ten seconds' worth
    throttle.record(1, 500)
    assert throttle.is_exceeded(1_000, 500)


def test_what_is_long_ago_does_not_count():
    throttle = Throttle(samples=11, sample_ms=1_000)
    throttle.record(99_999, 0)
    assert throttle.is_exceeded(1_000, 10_999)
    assert not throttle.is_exceeded(1_000, 11_000)


def test_the_rate_of_a_steady_flow_is_its_rate():
    throttle = Throttle(samples=11, sample_ms=1_000)
    for second in range(30):
        throttle.record(1_000, second * 1_000)
    assert not throttle.is_exceeded(1_100, 29_999)
    assert throttle.is_exceeded(900, 29_999)


def test_replicas_are_listed_by_partition_and_broker():
    assert is_listed(ORDERS, 1, ("0:1", "3:1"))
    assert not is_listed(ORDERS, 1, ("3:2",))
    assert is_listed(ORDERS, 1, ("*",))
    assert not is_listed(ORDERS, 1, ())


def test_only_kafkas_selectors_are_known():
    assert is_rack_aware(RACK_AWARE)
    assert not is_rack_aware(LEADER)
    assert not is_rack_aware(None)
    with pytest.raises(InvalidConfig, match="Mine"):
        is_rack_aware("Mine")


def test_a_consumer_is_sent_to_the_best_replica_of_its_rack_that_has_the_offset():
    views = [View(1, "east", 0, 10, 5.0), View(2, "east", 0, 12, 1.0), View(3, "west", 0, 20, 9.0)]
    assert preferred("east", 5, "north", views) == 2
    assert preferred("east", 11, "north", views) == 2
    assert preferred("east", 13, "north", views) is None
    assert preferred("south", 5, "north", views) is None
    assert preferred("", 5, "north", views) is None
    assert preferred("east", 5, "east", views) is None
    assert preferred("east", 5, None, [View(1, "east", 7, 10, 5.0)]) is None


@pytest.mark.parametrize(
    ("protocol", "version"),
    [("3.9-IV0", 17), ("3.9", 17), ("3.7-IV4", 16), ("3.5-IV1", 15), ("2.8-IV1", 12), ("2.6", 11)],
)
def test_the_version_of_fetch_goes_with_the_protocol_version(protocol, version):
    assert fetch_version(protocol) == version
