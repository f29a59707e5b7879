"""Several broker processes of one command: one cluster, log and stop; what is killed comes back, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from tests.cluster.several_brokers import SeveralBrokers
from tests.patience import HANG_S

import ottla
from ottla.cli.brokers.status import is_running, read_status
from ottla.testing.promises import NumberedLoad, read_numbers

PARTITIONS = 3


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[SeveralBrokers]:
    with SeveralBrokers(tmp_path, 3) as running:
        yield running


def make_topic(brokers: SeveralBrokers, name: str, replicas: int = 3) -> None:
    with ottla.Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:
        settings = {"min.insync.replicas": str(min(2, replicas))}
        admin.create_topics([ottla.NewTopic(name, PARTITIONS, replicas, configs=settings)], timeout=HANG_S)


def wait_for_copies(brokers: SeveralBrokers, topic: str) -> None:
    with ottla.Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:

        def are_in_sync() -> bool:
            found = admin.describe_topics([topic], timeout=HANG_S)[topic].partitions
            return all(len(each.in_sync) == 3 and each.leader is not None for each in found)

        brokers.wait_until(are_in_sync)


def confluent_writes(brokers: SeveralBrokers, topic: str, first: int, count: int) -> None:
    """Records of another client, each acknowledged."""
    failed: list[object] = []
    producer = ConfluentProducer({"bootstrap.servers": brokers.bootstrap_servers, "acks": "all"})
    for number in range(first, first + count):
        producer.produce(
            topic, str(number).encode(), on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(HANG_S) == 0
    assert not failed


def confluent_reads(brokers: SeveralBrokers, topic: str, count: int) -> list[int]:
    settings = {"bootstrap.servers": brokers.bootstrap_servers, "group.id": "other", "auto.offset.reset": "earliest"}
    consumer = ConfluentConsumer(settings)
    consumer.subscribe([topic])
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(HANG_S)
        assert message is not None, f"{len(found)} of {count}"
        assert message.error() is None, message.error()
        found.append(int(message.value()))
    consumer.close()
    return sorted(found)


def test_what_is_killed_comes_back_and_nothing_that_was_acknowledged_is_lost(brokers: SeveralBrokers) -> None:
    make_topic(brokers, "clicks")
    make_topic(brokers, "others")
    confluent_writes(brokers, "others", 0, 50)
    addresses = brokers.bootstrap_servers
    with NumberedLoad(addresses, "clicks", partitions=PARTITIONS) as load:
        load.wait_for(100)
        brokers.kill_broker(1)
        brokers.wait_for_restarts(brokers=1)
        wait_for_copies(brokers, "clicks")
        brokers.kill_keeper()
        load.wait_for(100)  # while nobody keeps the truth, or just after
        brokers.wait_for_restarts(brokers=1, keeper=1)
        brokers.kill_broker(0)
        brokers.wait_for_restarts(brokers=2, keeper=1)
        load.wait_for(100)
    assert brokers.bootstrap_servers == addresses
    confluent_writes(brokers, "others", 50, 50)
    load.check(read_numbers(addresses, "clicks", PARTITIONS))
    assert confluent_reads(brokers, "others", 100) == list(range(100))
    wait_for_copies(brokers, "clicks")
    processes = brokers.pids()
    assert brokers.stop() == 0
    assert not [pid for pid in processes if is_running(pid)]
    assert read_status(brokers.data) is None
    brokers.start()
    load.check(read_numbers(brokers.bootstrap_servers, "clicks", PARTITIONS))


def test_a_broker_that_is_stopped_hands_over_and_comes_back(brokers: SeveralBrokers) -> None:
    """kill -TERM of one process: a restart in order."""
    make_topic(brokers, "clicks")
    with NumberedLoad(brokers.bootstrap_servers, "clicks", partitions=PARTITIONS) as load:
        load.wait_for(50)
        os.kill(brokers.pid_of(2), signal.SIGTERM)
        brokers.wait_for_restarts(brokers=1)
        load.wait_for(50)
    load.check(read_numbers(brokers.bootstrap_servers, "clicks", PARTITIONS))


def test_while_nobody_keeps_the_truth_brokers_serve_what_they_have(brokers: SeveralBrokers) -> None:
    make_topic(brokers, "clicks")
    wait_for_copies(brokers, "clicks")
    keeper = brokers.status.keeper
    assert keeper is not None
    assert keeper.pid is not None
    os.kill(keeper.pid, signal.SIGSTOP)
    try:
        confluent_writes(brokers, "clicks", 0, 50)
        with ottla.Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:
            leaders = [each.leader for each in admin.describe_topics(["clicks"])["clicks"].partitions]
    finally:
        os.kill(keeper.pid, signal.SIGKILL)
    brokers.wait_for_restarts(keeper=1)
    make_topic(brokers, "made-after")
    with ottla.Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:
        assert [each.leader for each in admin.describe_topics(["clicks"])["clicks"].partitions] == leaders
    assert confluent_reads(brokers, "clicks", 50) == list(range(50))


def test_when_the_supervisor_is_killed_no_process_is_left(brokers: SeveralBrokers) -> None:
    make_topic(brokers, "clicks")
    confluent_writes(brokers, "clicks", 0, 20)
    processes = brokers.pids()
    brokers.process.kill()
    brokers.process.wait(HANG_S)
    for pid in processes:
        brokers.wait_until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]
    brokers.start()
    assert confluent_reads(brokers, "clicks", 20) == list(range(20))


def test_one_status_and_one_log_for_all(brokers: SeveralBrokers) -> None:
    command = [sys.executable, "-m", "ottla", "broker", "status", "--data", str(brokers.data)]
    shown = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=True).stdout
    found = json.loads(shown)["brokers"]
    assert [each["broker_id"] for each in found] == [0, 1, 2]
    assert {each["state"] for each in found} == {"serving"}
    for each in found:
        assert f"broker {each['broker_id']} is ready at {each['address']}" in brokers.text
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in table.splitlines()] == ["BROKER", "0", "1", "2", "metadata"]
    assert "[0] " in brokers.text


def test_each_broker_has_its_own_metrics_and_all_are_in_the_rack_of_the_machine(tmp_path: Path) -> None:
    settings: dict[str, object] = {"ottla.admin.listener": "127.0.0.1:0", "broker.id": 5}
    with SeveralBrokers(tmp_path, 2, settings=settings) as brokers:
        for each in brokers.status.brokers:
            with urllib.request.urlopen(f"{each.metrics}/metrics", timeout=HANG_S) as answer:
                assert b"ottla" in answer.read()
        with ottla.Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:
            nodes = admin.describe_cluster(timeout=HANG_S).nodes
        assert [each.id for each in nodes] == [5, 6]
        assert {each.rack for each in nodes} == {os.uname().nodename}
