"""One cluster of Apache Kafka 3.9 and Ottla where brokers log in at each other, and users of either side act on both.

Needs Java and Kafka's jars (tests/conformance/kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.patience import HANG_S, wait_until

from ottla import Admin, NewTopic, Producer
from ottla.client.admin.credentials import ScramUpsertion
from ottla.errors import OttlaError
from ottla.testing import KafkaBroker
from ottla.testing.zookeeper import missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from tests.cluster.mixed_cluster import KAFKAS_OWN, SMALL_JVM, STARTED
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.secure_broker import MODULE, free_ports

from ottla.cluster.store.zookeeper.server import ZooKeeperServer

pytestmark = pytest.mark.long

OURS, KAFKAS, MECHANISM = 0, 1, "SCRAM-SHA-512"
PLAIN = f'{MODULE}.plain.PlainLoginModule required username="admin" password="a" user_admin="a";'
COMMON = {
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
    "inter.broker.listener.name": "LOGIN",
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
    "listener.name.login.plain.sasl.jaas.config": PLAIN,
    "listener.name.login.scram-sha-512.sasl.jaas.config": (
        f'{MODULE}.scram.ScramLoginModule required username="broker" password="b-secret";'
    ),
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "2",
}


class Both(NamedTuple):
    """Where each side listens."""

    kafka: str
    ours: str

    def user(self, address: str, user: str, password: str, mechanism: str = MECHANISM) -> dict[str, str]:
        login = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
        return {"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT", **login}

    def admin(self, address: str) -> Admin:
        return Admin(self.user(address, "admin", "a", "PLAIN"))

    def lets_in(self, address: str, user: str, password: str) -> bool:
        try:
            with Admin(self.user(address, user, password)) as admin:
                admin.list_topics(timeout=HANG_S)
        except OttlaError:
            return False
        return True


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    jars, scratch = jars_or_skip("3.9"), tmp_path_factory.mktemp("logins")
    with ZooKeeperServer(scratch / "zookeeper") as zookeeper:
        make_broker_user(jars, zookeeper.connect)
        kafka, address = begin_kafka(jars, scratch, zookeeper.connect)
        try:
            wait_until(lambda: STARTED.search((scratch / "kafka.log").read_bytes()) is not None, "Kafka's start")
            listener = {"listeners": "LOGIN://127.0.0.1:0", "broker.id": OURS, "zookeeper.connect": zookeeper.connect}
            with KafkaBroker({**COMMON, **listener}, directory=scratch / "ours") as ours:
                yield Both(address, ours.bootstrap_servers)
        finally:
            kafka.kill()
            kafka.wait(HANG_S)


def make_broker_user(jars: Path, zookeeper: str) -> None:
    """As people do before the first broker is there: Kafka's tool writes to ZooKeeper."""
    how = ["--zookeeper", zookeeper, "--alter", "--entity-type", "users", "--entity-name", "broker"]
    change = ["--add-config", f"{MECHANISM}=[password=b-secret]"]
    command = ["java", *SMALL_JVM, "-cp", f"{jars}/*", "kafka.admin.ConfigCommand", *how, *change]
    subprocess.run(command, check=True, capture_output=True, timeout=HANG_S)


def begin_kafka(jars: Path, scratch: Path, zookeeper: str) -> tuple[subprocess.Popen[bytes], str]:
    (port,) = free_ports(1)
    settings = {
        **KAFKAS_OWN,
        **COMMON,
        "broker.id": KAFKAS,
        "listeners": f"LOGIN://127.0.0.1:{port}",
        "log.dirs": scratch / "kafka",
        "zookeeper.connect": zookeeper,
    }
    properties = scratch / "kafka.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = ["java", *SMALL_JVM, "-cp", f"{jars}/*", "kafka.Kafka", str(properties)]
    with (scratch / "kafka.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    return process, f"127.0.0.1:{port}"


@pytest.mark.parametrize("leader", [OURS, KAFKAS])
def test_each_side_logs_in_at_the_other_and_follows(both: Both, leader: int) -> None:
    topic, follower = f"led-by-{leader}", KAFKAS if leader == OURS else OURS
    with both.admin(both.kafka) as admin:
        admin.create_topics([NewTopic(topic, replica_assignments={0: [leader, follower]})])

        def is_copied() -> bool:
            found = admin.describe_topics([topic])[topic].partitions[0]
            return found.leader == leader and sorted(found.in_sync) == [OURS, KAFKAS]

        with Producer(both.user(f"{both.kafka},{both.ours}", "admin", "a", "PLAIN"), acks="all") as producer:
            for number in range(10):
                producer.send(topic, f"{number}".encode()).result(HANG_S)
        wait_until(is_copied, "both copies in sync")


@pytest.mark.parametrize("side", ["kafka", "ours"])
def test_a_user_made_on_one_side_logs_in_on_both(both: Both, side: str) -> None:
    with both.admin(getattr(both, side)) as admin:
        admin.alter_user_scram_credentials([ScramUpsertion(f"by-{side}", "pencil")])
    for address in both:
        wait_until(lambda address=address: both.lets_in(address, f"by-{side}", "pencil"), "a login")  # type: ignore[misc]
        assert not both.lets_in(address, f"by-{side}", "wrong")
