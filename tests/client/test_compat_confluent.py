"""What a program for confluent-kafka hears from its callbacks, and what AdminClient gives it, beside the original."""

import asyncio
import enum
import json
import time

import confluent_kafka
import confluent_kafka.admin
import pytest
from tests.patience import HANG_S

import ottla
from ottla.compat.confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
    consistent,
    fnv1a,
    murmur2,
)
from ottla.compat.confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from ottla.compat.confluent_kafka.aio import AIOConsumer, AIOProducer

NOBODY = "127.0.0.1:1"


def served(client, until):
    """Poll until something is true."""
    deadline = time.monotonic() + HANG_S
    while not until():
        assert time.monotonic() < deadline, "it did not happen"
        client.poll(0.05)


def test_produce_does_not_wait_for_a_cluster_that_is_away():
    reports = []
    producer = Producer({"bootstrap.servers": NOBODY, "message.timeout.ms": 400})
    for number in range(3):
        producer.produce("t", str(number), callback=lambda error, message: reports.append((error, message.value())))
    assert len(producer) == 3
    served(producer, lambda: len(reports) == 3)
    assert [(error.code(), value) for error, value in reports] == [
        (KafkaError._MSG_TIMED_OUT, b"0"),
        (KafkaError._MSG_TIMED_OUT, b"1"),
        (KafkaError._MSG_TIMED_OUT, b"2"),
    ]
    assert producer.flush(1) == 0
    producer.close()


def test_a_full_queue_is_a_buffer_error_at_once_and_purge_empties_it():
    reports = []
    producer = Producer({"bootstrap.servers": NOBODY, "queue.buffering.max.messages": 2})
    producer.produce("t", "a", on_delivery=lambda error, message: reports.append(error.name()))
    producer.produce("t", "b", on_delivery=lambda error, message: reports.append(error.name()))
    with pytest.raises(BufferError, match="Local: Queue full"):
        producer.produce("t", "c")
    producer.purge()
    producer.poll(0)
    assert reports == ["_PURGE_QUEUE", "_PURGE_QUEUE"]
    assert len(producer) == 0
    producer.close()


def test_errors_of_the_whole_client_are_told_once():
    errors = []
    producer = Producer({"bootstrap.servers": NOBODY, "error_cb": errors.append, "message.timeout.ms": 300_000})
    producer.produce("t", "a")
    served(producer, lambda: len(errors) >= 2)
    assert [each.code() for each in errors[:2]] == [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN]
    assert "127.0.0.1:1/bootstrap" in errors[0].str()
    producer.purge()
    producer.close()


def test_statistics_are_json_with_the_names_of_librdkafka(kafka_broker, unique_topic, unique_group):
    servers, texts = kafka_broker.bootstrap_servers, []
    conf = {"bootstrap.servers": servers, "statistics.interval.ms": 50, "stats_cb": texts.append}
    producer = Producer(conf)
    producer.produce(unique_topic, "x", on_delivery=lambda error, message: None)
    producer.flush(HANG_S)
    served(producer, lambda: texts and json.loads(texts[-1])["txmsgs"] == 1)
    found = json.loads(texts[-1])
    assert (found["type"], found["client_id"], found["msg_cnt"]) == ("producer", "rdkafka", 0)
    assert list(found["topics"]) == [unique_topic]
    (broker,) = [each for each in found["brokers"].values() if each["nodeid"] >= 0]
    assert broker["state"] == "UP"
    assert broker["tx"] > 0
    assert found["tx"] >= broker["tx"]
    producer.close()
    texts.clear()
    consumer = Consumer({**conf, "group.id": unique_group, "auto.offset.reset": "earliest"})
    consumer.subscribe([unique_topic])
    served(consumer, lambda: texts and json.loads(texts[-1])["rxmsgs"] == 1)
    found = json.loads(texts[-1])
    assert found["topics"][unique_topic]["partitions"]["0"]["consumer_lag"] in (0, -1)
    assert found["cgrp"]["assignment_size"] == 1
    consumer.close()


def test_every_partitioner_puts_keys_where_its_function_says(kafka_broker, unique_topic):
    servers = kafka_broker.bootstrap_servers
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([ottla.client.admin.topics.NewTopic(unique_topic, 7)])
    functions = {"murmur2": murmur2, "consistent": consistent, "fnv1a": fnv1a}
    for name in ("murmur2", "murmur2_random", "consistent", "consistent_random", "fnv1a", "fnv1a_random"):
        places = []
        producer = Producer({"bootstrap.servers": servers, "partitioner": name})
        for number in range(20):
            producer.produce(unique_topic, "v", f"key-{number}", on_delivery=lambda _, m, at=places: at.append(m))
        producer.flush(HANG_S)
        producer.close()
        hashed = functions[name.removesuffix("_random")]
        found = sorted((each.key(), each.partition()) for each in places)
        assert found == sorted((b"key-%d" % n, hashed(b"key-%d" % n, 7)) for n in range(20)), name


def shown(value):
    """An answer of AdminClient as plain values."""
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        return {str(key): shown(each) for key, each in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if hasattr(value, "__dict__"):
        return {"is": type(value).__name__, **{name: shown(each) for name, each in sorted(vars(value).items())}}
    return str(value)


def test_answers_of_the_admin_client_have_the_same_shape(kafka_broker_fresh, unique_topic, unique_group):
    """One cluster, both libraries, the same questions."""
    servers = kafka_broker_fresh.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers})
    with AdminClient({"bootstrap.servers": servers}) as admin:
        admin.create_topics([NewTopic(unique_topic, 2, 1)])[unique_topic].result(HANG_S)
    producer.produce(unique_topic, "x", partition=1)
    producer.flush(HANG_S)
    producer.close()
    reader = Consumer({"bootstrap.servers": servers, "group.id": unique_group})
    reader.commit(offsets=[TopicPartition(unique_topic, 1, 1)], asynchronous=False)
    reader.close()
    answers = {}
    for name, library, module in (
        ("theirs", confluent_kafka, confluent_kafka.admin),
        ("ours", ottla.compat.confluent_kafka, ottla.compat.confluent_kafka.admin),
    ):
        admin = module.AdminClient({"bootstrap.servers": servers})
        place = library.TopicPartition(unique_topic, 1)
        spec = module.OffsetSpec
        answers[name] = {
            "topics": admin.describe_topics(library.TopicCollection([unique_topic]))[unique_topic].result(HANG_S),
            "cluster": admin.describe_cluster().result(HANG_S),
            "groups": admin.list_consumer_groups(states={library.ConsumerGroupState.EMPTY}).result(HANG_S),
            "group": admin.describe_consumer_groups([unique_group])[unique_group].result(HANG_S),
            "no group": admin.describe_consumer_groups(["nobody"])["nobody"].result(HANG_S),
            "offsets": admin.list_offsets({place: spec.latest()})[place].result(HANG_S),
            "earliest": admin.list_offsets({place: spec.earliest()})[place].result(HANG_S),
            "committed": admin.list_consumer_group_offsets([library.ConsumerGroupTopicPartitions(unique_group)])[
                unique_group
            ].result(HANG_S),
            "altered": admin.alter_consumer_group_offsets(
                [library.ConsumerGroupTopicPartitions(unique_group, [library.TopicPartition(unique_topic, 1, 0)])]
            )[unique_group].result(HANG_S),
            "elected": {
                (key.topic, key.partition): error.code()
                for key, error in admin.elect_leaders(library.ElectionType.PREFERRED, [place]).result(HANG_S).items()
            },
            "metadata": admin.list_topics(unique_topic, timeout=HANG_S).topics[unique_topic].partitions,
            "id": admin.cluster_id(timeout=HANG_S),
        }
        answers[name] = {key: shown(value) for key, value in answers[name].items()}
        reader = library.Consumer({"bootstrap.servers": servers, "group.id": unique_group})
        reader.commit(offsets=[library.TopicPartition(unique_topic, 1, 1)], asynchronous=False)
        reader.close()
    assert answers["ours"] == answers["theirs"]


def test_admin_calls_refuse_what_the_original_refuses(kafka_broker):
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    original = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    wrong = [
        ("list_consumer_group_offsets", ("x",)),
        ("list_consumer_group_offsets", ([],)),
        ("alter_consumer_group_offsets", (None,)),
        ("describe_consumer_groups", ([],)),
        ("list_offsets", (["x"],)),
        ("delete_records", ("x",)),
        ("elect_leaders", ("x",)),
        ("describe_user_scram_credentials", ("x",)),
        ("alter_user_scram_credentials", ([],)),
        ("create_acls", (["x"],)),
        ("describe_configs", (["x"],)),
    ]
    for name, arguments in wrong:
        with pytest.raises((TypeError, ValueError)) as expected:
            getattr(original, name)(*arguments)
        with pytest.raises((TypeError, ValueError)) as found:
            getattr(admin, name)(*arguments)
        assert found.type is expected.type, name
    with pytest.raises(KafkaException) as raised:
        admin.describe_topics(TopicCollection(["no-such-topic"]))["no-such-topic"].result(HANG_S)
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert ConsumerGroupState.EMPTY.value == 5
    assert OffsetSpec.latest() == OffsetSpec(-1)
    assert ConsumerGroupTopicPartitions("g").topic_partitions is None


def test_the_asyncio_clients(kafka_broker, unique_topic, unique_group):
    servers = kafka_broker.bootstrap_servers

    async def both():
        assigned = []

        async def on_assign(consumer, partitions):
            assigned.append([each.partition for each in partitions])
            assert isinstance(consumer, AIOConsumer)
            await consumer.assign([TopicPartition(unique_topic, each.partition, -2) for each in partitions])

        async with AIOProducer({"bootstrap.servers": servers}) as producer:
            futures = [await producer.produce(unique_topic, value=f"v{number}") for number in range(5)]
            delivered = await asyncio.gather(*futures)
            assert [message.value() for message in delivered] == [b"v0", b"v1", b"v2", b"v3", b"v4"]
            while len(producer):  # noqa: ASYNC110 who served the callbacks may not be back yet
                await asyncio.sleep(0.01)
        async with AIOConsumer({"bootstrap.servers": servers, "group.id": unique_group}) as consumer:
            await consumer.subscribe([unique_topic], on_assign=on_assign)
            found = []
            while len(found) < 5:
                found += await consumer.consume(5, 1.0)
            assert [message.value() for message in found] == [b"v0", b"v1", b"v2", b"v3", b"v4"]
            await consumer.commit(asynchronous=False)
            (committed,) = await consumer.committed([TopicPartition(unique_topic, 0)])
            assert committed.offset == 5
        assert assigned == [[0]]

    asyncio.run(asyncio.wait_for(both(), HANG_S))
