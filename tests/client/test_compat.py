"""Programs for confluent-kafka, kafka-python and aiokafka run on Ottla with another import, and see the same."""

import asyncio
import importlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.patience import HANG_S

import ottla

PROGRAMS = Path(__file__).parent / "programs"
CASES = [
    ("for_confluent_kafka.py", "confluent_kafka"),
    ("for_kafka_python.py", "kafka"),
    ("for_aiokafka.py", "aiokafka"),
]


def run(source, broker, name):
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", source, broker.bootstrap_servers, name],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize(("program", "library"), CASES, ids=[library for _, library in CASES])
def test_a_program_sees_the_same_when_only_its_import_changes(program, library, kafka_broker_fresh):
    source = (PROGRAMS / program).read_text()
    moved = source.replace(f"from {library}", f"from ottla.compat.{library}")
    assert moved != source
    theirs = run(source, kafka_broker_fresh, "theirs")
    ours = run(moved, kafka_broker_fresh, "ours")
    assert [line.replace("ours", "theirs") for line in ours] == theirs


def test_what_is_not_there_is_refused_and_not_passed_over(kafka_broker, unique_topic, unique_group):
    from ottla.compat.confluent_kafka.admin import AdminClient
    from ottla.compat.kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from ottla.compat.kafka.errors import KafkaTimeoutError

    servers = kafka_broker.bootstrap_servers
    with AdminClient({"bootstrap.servers": servers}) as admin, pytest.raises(TypeError):
        admin.describe_configs([], no_such_argument=True)
    with KafkaAdminClient(bootstrap_servers=servers) as admin, pytest.raises(TypeError):
        admin.delete_topics([unique_topic], no_such_argument=False)
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send(unique_topic, b"x").get(timeout=HANG_S)
        assert producer.bootstrap_connected()
    for client in (KafkaProducer, KafkaConsumer, KafkaAdminClient):
        with pytest.raises(KafkaTimeoutError, match=r"Unable to bootstrap from 127\.0\.0\.1:1"):
            client(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=50)


@pytest.mark.parametrize("library", ["kafka", "ottla.compat.kafka"])
@pytest.mark.parametrize("autocommit", [True, False])
def test_closing_commits_what_was_read_unless_told_not_to(
    library, autocommit, kafka_broker, unique_topic, unique_group
):
    names = importlib.import_module(library)
    servers = kafka_broker.bootstrap_servers
    with ottla.Producer(bootstrap_servers=servers) as producer:
        for value in (b"1", b"2", b"3"):
            producer.send(unique_topic, value, partition=0)
    options = {"bootstrap_servers": servers, "group_id": unique_group, "auto_offset_reset": "earliest"}
    reader = names.KafkaConsumer(unique_topic, auto_commit_interval_ms=3_600_000, **options)
    for _ in range(3):
        next(reader)
    reader.close(autocommit=autocommit)
    looker = names.KafkaConsumer(**options)
    assert looker.committed(names.TopicPartition(unique_topic, 0)) == (3 if autocommit else None)
    looker.close()


@pytest.mark.parametrize("library", ["confluent_kafka", "ottla.compat.confluent_kafka"])
def test_throttle_cb_hears_that_a_broker_wants_it_slower(library, kafka_broker, unique_topic):
    servers = kafka_broker.bootstrap_servers
    events = []
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.alter_client_quotas([({"client-id": unique_topic}, {"producer_byte_rate": 10_000.0})])
    config = {"bootstrap.servers": servers, "client.id": unique_topic, "throttle_cb": events.append, "linger.ms": 0}
    producer = importlib.import_module(library).Producer(config)
    deadline = time.monotonic() + HANG_S
    while not events and time.monotonic() < deadline:
        producer.produce(unique_topic, b"x" * 50_000)
        producer.poll(0.1)
    event = events[0]
    assert event.broker_name.startswith(servers)
    assert event.broker_id == 0
    assert 0 < event.throttle_time < 3600
    assert "throttled for" in str(event)
    producer.flush(HANG_S)


def told(call):
    """The error that a call raises, by its name."""
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return None


@pytest.mark.parametrize("library", ["kafka", "ottla.compat.kafka"])
def test_kafka_python_says_what_cannot_be_done_with_a_partition_now(library, kafka_broker, unique_topic, unique_group):
    names = importlib.import_module(library)
    options = {"bootstrap_servers": kafka_broker.bootstrap_servers, "group_id": unique_group}
    partition = names.TopicPartition(unique_topic, 0)
    reader = names.KafkaConsumer(unique_topic, **options)
    assert told(lambda: reader.seek(partition, 0)) == "ValueError"
    assert told(lambda: reader.assign([partition])) == "IllegalStateError"
    reader.close()


@pytest.mark.parametrize("library", ["aiokafka", "ottla.compat.aiokafka"])
def test_aiokafka_says_what_cannot_be_done_with_a_partition_now(library, kafka_broker, unique_topic, unique_group):
    names = importlib.import_module(library)

    async def scenario():
        options = {"bootstrap_servers": kafka_broker.bootstrap_servers, "group_id": unique_group}
        elsewhere = names.TopicPartition(f"not-{unique_topic}", 0)
        async with names.AIOKafkaConsumer(unique_topic, **options) as reader:
            assert told(lambda: reader.seek(elsewhere, 0)) == "IllegalStateError"
            assert told(lambda: reader.assign([elsewhere])) == "IllegalStateError"

    asyncio.run(scenario())


@pytest.mark.parametrize("library", ["confluent_kafka", "ottla.compat.confluent_kafka"])
def test_a_transaction_call_out_of_order_is_no_fatal_error(library, kafka_broker, unique_topic):
    names = importlib.import_module(library)

    def refused(call, *arguments):
        with pytest.raises(names.KafkaException) as raised:
            call(*arguments)
        error = raised.value.args[0]
        return error.name(), error.fatal(), error.retriable(), error.txn_requires_abort()

    servers = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    plain = names.Producer(servers)
    for call in (plain.begin_transaction, plain.init_transactions, plain.commit_transaction, plain.abort_transaction):
        assert refused(call) == ("_NOT_CONFIGURED", False, False, False)
    producer = names.Producer({**servers, "transactional.id": unique_topic})
    assert refused(producer.begin_transaction) == ("_STATE", False, False, False)
    producer.init_transactions(HANG_S)
    assert refused(producer.commit_transaction, HANG_S) == ("_STATE", False, False, False)
    producer.begin_transaction()
    assert refused(producer.begin_transaction) == ("_STATE", False, False, False)
    producer.abort_transaction(HANG_S)


@pytest.mark.parametrize("library", ["confluent_kafka", "ottla.compat.confluent_kafka"])
def test_a_topic_that_is_not_there_is_told_once_as_a_message(library, kafka_broker, unique_topic, unique_group):
    names = importlib.import_module(library)
    servers = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    producer = names.Producer(servers)
    producer.produce(unique_topic, b"there")
    assert producer.flush(HANG_S) == 0
    reader = names.Consumer({**servers, "group.id": unique_group, "auto.offset.reset": "earliest"})
    missing = f"not-{unique_topic}"
    reader.subscribe([unique_topic, missing])
    found = []
    deadline = time.monotonic() + HANG_S
    while len(found) < 2:
        assert time.monotonic() < deadline
        if (message := reader.poll(0.1)) is not None:
            found.append((message.topic(), message.error() and message.error().name(), message.value()))
    text = f"Subscribed topic not available: {missing}: Broker: Unknown topic or partition".encode()
    assert sorted(found) == [(missing, "UNKNOWN_TOPIC_OR_PART", text), (unique_topic, None, b"there")]
    assert reader.poll(0.5) is None
    with pytest.raises(names.KafkaException) as raised:
        reader.seek(names.TopicPartition(missing, 0, 0))
    assert raised.value.args[0].name() == "_UNKNOWN_PARTITION"
    reader.close()
