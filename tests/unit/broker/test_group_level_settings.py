"""What one group may set, and what the broker makes of it."""

import pytest

from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.group_level import (
    LIMITS,
    ConsumerTimes,
    GroupLevelSettings,
    check_group_level,
    consumer_times,
    group_in_effect,
)
from ottla.errors import InvalidConfig

BROKER = BrokerSettings()


@pytest.mark.parametrize(
    "own",
    [
        {"consumer.session.timeout.ms": "50000"},
        {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000"},
        {"consumer.assignment.interval.ms": "0"},
        {"share.record.lock.duration.ms": "15000", "share.isolation.level": "read_committed"},
        {"share.auto.offset.reset": "by_duration:P1DT2H3M4.5S"},
        {"streams.num.standby.replicas": "2"},
    ],
)
def test_what_lies_inside_the_limits_is_taken(own):
    check_group_level(own, BROKER)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("consumer.session.timeout.ms", "1", "group.consumer.min.session.timeout.ms"),
        ("consumer.session.timeout.ms", "60001", "group.consumer.max.session.timeout.ms"),
        ("consumer.session.timeout.ms", "0", "at least 1"),
        ("consumer.heartbeat.interval.ms", "70000", "group.consumer.max.heartbeat.interval.ms"),
        ("consumer.assignment.interval.ms", "99999", "group.consumer.max.assignment.interval.ms"),
        ("share.delivery.count.limit", "11", "group.share.max.delivery.count.limit"),
        ("share.auto.offset.reset", "none", "earliest"),
        ("share.auto.offset.reset", "by_duration:P", "earliest"),
        ("share.auto.offset.reset", "by_duration:P1DT", "earliest"),
        ("share.auto.offset.reset", "by_duration:-PT1H", "earliest"),
        ("streams.num.standby.replicas", "7", "group.streams.max.standby.replicas"),
        ("nonsense", "1", "nonsense"),
    ],
)
def test_what_lies_outside_is_refused_with_the_limit(name, value, told):
    with pytest.raises(InvalidConfig, match=told):
        check_group_level({name: value}, BROKER)


def test_a_session_must_be_longer_than_the_time_between_heartbeats():
    broker = BrokerSettings({"group.consumer.max.heartbeat.interval.ms": "50000"})
    with pytest.raises(InvalidConfig, match="must exceed"):
        check_group_level({"consumer.heartbeat.interval.ms": "45000"}, broker)


def test_what_a_group_does_not_set_it_has_from_the_broker():
    broker = BrokerSettings({"group.consumer.heartbeat.interval.ms": "7000"})
    own = {"consumer.session.timeout.ms": "50000"}
    assert consumer_times({}, broker) == ConsumerTimes(45_000, 7000, 1000)
    assert consumer_times(own, broker) == ConsumerTimes(50_000, 7000, 1000)


def test_a_value_follows_limits_that_moved_later():
    broker = BrokerSettings({"group.consumer.max.session.timeout.ms": "48000"})
    assert group_in_effect({"consumer.session.timeout.ms": "50000"}, broker).consumer_session_timeout_ms == 48_000


def test_every_limit_is_a_setting_of_the_broker():
    declared = {each.name for each in BrokerSettings.declared()}
    own = {each.name for each in GroupLevelSettings.declared()}
    for name, (least, most) in LIMITS.items():
        assert name in own
        assert most in declared
        assert least is None or least in declared
