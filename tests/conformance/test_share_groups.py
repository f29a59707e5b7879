"""Share groups with other people's share consumers: confluent-kafka's, and Java's with Kafka's own commands (long)."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.our_broker import BrokerProcess
from tests.conformance.transaction_probes import Wire
from tests.patience import HANG_S

from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

GROUP_RESOURCE = 32
GROUP_COMMAND = "consumer.group.ShareGroupCommand"


def begin_at_the_start(servers: str, group: str) -> None:
    """The group's own setting: share consumers have none for it."""
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[config])
    with Wire(servers) as wire:
        answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    assert answer.responses[0].error_code == 0


def produce(servers: str, topic: str, count: int, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(HANG_S)
    send(servers, topic, count)


def send(servers: str, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(HANG_S) == 0


def share_consumer(servers: str, group: str, topic: str, mode: str) -> ShareConsumer:
    consumer = ShareConsumer({"bootstrap.servers": servers, "group.id": group, "share.acknowledgement.mode": mode})
    consumer.subscribe([topic])
    return consumer


def test_confluents_share_consumers_share_what_they_accept(
    kafka_bootstrap: str, unique_topic: str, unique_group: str
) -> None:
    begin_at_the_start(kafka_bootstrap, unique_group)
    produce(kafka_bootstrap, unique_topic, 200, 2)
    consumers = [share_consumer(kafka_bootstrap, unique_group, unique_topic, "implicit") for _ in range(2)]
    found: Counter[bytes] = Counter()
    end_s = time.monotonic() + HANG_S
    while len(found) < 200 and time.monotonic() < end_s:
        for consumer in consumers:
            found.update(message.value() for message in consumer.poll(0.1))
    for consumer in consumers:
        consumer.close()
    assert found == {b"%d" % number: 1 for number in range(200)}, "each record went to one of them, once"


def test_confluents_share_consumer_releases_and_rejects(
    kafka_bootstrap: str, unique_topic: str, unique_group: str
) -> None:
    begin_at_the_start(kafka_bootstrap, unique_group)
    produce(kafka_bootstrap, unique_topic, 10)
    consumer = share_consumer(kafka_bootstrap, unique_group, unique_topic, "explicit")
    seen: Counter[bytes] = Counter()
    end_s = time.monotonic() + HANG_S
    while seen[b"9"] < 2 and time.monotonic() < end_s:
        for message in consumer.poll(0.1):
            seen[message.value()] += 1
            number = int(message.value())
            kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.RELEASE)
            is_second = seen[message.value()] > 1
            consumer.acknowledge(message, kinds[0] if is_second else kinds[min(number // 3, 2)])
        assert all(error is None for error in consumer.commit_sync(HANG_S).values())
    consumer.close()
    assert seen == {b"%d" % number: 1 + (number >= 6) for number in range(10)}


# --- Java ------------------------------------------------------------------------------------------------------------


def events(printed: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """For Java, whose programs each take a JVM: one test for each of them, so that none takes minutes."""
    settings = {"share.coordinator.state.topic.num.partitions": "3"}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings) as made:
        yield made
        assert made.faults() == []


@pytest.fixture(scope="module")
def java(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> JavaPrograms:
    return JavaPrograms(jars_or_skip("4.3"), tmp_path_factory.mktemp("java"), broker.bootstrap_servers)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_javas_verifiable_share_consumer_gets_what_there_is(
    broker: BrokerProcess, java: JavaPrograms, unique_topic: str, unique_group: str, mode: str
) -> None:
    produce(broker.bootstrap_servers, unique_topic, 200, 3)
    begin_at_the_start(broker.bootstrap_servers, unique_group)
    options = f"--topic {unique_topic} --group-id {unique_group} --max-messages 200 --acknowledgement-mode {mode}"
    heard = events(java.tool("VerifiableShareConsumer", *options.split()))
    consumed = sum(int(str(each["count"])) for each in heard if each["name"] == "records_consumed")
    assert consumed == 200
    assert all(each["success"] for each in heard if each["name"] == "offsets_acknowledged")


@pytest.mark.long
def test_javas_share_consumer_performance_gets_as_many_as_it_asks_for(
    broker: BrokerProcess, java: JavaPrograms, unique_topic: str, unique_group: str
) -> None:
    produce(broker.bootstrap_servers, unique_topic, 600, 3)
    begin_at_the_start(broker.bootstrap_servers, unique_group)
    options = f"--topic {unique_topic} --group {unique_group} --num-records 600 --timeout {HANG_S * 1000}"
    servers = ("--bootstrap-server", java.servers)
    printed = java.run("org.apache.kafka.tools.ShareConsumerPerformance", *options.split(), *servers)
    assert printed.splitlines()[-1].split(", ")[5] == "600"


@pytest.mark.long
def test_javas_console_share_consumer_prints_a_record(
    broker: BrokerProcess, java: JavaPrograms, unique_topic: str, unique_group: str
) -> None:
    produce(broker.bootstrap_servers, unique_topic, 1)
    begin_at_the_start(broker.bootstrap_servers, unique_group)
    options = f"--topic {unique_topic} --group {unique_group} --timeout-ms {HANG_S * 1000} --max-messages 1"
    assert java.tool("consumer.ConsoleShareConsumer", *options.split()).split() == ["0"]


@pytest.mark.long
def test_the_operator_of_share_groups_lists_describes_resets_and_deletes(
    broker: BrokerProcess, java: JavaPrograms, unique_topic: str, unique_group: str
) -> None:
    servers, group = broker.bootstrap_servers, ("--group", unique_group)
    produce(servers, unique_topic, 6, 3)
    begin_at_the_start(servers, unique_group)
    accept_all(servers, unique_group, unique_topic, 6)
    assert unique_group in java.tool(GROUP_COMMAND, "--list").split()
    assert "Empty" in java.tool(GROUP_COMMAND, "--describe", *group, "--state")
    offsets = java.tool(GROUP_COMMAND, "--describe", *group)
    assert len([line for line in offsets.splitlines() if unique_topic in line]) == 3
    java.tool(GROUP_COMMAND, "--reset-offsets", "--to-earliest", "--topic", unique_topic, *group, "--execute")
    accept_all(servers, unique_group, unique_topic, 6)
    assert "Successful" in java.tool(GROUP_COMMAND, "--delete-offsets", "--topic", unique_topic, *group)
    assert "successful" in java.tool(GROUP_COMMAND, "--delete", *group)
    assert unique_group not in java.tool(GROUP_COMMAND, "--list").split()


def accept_all(servers: str, group: str, topic: str, count: int) -> None:
    consumer = share_consumer(servers, group, topic, "implicit")
    found, end_s = 0, time.monotonic() + HANG_S
    while found < count and time.monotonic() < end_s:
        found += len(consumer.poll(0.1))
    consumer.close()
    assert found == count
