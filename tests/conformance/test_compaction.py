"""A compacted topic keeps the last value of every key, while the broker serves."""

import time

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic
from tests.patience import HANG_S

from ottla.testing.broker import KafkaBroker

SETTINGS = {"log.cleaner.backoff.ms": 50, "log.cleaner.dedupe.buffer.size": 4_000_000}
CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "4096",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
}


def read_all(servers: str, topic: str) -> list[tuple[int, bytes, bytes]]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "reader"})
    partition = confluent_kafka.TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, HANG_S)
    consumer.assign([partition])
    found: list[tuple[int, bytes, bytes]] = []
    end_s = time.monotonic() + HANG_S
    while (not found or found[-1][0] < end - 1) and time.monotonic() < end_s:
        found += [(m.offset(), m.key(), m.value()) for m in consumer.consume(500, 0.2) if m.error() is None]
    consumer.close()
    return found


def test_a_compacted_topic_keeps_the_last_value_of_every_key() -> None:
    with KafkaBroker(SETTINGS) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("t", 1, 1, config=CONFIG)])["t"].result(HANG_S)
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 0})
        expected = {}
        for number in range(2000):
            key, value = b"key-%d" % (number % 10), b"value-%d" % number
            expected[key] = value
            producer.produce("t", value, key)
            if number % 50 == 0:
                producer.flush(HANG_S)
        producer.flush(HANG_S)
        end_s = time.monotonic() + HANG_S
        records = read_all(servers, "t")
        while len(records) > 500 and time.monotonic() < end_s:
            records = read_all(servers, "t")
        assert len(records) < 500, "the cleaner did not come"
        assert {key: value for _, key, value in records} == expected
        assert [value for _, _, value in records[-1:]] == [b"value-1999"]
        assert all(value == b"value-%d" % offset for offset, _, value in records)
