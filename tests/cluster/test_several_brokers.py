"""Several broker processes of one command: one cluster, log and stop; what is killed comes back, nothing is lost."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from tests.cluster.several_brokers import SeveralBrokers
from tests.patience import HANG_S

import ottla
from ottla.cli.brokers.status import is_running, read_status
from ottla.client.admin.topics import PartitionDescription
from ottla.net.sasl.jaas import parse_jaas
from ottla.properties import read_properties
from ottla.testing.promises import NumberedLoad, read_numbers

PARTITIONS = 3


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    with SeveralBrokers(tmp_path_factory.mktemp("several"), 3) as running:
        yield running


def make_topic(brokers: SeveralBrokers, name: str, replicas: int = 3) -> None:
    with ottla.Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:
        settings = {"min.insync.replicas": str(min(2, replicas))}
        admin.create_topics([ottla.NewTopic(name, PARTITIONS, replicas, configs=settings)], timeout=HANG_S)


def partitions_of(brokers: SeveralBrokers, topic: str) -> Sequence[PartitionDescription]:
    """As soon as the broker that is asked knows the topic."""
    with ottla.Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:
        brokers.wait_until(lambda: topic in admin.list_topics(timeout=HANG_S))
        return admin.describe_topics([topic], timeout=HANG_S)[topic].partitions


def leaders_of(brokers: SeveralBrokers, topic: str) -> list[int | None]:
    return [each.leader for each in partitions_of(brokers, topic)]


def wait_for_copies(brokers: SeveralBrokers, topic: str) -> None:
    brokers.wait_until(lambda: all(len(each.in_sync) == 3 for each in partitions_of(brokers, topic)))


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
    settings = {
        "bootstrap.servers": brokers.bootstrap_servers,
        "group.id": f"of-{topic}",
        "auto.offset.reset": "earliest",
    }
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


def test_one_status_and_one_log_for_all(brokers: SeveralBrokers) -> None:
    command = [sys.executable, "-m", "ottla", "broker", "status", "--data", str(brokers.data)]
    shown = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=True).stdout
    found = json.loads(shown)["brokers"]
    assert [each["broker_id"] for each in found] == [0, 1, 2]
    assert {each["state"] for each in found} == {"serving"}
    for each in found:
        assert f"broker {each['broker_id']} is ready at {each['address']}" in brokers.text
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in table.splitlines()] == ["BROKER", "0", "1", "2"]
    assert re.search(r"^\[[012]\] ", brokers.text, re.MULTILINE)  # whoever became controller says so


def test_the_active_controller_is_killed_and_another_one_decides(brokers: SeveralBrokers) -> None:
    make_topic(brokers, "served")
    confluent_writes(brokers, "served", 0, 50)
    brokers.signal_and_wait(brokers.pid_of(active_controller(brokers)))
    make_topic(brokers, "made-after")
    assert confluent_reads(brokers, "served", 50) == list(range(50))


def active_controller(brokers: SeveralBrokers) -> int:
    with ottla.Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:
        return admin.describe_metadata_quorum(timeout=HANG_S).leader


def test_a_second_controller_is_not_stopped_by_name_where_only_one_would_be_left(brokers: SeveralBrokers) -> None:
    command = [sys.executable, "-m", "ottla", "broker"]
    data = ["--data", str(brokers.data)]
    subprocess.run([*command, "stop", "2", *data], check=True, capture_output=True)
    refused = subprocess.run([*command, "stop", "1", *data], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "no majority" in refused.stderr
    make_topic(brokers, "made-meanwhile", replicas=2)
    subprocess.run([*command, "start", "2", *data], check=True, capture_output=True)
    brokers.wait_until(lambda: {each.state for each in brokers.status.brokers} == {"serving"})


def test_a_broker_that_is_told_to_stop_is_a_broker_restarted_in_order(brokers: SeveralBrokers) -> None:
    make_topic(brokers, "rolled")
    with NumberedLoad(brokers.bootstrap_servers, "rolled", partitions=PARTITIONS) as load:
        load.wait_for(50)
        brokers.signal_and_wait(brokers.pid_of(2), signal.SIGTERM)
        load.wait_for(50)
    load.check(read_numbers(brokers.bootstrap_servers, "rolled", PARTITIONS))


def test_what_is_killed_comes_back_and_nothing_that_was_acknowledged_is_lost(brokers: SeveralBrokers) -> None:
    make_topic(brokers, "clicks")
    make_topic(brokers, "others")
    confluent_writes(brokers, "others", 0, 50)
    addresses = brokers.bootstrap_servers
    with NumberedLoad(addresses, "clicks", partitions=PARTITIONS) as load:
        load.wait_for(100)
        brokers.signal_and_wait(brokers.pid_of(1))
        wait_for_copies(brokers, "clicks")
        brokers.signal_and_wait(brokers.pid_of(0))
        load.wait_for(100)
    assert brokers.bootstrap_servers == addresses
    confluent_writes(brokers, "others", 50, 50)
    load.check(read_numbers(addresses, "clicks", PARTITIONS))
    assert confluent_reads(brokers, "others", 100) == list(range(100))
    processes = brokers.pids()
    assert brokers.stop() == 0
    assert not [pid for pid in processes if is_running(pid)]
    assert read_status(brokers.data) is None
    brokers.start()
    load.check(read_numbers(brokers.bootstrap_servers, "clicks", PARTITIONS))


def test_when_the_supervisor_is_killed_no_process_is_left(brokers: SeveralBrokers) -> None:
    make_topic(brokers, "orphaned")
    confluent_writes(brokers, "orphaned", 0, 20)
    processes = brokers.pids()
    brokers.process.kill()
    brokers.process.wait(HANG_S)
    for pid in processes:
        brokers.wait_until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]
    brokers.start()
    assert confluent_reads(brokers, "orphaned", 20) == list(range(20))


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


def test_with_zookeeper_the_truth_is_there_and_nobody_else_keeps_it(tmp_path: Path, chroot: str) -> None:
    copies: dict[str, object] = {"offsets.topic.replication.factor": 2, "zookeeper.session.timeout.ms": 3_000}
    with SeveralBrokers(tmp_path, 2, "--zookeeper", chroot, settings=copies) as brokers:
        with ottla.Admin(bootstrap_servers=brokers.bootstrap_servers) as admin:
            nodes = admin.describe_cluster(timeout=HANG_S).nodes
        assert [each.id for each in nodes] == [1001, 1002]
        make_topic(brokers, "kept-there", replicas=2)
        confluent_writes(brokers, "kept-there", 0, 10)
        assert confluent_reads(brokers, "kept-there", 10) == list(range(10))
        assert brokers.stop() == 0


def test_secured_brokers_trust_each_other_and_show_no_secret(tmp_path: Path) -> None:
    with SeveralBrokers(tmp_path, 2, "--secure", settings={"ottla.admin.listener": ""}) as brokers:
        client = read_properties(brokers.data / "client.properties")
        with ottla.Admin(client) as admin:
            admin.create_topics([ottla.NewTopic("locked", 2, 2)], timeout=HANG_S)
        with NumberedLoad(client["bootstrap.servers"], "locked", partitions=2, **_connection(client)) as load:
            load.wait_for(20)
            brokers.signal_and_wait(brokers.pid_of(1))
            load.wait_for(20)
        load.check(read_numbers(client["bootstrap.servers"], "locked", 2, **_connection(client)))
        password = parse_jaas(client["sasl.jaas.config"]).options["password"]
        for pid in (*brokers.pids(), brokers.process.pid):
            assert password.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert password not in brokers.text, "what it printed goes into a file"


def _connection(client: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in client.items() if name != "bootstrap.servers"}
