"""The settings of a consumer: Java's names and defaults, other libraries' words, and what does not go together."""

import json

import pytest

from ottla.client.consumer.settings import ConsumerSettings
from ottla.errors import InvalidSetting, UnknownSetting

AT = {"bootstrap.servers": "localhost:9092"}


def test_the_defaults_are_javas():
    settings = ConsumerSettings(AT)
    found = {name: settings.as_dict()[name] for name in JAVA_DEFAULTS}
    assert found == JAVA_DEFAULTS


JAVA_DEFAULTS = {
    "group.id": None,
    "group.protocol": "classic",
    "session.timeout.ms": 45_000,
    "heartbeat.interval.ms": 3_000,
    "max.poll.interval.ms": 300_000,
    "max.poll.records": 500,
    "enable.auto.commit": True,
    "auto.commit.interval.ms": 5_000,
    "auto.offset.reset": "latest",
    "isolation.level": "read_uncommitted",
    "fetch.min.bytes": 1,
    "fetch.max.bytes": 52_428_800,
    "fetch.max.wait.ms": 500,
    "max.partition.fetch.bytes": 1_048_576,
    "check.crcs": True,
    "partition.assignment.strategy": ("range", "cooperative-sticky"),
    "allow.auto.create.topics": True,
    "exclude.internal.topics": True,
    "default.api.timeout.ms": 60_000,
    "request.timeout.ms": 30_000,
}


def test_words_of_other_libraries_are_understood():
    settings = ConsumerSettings(
        {**AT, "fetch.message.max.bytes": 5, "fetch.wait.max.ms": 6, "queued.max.messages.kbytes": 2},
        consumer_timeout_ms=7,
    )
    assert settings.max_partition_fetch_bytes == 5
    assert settings.fetch_max_wait_ms == 6
    assert settings.queued_max_bytes == 2048
    assert settings.consumer_timeout_ms == 7


def test_javas_names_of_assignors_are_understood():
    strategy = "org.apache.kafka.clients.consumer.StickyAssignor, roundrobin"
    settings = ConsumerSettings({**AT, "partition.assignment.strategy": strategy})
    assert settings.partition_assignment_strategy == ("sticky", "roundrobin")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"auto.offset.reset": "sometimes"}, "by_duration"),
        ({"auto.offset.reset": "by_duration:1h"}, "ISO 8601"),
        ({"isolation.level": "snapshot"}, "read_committed"),
        ({"partition.assignment.strategy": "fair"}, "cooperative-sticky"),
        ({"partition.assignment.strategy": []}, "at least one"),
        ({"heartbeat.interval.ms": 45_000}, "lower than"),
        ({"group.id": " "}, "must not be empty"),
        ({"enable.auto.commit": True}, "group.id"),
        ({"group.instance.id": "a"}, "needs a group.id"),
        ({"group.protocol": "consumer", "session.timeout.ms": 6_000}, "broker decides"),
        ({"max.poll.records": 0}, "at least 1"),
        ({"value.deserializer": "jason"}, "json"),
        ({"value.deserializer": 5}, "function"),
    ],
)
def test_what_cannot_be_is_refused_and_explained(given, why):
    with pytest.raises(InvalidSetting, match=why):
        ConsumerSettings({**AT, **given})


def test_an_unknown_name_is_told_with_the_nearest_one():
    with pytest.raises(UnknownSetting, match=r"auto\.offset\.reset"):
        ConsumerSettings({**AT, "auto.offset.rest": "earliest"})


def test_deserializers_are_names_functions_or_objects():
    for given in ("json", json.loads, lambda topic, data: data):
        assert ConsumerSettings(AT, value_deserializer=given).value_deserializer is given
