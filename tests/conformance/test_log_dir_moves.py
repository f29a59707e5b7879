"""Replicas move between log directories of a broker process: written meanwhile, killed, moved by Java's tools."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.our_broker import BrokerProcess
from tests.patience import HANG_S

import ottla
from ottla.client.admin.cluster import Replica
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType

TOPIC, LOG = "orders", "orders-0"
RECORDS, VALUE = 3_000, b"v" * 1_000
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class Disks:
    """Two log directories and their broker."""

    def __init__(self, scratch: Path, settings: dict[str, str]) -> None:
        self.paths = [scratch / "a", scratch / "b"]
        self.broker = BrokerProcess(scratch / "broker", {"num.partitions": "1", **settings})
        self.broker.data = Path(",".join(map(str, self.paths)))  # log.dirs

    @property
    def home(self) -> Path:
        (found,) = [each for each in self.paths if (each / LOG).is_dir()]
        return found

    @property
    def other(self) -> Path:
        (found,) = [each for each in self.paths if not (each / LOG).is_dir()]
        return found

    def copies(self) -> list[Path]:
        return [found for each in self.paths for found in each.glob(f"{LOG}.*-future")]

    def produce(self, first: int, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "enable.idempotence": True})
        for number in range(first, first + count):
            producer.produce(TOPIC, VALUE, key=str(number))
        assert producer.flush(HANG_S) == 0

    def keys(self, count: int) -> list[int]:
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "g"})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found: list[int] = []
        deadline_s = time.monotonic() + HANG_S
        while len(found) < count and time.monotonic() < deadline_s:
            found += [int(each.key()) for each in consumer.consume(1_000, 0.2) if not each.error()]
        consumer.close()
        return found


def wait_until(is_true: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + HANG_S
    while not is_true():
        assert time.monotonic() < deadline_s, "it did not come true"
        time.sleep(0.05)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    made = Disks(tmp_path, {RATE: "20000"})
    with made.broker:
        made.produce(0, RECORDS)
        yield made
        assert made.broker.faults() == []


def test_a_move_survives_kill_nine_and_ends(disks: Disks) -> None:
    source, target = disks.home, disks.other
    with ottla.Admin(bootstrap_servers=disks.broker.bootstrap_servers) as admin:
        admin.alter_replica_log_dirs({Replica(TOPIC, 0, 1): str(target)}, timeout=HANG_S)
        wait_until(disks.copies)
        disks.produce(RECORDS, 100)
    disks.broker.kill()
    disks.broker.start()
    assert disks.copies(), "the rate was to keep it on its way"
    disks.produce(RECORDS + 100, 100)
    with ottla.Admin(bootstrap_servers=disks.broker.bootstrap_servers) as admin:
        everyone = ConfigResource(ConfigResourceType.BROKER, "")
        admin.incremental_alter_configs({everyone: [AlterConfig(RATE, "1000000000")]})
    wait_until(lambda: (target / LOG).is_dir() and not (source / LOG).exists())
    assert not disks.copies()
    assert disks.keys(RECORDS + 200) == list(range(RECORDS + 200))
    disks.broker.kill()
    disks.broker.start()
    assert disks.keys(RECORDS + 200) == list(range(RECORDS + 200))


@pytest.mark.long
def test_javas_tools_move_and_show_it(disks: Disks, tmp_path: Path) -> None:
    java = JavaPrograms(jars_or_skip("4.3"), tmp_path, disks.broker.bootstrap_servers)
    source, target = disks.home, disks.other
    plan = {"topic": TOPIC, "partition": 0, "replicas": [1], "log_dirs": [str(target)]}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [plan]}))
    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    java.tool(tool, "--reassignment-json-file", str(file), "--execute")
    assert "is still in progress" in java.tool(tool, "--reassignment-json-file", str(file), "--verify")
    shown = java.tool("LogDirsCommand", "--describe", "--topic-list", TOPIC)
    (line,) = [each for each in shown.splitlines() if each.startswith("{")]
    copies = [
        each["isFuture"]
        for directory in json.loads(line)["brokers"][0]["logDirs"]
        for each in directory["partitions"]
        if each["partition"] == LOG
    ]
    assert sorted(copies) == [False, True]
    everyone = ["--entity-type", "brokers", "--entity-default"]
    java.tool("kafka.admin.ConfigCommand", "--alter", *everyone, "--add-config", f"{RATE}=1000000000")
    wait_until(lambda: (target / LOG).is_dir() and not (source / LOG).exists())
    assert "is complete" in java.tool(tool, "--reassignment-json-file", str(file), "--verify")
