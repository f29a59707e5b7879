"""How much a consumer fetches and holds: a slow reader no more than its bound, a fast one much at a time."""

from __future__ import annotations

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.patience import HANG_S, wait_until

from ottla.client.consumer.consumer import Consumer
from ottla.values import TopicPartition

MB = 1_048_576
PARTITIONS = 4
VALUE_BYTES = 1024
RECORDS = 16_000  # 4 MB in each partition


@pytest.fixture
def large_topic(kafka_broker, unique_topic):
    topic = unique_topic
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(HANG_S)
    # A batch that is larger than the room for it comes whole; these are not.
    settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "linger.ms": 50, "batch.size": 16_384}
    producer = confluent_kafka.Producer(settings)
    for number in range(RECORDS):
        producer.produce(topic, b"x" * VALUE_BYTES, partition=number % PARTITIONS)
    assert producer.flush(HANG_S) == 0
    return topic


def reader_of(broker, topic, **settings):
    consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", **settings)
    consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
    return consumer


def fetch_metric(consumer, name):
    (found,) = [value for key, value in consumer.metrics().items() if key.name == name]
    return found


@pytest.mark.parametrize("bound_bytes", [MB, 3 * MB])
def test_a_slow_reader_holds_no_more_than_its_bound(kafka_broker, large_topic, bound_bytes):
    with reader_of(kafka_broker, large_topic, queued_max_bytes=bound_bytes) as consumer:
        held, found = [], []

        def is_half_read():
            found.extend(consumer.poll(0.05, max_records=100))
            held.append(consumer._core.buffer.size_bytes)
            return len(found) >= RECORDS // 2

        wait_until(is_half_read)
        assert 0 < max(held) <= bound_bytes
        # Nor was anything fetched and forgotten: what came is what was read and what is held.
        assert fetch_metric(consumer, "bytes-consumed-total") <= len(found) * 1.1 * VALUE_BYTES + bound_bytes


def test_a_fast_reader_gets_much_at_a_time(kafka_broker, large_topic):
    with reader_of(kafka_broker, large_topic) as consumer:
        tables = []

        def is_read():
            if (table := consumer.poll_arrow(0.5)) is not None:
                tables.append(table.num_rows)
            return sum(tables) >= RECORDS

        wait_until(is_read)
        assert sum(tables) == RECORDS
        # Of several partitions in one answer, each with at most 1 MB (max.partition.fetch.bytes).
        assert fetch_metric(consumer, "fetch-size-max") > 1.5 * MB
