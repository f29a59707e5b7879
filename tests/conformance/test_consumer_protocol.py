"""Groups of the new protocol (KIP-848) with librdkafka, which needs version 1 of the heartbeat."""

import time
from collections.abc import Callable

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.patience import HANG_S


def member(servers: str, group: str, topics: list[str]) -> confluent_kafka.Consumer:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe(topics)
    return consumer


def poll_until(members: list[confluent_kafka.Consumer], condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + HANG_S
    while not condition() and time.monotonic() < end_s:
        for each in members:
            each.poll(0.05)
    assert condition()


def owned(each: confluent_kafka.Consumer) -> set[tuple[str, int]]:
    return {(one.topic, one.partition) for one in each.assignment()}


def test_members_of_the_new_protocol_share_leave_and_take_new_partitions(
    kafka_bootstrap: str, unique_topic: str, unique_group: str
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([NewTopic(unique_topic, 4, 1)])[unique_topic].result(HANG_S)
    first, second = (member(kafka_bootstrap, unique_group, [unique_topic]) for _ in range(2))
    poll_until([first, second], lambda: len(owned(first)) == 2 and len(owned(second)) == 2)
    assert not owned(first) & owned(second)
    second.close()
    poll_until([first], lambda: len(owned(first)) == 4)
    admin.create_partitions([NewPartitions(unique_topic, 6)])[unique_topic].result(HANG_S)
    poll_until([first], lambda: len(owned(first)) == 6)
    first.close()


def test_a_subscription_by_pattern_takes_topics_as_they_come(
    kafka_bootstrap: str, unique_topic: str, unique_group: str
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([NewTopic(f"{unique_topic}.a", 1, 1)])[f"{unique_topic}.a"].result(HANG_S)
    consumer = member(kafka_bootstrap, unique_group, [f"^{unique_topic}\\..*"])
    poll_until([consumer], lambda: len(owned(consumer)) == 1)
    admin.create_topics([NewTopic(f"{unique_topic}.b", 1, 1)])[f"{unique_topic}.b"].result(HANG_S)
    poll_until([consumer], lambda: len(owned(consumer)) == 2)
    consumer.close()


def test_offsets_of_the_new_protocol_are_kept(kafka_bootstrap: str, unique_topic: str, unique_group: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_bootstrap})
    for number in range(10):
        producer.produce(unique_topic, b"%d" % number)
    producer.flush(HANG_S)
    consumer = member(kafka_bootstrap, unique_group, [unique_topic])
    found: list[object] = []
    poll_until([], lambda: len(found) >= 10 or bool(found.extend(consumer.consume(10, 0.2))))
    consumer.commit(asynchronous=False)
    [kept] = consumer.committed([confluent_kafka.TopicPartition(unique_topic, 0)], HANG_S)
    assert kept.offset == 10
    consumer.close()
