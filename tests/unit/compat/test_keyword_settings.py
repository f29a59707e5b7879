"""The settings of kafka-python and aiokafka: the same names and defaults, and what our client makes of them."""

import importlib
import inspect

import kafka
import pytest

from ottla.client.admin.settings import AdminSettings
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.producer.settings import ProducerSettings
from ottla.compat.aiokafka import consumer as aio_consumer
from ottla.compat.aiokafka import producer as aio_producer
from ottla.compat.aiokafka import settings as aio_settings
from ottla.compat.kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from ottla.compat.kafka import settings as kafka_settings

KAFKA = [
    (KafkaProducer, kafka.KafkaProducer, ProducerSettings),
    (KafkaConsumer, kafka.KafkaConsumer, ConsumerSettings),
    (KafkaAdminClient, kafka.KafkaAdminClient, AdminSettings),
]
PLAIN = (int, float, str, bool, type(None), list)
OBJECTS = {"socket_options", "selector", "kafka_client", "partitioner", "partition_assignment_strategy"}


@pytest.mark.parametrize(("ours", "theirs", "settings"), KAFKA, ids=["producer", "consumer", "admin"])
def test_every_setting_of_kafka_python_is_there_with_its_default(ours, theirs, settings):
    assert set(ours.DEFAULT_CONFIG) == set(theirs.DEFAULT_CONFIG)
    for name, default in theirs.DEFAULT_CONFIG.items():
        if isinstance(default, PLAIN) and name not in OBJECTS:
            assert ours.DEFAULT_CONFIG[name] == default, name


@pytest.mark.parametrize(("ours", "theirs", "settings"), KAFKA, ids=["producer", "consumer", "admin"])
def test_our_client_takes_every_setting_that_kafka_python_has(ours, theirs, settings):
    group = {"group_id": "g"} if settings is ConsumerSettings else {}
    settings(**kafka_settings.ours(group, ours.DEFAULT_CONFIG))
    for name, default in theirs.DEFAULT_CONFIG.items():
        if isinstance(default, bool):
            settings(**kafka_settings.ours({**group, name: not default}, ours.DEFAULT_CONFIG))
        elif isinstance(default, int) and default > 0:
            settings(**kafka_settings.ours({**group, name: default - 1}, ours.DEFAULT_CONFIG))
        elif default is None or isinstance(default, str):
            settings(**kafka_settings.ours({**group, name: default}, ours.DEFAULT_CONFIG))


@pytest.mark.parametrize(("ours", "theirs", "settings"), KAFKA, ids=["producer", "consumer", "admin"])
def test_an_unknown_setting_is_refused_with_the_same_error(ours, theirs, settings):
    with pytest.raises(Exception) as expected:  # whatever it is, ours must be the same
        theirs(no_such_setting=1)
    with pytest.raises(Exception) as found:
        ours(no_such_setting=1)
    assert type(found.value).__name__ == type(expected.value).__name__
    assert str(found.value) == str(expected.value)


def test_what_has_no_effect_is_one_line_with_the_reasons_and_only_once(caplog, monkeypatch):
    monkeypatch.setattr(kafka_settings, "_warned", set())
    with caplog.at_level("WARNING"):
        for _ in range(2):
            kafka_settings.ours({"api_version": (2, 0), "socks5_proxy": "x"}, KafkaProducer.DEFAULT_CONFIG)
    (line,) = [each.getMessage() for each in caplog.records]
    assert line == (
        "settings of kafka-python that have no effect here: api_version (versions are always asked for),"
        " socks5_proxy (proxies are not supported)"
    )


@pytest.mark.parametrize("name", ["AIOKafkaProducer", "AIOKafkaConsumer", "admin.AIOKafkaAdminClient"])
def test_every_argument_of_aiokafka_is_there_with_its_default(name):
    module, _, kind = name.rpartition(".")
    where = f".{module}" if module else ""
    theirs = inspect.signature(getattr(importlib.import_module(f"aiokafka{where}"), kind)).parameters
    ours = inspect.signature(getattr(importlib.import_module(f"ottla.compat.aiokafka{where}"), kind)).parameters
    assert list(ours) == list(theirs)
    for each, parameter in theirs.items():
        if isinstance(parameter.default, PLAIN):
            assert ours[each].default == parameter.default, each


def defaults_of(kind):
    return {name: each.default for name, each in inspect.signature(kind).parameters.items()}


def test_our_client_takes_the_defaults_of_aiokafka():
    written = defaults_of(aio_producer.AIOKafkaProducer) | {"client_id": "x"}
    found = ProducerSettings(**(aio_settings.common(written) | aio_producer._settings(written)))
    assert (found.acks, found.enable_idempotence, found.linger_ms, found.batch_size) == ("1", False, 0, 16_384)
    written = defaults_of(aio_consumer.AIOKafkaConsumer)
    found = ConsumerSettings(**(aio_settings.common(written) | aio_consumer._settings(written)))
    assert (found.session_timeout_ms, found.partition_assignment_strategy) == (10_000, ("roundrobin",))


def test_addresses_may_be_a_list_and_need_no_port():
    assert aio_settings.addresses(["a", "b:1"]) == "a:9092,b:1"
    assert aio_settings.addresses("[::1]") == "[::1]:9092"
    assert (
        kafka_settings.ours({"bootstrap_servers": ["a", "[::1]:5"]}, KafkaAdminClient.DEFAULT_CONFIG)[
            "bootstrap_servers"
        ]
        == "a:9092,[::1]:5"
    )
