"""Clients of the field push their metrics to our broker: librdkafka in every run, Java's client in the long ones."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.our_broker import BrokerProcess
from tests.patience import HANG_S

from ottla.cli.commands.client import KnownClient, Number, clients_of

SUBSCRIBE = ("subscribe", "all", "--interval-ms", "200", "--metric", "*")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), {"num.partitions": "1"}) as process:
        yield process
        assert process.faults() == []


def ottla_client(broker: BrokerProcess, *words: str) -> str:
    command = [sys.executable, "-m", "ottla", "client", *words, "--bootstrap-server", broker.bootstrap_servers]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=HANG_S).stdout


def known_of(broker: BrokerProcess, client_id: str) -> tuple[list[KnownClient], list[Number]]:
    with urllib.request.urlopen(f"http://{broker.admin_address}/metrics", timeout=HANG_S) as answer:
        clients, numbers = clients_of(answer.read().decode())
    return [each for each in clients if each.client_id == client_id], [
        each for each in numbers if each.client_id == client_id
    ]


def wait_until(is_true: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + HANG_S
    while not is_true():
        assert time.monotonic() < deadline_s, "it did not come true"
        time.sleep(0.05)


def test_librdkafka_pushes_what_it_is_asked_for_and_leaves(broker: BrokerProcess) -> None:
    ottla_client(broker, *SUBSCRIBE)
    producers = [Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "field"})]

    def has_numbers() -> bool:
        producers[0].produce("orders", b"1")
        producers[0].flush(HANG_S)
        return bool(known_of(broker, "field")[1])

    wait_until(has_numbers)
    (client,), numbers = known_of(broker, "field")
    assert "rdkafka" in client.software
    assert all(each.metric.startswith("org.apache.kafka.producer.") for each in numbers)
    found = ottla_client(broker, "list", "--metrics", broker.admin_address, "--json", "--client", "field")
    assert [each["instance"] for each in json.loads(found)] == [client.instance_id]
    producers.clear()  # its end is a push of its own
    wait_until(lambda: not known_of(broker, "field")[0])


@pytest.mark.long
def test_javas_client_pushes_and_its_tool_configures(broker: BrokerProcess, tmp_path: Path) -> None:
    java = JavaPrograms(jars_or_skip("4.3"), tmp_path, broker.bootstrap_servers)
    tool = "ClientMetricsCommand"
    java.tool(tool, "--alter", "--name", "java", "--metrics", "org.apache.kafka.producer.", "--interval", "500")
    assert "interval.ms=500" in java.tool(tool, "--describe", "--name", "java")
    assert "java" in java.tool(tool, "--list")
    config = tmp_path / "producer.properties"
    config.write_text("client.id=java-field\n")
    arguments = ["--topic", "orders", "--bootstrap-server", broker.bootstrap_servers, "--max-messages", "100000"]
    arguments += ["--throughput", "100", "--command-config", str(config)]
    command = java.command("org.apache.kafka.tools.VerifiableProducer", *arguments)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: known_of(broker, "java-field")[1])
            (client,), numbers = known_of(broker, "java-field")
        finally:
            process.terminate()
    assert client.software == "apache-kafka-java 4.3.1"
    assert any(each.metric.startswith("org.apache.kafka.producer.") for each in numbers)
    wait_until(lambda: not known_of(broker, "java-field")[0])
    java.tool(tool, "--delete", "--name", "java")
    assert "java" not in java.tool(tool, "--list")
