"""Topics as a whole: made, and read from the first to the last record that is there now.

create_topic(servers, "numbers", partitions=2)
read_all(servers, "numbers", "read_committed")       # [[Read(offset, value), ...] of partition 0, ...]

A commit promises a decision; its markers come behind it. So who reads what is committed first waits, for a while, until
no transaction is open.
"""

import time
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.patience import HANG_S

MARKERS_S = 10
STEP_S = 0.05
QUIET = {"log_level": 0, "error_cb": lambda _: None}


class Read(NamedTuple):
    """One record as a reader saw it."""

    offset: int
    value: bytes


def create_topic(servers: str, topic: str, partitions: int) -> str:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(HANG_S)
    return topic


def read_all(servers: str, topic: str, isolation: str) -> list[list[Read]]:
    """Everything in a topic, by partition."""
    settings = {"group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": servers, "enable.auto.commit": False, **settings})
    partitions = sorted(consumer.list_topics(topic, HANG_S).topics[topic].partitions)
    if isolation == "read_committed":
        wait_for_markers(servers, [TopicPartition(topic, index) for index in partitions])
    found: list[list[Read]] = [[] for _ in partitions]
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
    unread = set(partitions)
    end_s = time.monotonic() + HANG_S
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


def wait_for_markers(servers: str, partitions: list[TopicPartition]) -> None:
    """Until the last stable offsets are the ends, or for MARKERS_S: whoever holds a transaction open may go on."""
    settings = {"bootstrap.servers": servers, "group.id": "reader", **QUIET}
    stable, written = (
        Consumer({**settings, "isolation.level": f"read_{kind}"}) for kind in ("committed", "uncommitted")
    )
    end_s = time.monotonic() + MARKERS_S
    while time.monotonic() < end_s and _ends(stable, partitions) != _ends(written, partitions):
        time.sleep(STEP_S)
    stable.close()
    written.close()


def _ends(consumer: Consumer, partitions: list[TopicPartition]) -> list[int]:
    return [consumer.get_watermark_offsets(each, HANG_S)[1] for each in partitions]
