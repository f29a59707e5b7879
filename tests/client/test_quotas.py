"""Clients under a quota: the broker slows them down as soon as it is set, their metrics say so, nobody else notices.

How exactly the rate is kept is measured in virtual time (unit tests) and for half a minute (conformance).
"""

from __future__ import annotations

import time

import pytest
from tests.patience import HANG_S

from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.testing.broker import KafkaBroker

TOPIC = "orders"
VALUE = bytes(50_000)
SETTINGS = {"quota.window.num": 2, "num.partitions": 1}


@pytest.fixture
def broker():
    with KafkaBroker(SETTINGS) as broker:
        yield broker


def limit(broker, entity, **quotas):
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_client_quotas([(entity, quotas)])


def metric(client, name):
    return next(value for key, value in client.metrics().items() if key.name == name)


def send(producer, count):
    for _ in range(count):
        producer.send(TOPIC, VALUE).result(HANG_S)


def test_a_producer_is_slowed_down_and_another_is_not(broker):
    with (
        Producer(bootstrap_servers=broker.bootstrap_servers, client_id="limited") as limited,
        Producer(bootstrap_servers=broker.bootstrap_servers, client_id="free") as free,
    ):
        send(limited, 2)
        limit(broker, {"client-id": "limited"}, producer_byte_rate=400_000)
        began = time.monotonic()
        send(limited, 16)  # twice what it may send in a second: one is free at the start
        assert time.monotonic() - began >= 0.8
        send(free, 16)
        assert metric(limited, "produce-throttle-time-max") > 0
        assert 0 < metric(limited, "produce-throttle-time-avg") <= metric(limited, "produce-throttle-time-max")
        assert metric(free, "produce-throttle-time-max") == 0
        limit(broker, {"client-id": "limited"}, producer_byte_rate=None)
        send(limited, 16)


def test_a_consumer_is_slowed_down_and_gets_everything(broker):
    limit(broker, {"client-id": None}, consumer_byte_rate=400_000)
    limit(broker, {"client-id": "free"}, consumer_byte_rate=1e9)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        send(producer, 20)
    for client_id, is_slow in (("limited", True), ("free", False)):
        with Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            client_id=client_id,
            auto_offset_reset="earliest",
            fetch_max_bytes=150_000,
            max_partition_fetch_bytes=150_000,
        ) as consumer:
            consumer.assign([(TOPIC, 0)])
            got = 0
            end = time.monotonic() + HANG_S
            while got < 20 and time.monotonic() < end:
                got += len(list(consumer.poll(0.2)))
            assert got == 20
            assert (metric(consumer, "fetch-throttle-time-max") > 0) is is_slow


def test_the_time_of_requests_is_limited_too(broker):
    limit(broker, {"user": "ANONYMOUS", "client-id": "limited"}, request_percentage=0.0001)
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, client_id="limited", request_timeout_ms=60_000
    ) as producer:
        send(producer, 1)
        assert metric(producer, "produce-throttle-time-max") > 0
