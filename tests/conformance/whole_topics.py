"""Topics as a whole: made, and read from the first to the last record that is there now.

create_topic(servers, "numbers", partitions=2)
read_all(servers, "numbers", "read_committed")       # [[Read(offset, value), ...] of partition 0, ...]
"""

import time
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_S = 60


class Read(NamedTuple):
    """One record as a reader saw it."""

    offset: int
    value: bytes


def create_topic(servers: str, topic: str, partitions: int) -> str:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)
    return topic


def read_all(servers: str, topic: str, isolation: str) -> list[list[Read]]:
    """Everything in a topic, by partition."""
    settings = {"group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": servers, "enable.auto.commit": False, **settings})
    partitions = sorted(consumer.list_topics(topic, WAIT_S).topics[topic].partitions)
    found: list[list[Read]] = [[] for _ in partitions]
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
    unread = set(partitions)
    end_s = time.monotonic() + WAIT_S
    while unread:
        assert time.monotonic() < end_s, f"partitions {unread} of {topic} have no end"
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found[message.partition()].append(Read(message.offset(), message.value()))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            unread.discard(message.partition())
    consumer.close()
    return found
