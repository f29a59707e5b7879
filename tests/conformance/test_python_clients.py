"""The clients that Python people use, unchanged, against our broker. One suite, three libraries.

Each client is wrapped in the few words the tests need; what is checked is the same for all.
"""

import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.conformance.python_clients import CLIENTS, Confluent
from tests.patience import HANG_S

from ottla.testing.broker import KafkaBroker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
VALUES = [b"value-%d" % number for number in range(200)]


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_what_is_produced_is_consumed_in_order(
    client: Any, kafka_bootstrap: str, unique_topic: str, unique_group: str
) -> None:
    client.produce(kafka_bootstrap, unique_topic, VALUES)
    assert client.consume(kafka_bootstrap, unique_topic, unique_group, len(VALUES)) == VALUES


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_goes_through(
    client: Any, codec: str, kafka_bootstrap: str, unique_topic: str, unique_group: str
) -> None:
    if client.name == "kafka-python" and codec == "snappy":
        pytest.skip("kafka-python needs python-snappy for it")
    client.produce(kafka_bootstrap, unique_topic, VALUES, compression_type=codec)
    assert Confluent().consume(kafka_bootstrap, unique_topic, unique_group, len(VALUES)) == VALUES


def test_a_group_goes_on_where_it_stopped(
    client: Any, kafka_bootstrap: str, unique_topic: str, unique_group: str
) -> None:
    client.produce(kafka_bootstrap, unique_topic, VALUES[:50])
    assert client.consume(kafka_bootstrap, unique_topic, unique_group, 50) == VALUES[:50]
    client.produce(kafka_bootstrap, unique_topic, VALUES[50:80])
    assert client.consume(kafka_bootstrap, unique_topic, unique_group, 30) == VALUES[50:80]


def test_aborted_records_are_not_read_by_readers_of_committed_ones(
    client: Any, kafka_bootstrap: str, unique_topic: str, unique_group: str
) -> None:
    rounds = [([b"a1", b"a2"], False), ([b"c1", b"c2"], True), ([b"a3"], False), ([b"c3"], True)]
    client.transact(kafka_bootstrap, unique_topic, rounds, f"id-{unique_topic}")
    committed = client.consume(kafka_bootstrap, unique_topic, unique_group, 3, isolation_level="read_committed")
    assert committed == [b"c1", b"c2", b"c3"]
    everything = client.consume(
        kafka_bootstrap, unique_topic, unique_group + "-all", 6, isolation_level="read_uncommitted"
    )
    assert everything == [b"a1", b"a2", b"c1", b"c2", b"a3", b"c3"]


def test_a_second_producer_with_the_same_id_fences_the_first(kafka_bootstrap: str, unique_topic: str) -> None:
    settings = {"bootstrap.servers": kafka_bootstrap, "transactional.id": f"id-{unique_topic}"}
    first, second = confluent_kafka.Producer(settings), confluent_kafka.Producer(settings)
    first.init_transactions(HANG_S)
    first.begin_transaction()
    first.produce(unique_topic, b"lost")
    first.flush(HANG_S)
    second.init_transactions(HANG_S)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        first.commit_transaction(HANG_S)
    assert refused.value.args[0].fatal()


def test_offsets_and_records_of_one_transaction_are_kept_together(
    kafka_bootstrap: str, unique_topic: str, unique_group: str
) -> None:
    Confluent().produce(kafka_bootstrap, unique_topic, VALUES[:10])
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka_bootstrap, "group.id": unique_group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([unique_topic])
    assert len(_until(lambda: consumer.consume(10, 0.2), 10)) == 10
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_bootstrap, "transactional.id": unique_topic})
    producer.init_transactions(HANG_S)
    for commits, expected in ((False, -1001), (True, 10)):
        producer.begin_transaction()
        producer.produce(unique_topic + "-out", b"done")
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), HANG_S
        )
        (producer.commit_transaction if commits else producer.abort_transaction)(HANG_S)
        [kept] = consumer.committed([confluent_kafka.TopicPartition(unique_topic, 0)], HANG_S)
        assert kept.offset == expected
    consumer.close()


def test_two_members_share_the_partitions_of_a_group(
    kafka_bootstrap: str, unique_topic: str, unique_group: str
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([NewTopic(unique_topic, 4, 1)])[unique_topic].result(HANG_S)
    settings = {"bootstrap.servers": kafka_bootstrap, "group.id": unique_group, "session.timeout.ms": 6000}
    members = [confluent_kafka.Consumer(settings) for _ in range(2)]
    for member in members:
        member.subscribe([unique_topic])
    end_s = time.monotonic() + HANG_S
    while time.monotonic() < end_s:
        for member in members:
            member.poll(0.05)
        owned = [{one.partition for one in member.assignment()} for member in members]
        if [len(one) for one in owned] == [2, 2]:
            break
    assert owned[0] | owned[1] == {0, 1, 2, 3}
    members[0].close()
    while time.monotonic() < end_s and len(members[1].assignment()) < 4:
        members[1].poll(0.05)
    assert len(members[1].assignment()) == 4
    members[1].close()


def test_records_are_found_by_time(kafka_bootstrap: str, unique_topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_bootstrap})
    now_ms = int(time.time() * 1000)
    for number in range(10):
        producer.produce(unique_topic, b"v", timestamp=now_ms + number * 1000)
    producer.flush(HANG_S)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka_bootstrap, "group.id": "none"})
    asked = confluent_kafka.TopicPartition(unique_topic, 0, now_ms + 3500)
    [found] = consumer.offsets_for_times([asked], HANG_S)
    assert found.offset == 4
    assert consumer.get_watermark_offsets(asked, HANG_S) == (0, 10)
    consumer.close()


def test_topics_are_made_described_changed_and_removed(kafka_bootstrap: str, unique_topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    made = NewTopic(unique_topic, 2, 1, config={"retention.ms": "1234"})
    admin.create_topics([made])[unique_topic].result(HANG_S)
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([made])[unique_topic].result(HANG_S)
    admin.create_partitions([NewPartitions(unique_topic, 5)])[unique_topic].result(HANG_S)
    assert len(admin.list_topics(unique_topic, HANG_S).topics[unique_topic].partitions) == 5
    resource = confluent_kafka.admin.ConfigResource("topic", unique_topic)
    [described] = [future.result(HANG_S) for future in admin.describe_configs([resource]).values()]
    assert described["retention.ms"].value == "1234"
    assert described["cleanup.policy"].value == "delete"
    admin.delete_topics([unique_topic])[unique_topic].result(HANG_S)
    assert unique_topic not in admin.list_topics(timeout=HANG_S).topics


def test_a_large_record_goes_through_and_a_larger_one_is_refused(
    kafka_bootstrap: str, unique_topic: str, unique_group: str
) -> None:
    settings = {"bootstrap.servers": kafka_bootstrap, "message.max.bytes": 3_000_000}
    producer = confluent_kafka.Producer(settings)
    errors: list[Any] = []
    producer.produce(unique_topic, b"x" * 1_000_000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(HANG_S)
    producer.produce(unique_topic, b"x" * 1_100_000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(HANG_S)
    assert errors[0] is None
    assert errors[1].name() == "MSG_SIZE_TOO_LARGE"
    [value] = Confluent().consume(kafka_bootstrap, unique_topic, unique_group, 1)
    assert len(value) == 1_000_000


def test_what_a_test_wrote_is_gone_after_it(kafka_broker: KafkaBroker, unique_topic: str) -> None:
    Confluent().produce(kafka_broker.bootstrap_servers, unique_topic, VALUES[:5])
    snapshot = kafka_broker.snapshot()
    Confluent().produce(kafka_broker.bootstrap_servers, unique_topic, VALUES[5:9])
    Confluent().produce(kafka_broker.bootstrap_servers, unique_topic + "-new", VALUES[:3])
    kafka_broker.rollback(snapshot)
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    assert unique_topic + "-new" not in admin.list_topics(timeout=HANG_S).topics
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": "x"})
    assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition(unique_topic, 0), HANG_S) == (0, 5)
    consumer.close()


def _until(read: Callable[[], list[Any]], count: int) -> list[Any]:
    found: list[Any] = []
    end_s = time.monotonic() + HANG_S
    while len(found) < count and time.monotonic() < end_s:
        found += read()
    return found
