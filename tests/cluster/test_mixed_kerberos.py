"""One cluster of Apache Kafka 3.9 and Ottla where brokers log in at each other, and clients at both, with Kerberos.

Needs Java, Kafka's jars (tests/conformance/kafka_jars.py) and a KDC (tests/conformance/kerberos.py): run by
`make test-long`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.kerberos import REALM, Realm
from tests.conformance.kerberos import missing as realm_missing
from tests.patience import HANG_S, wait_until

from ottla import Admin, NewTopic, Producer
from ottla.testing import KafkaBroker
from ottla.testing.zookeeper import missing

if (REASON := missing() or realm_missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from tests.cluster.mixed_cluster import KAFKAS_OWN, SMALL_JVM, STARTED
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.secure_broker import free_ports

from ottla.cluster.store.zookeeper.server import ZooKeeperServer

pytestmark = pytest.mark.long

OURS, KAFKAS = 0, 1
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
COMMON = {
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
    "inter.broker.listener.name": "LOGIN",
    "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "2",
}


def settings_of(number: int, port: int, zookeeper: str, keytab: Path) -> dict[str, object]:
    """Both sides understand the same."""
    return {
        **COMMON,
        "broker.id": number,
        "listeners": f"LOGIN://127.0.0.1:{port}",
        "advertised.listeners": f"LOGIN://localhost:{port}",
        "zookeeper.connect": zookeeper,
        "listener.name.login.gssapi.sasl.jaas.config": (
            f'{MODULE} keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
        ),
    }


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with Realm(tmp_path_factory.mktemp("realm")) as made, pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        made.log_in("alice")
        yield made


@pytest.fixture(scope="module")
def addresses(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of each side."""
    jars, scratch = jars_or_skip("3.9"), tmp_path_factory.mktemp("tickets")
    keytab, (ours_port, kafkas_port) = realm.keytab("kafka/localhost"), free_ports(2)
    with ZooKeeperServer(scratch / "zookeeper") as zookeeper:
        theirs = {
            **KAFKAS_OWN,
            **settings_of(KAFKAS, kafkas_port, zookeeper.connect, keytab),
            "log.dirs": scratch / "kafka",
        }
        kafka = begin_kafka(realm, jars, scratch, theirs)
        try:
            wait_until(lambda: STARTED.search((scratch / "kafka.log").read_bytes()) is not None, "Kafka's start")
            ours = settings_of(OURS, ours_port, zookeeper.connect, keytab)
            with KafkaBroker(ours, directory=scratch / "ours"):
                yield f"localhost:{kafkas_port},localhost:{ours_port}"
        finally:
            kafka.kill()
            kafka.wait(HANG_S)


def begin_kafka(realm: Realm, jars: Path, scratch: Path, settings: dict[str, object]) -> subprocess.Popen[bytes]:
    properties = scratch / "kafka.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    kerberos = f"-Djava.security.krb5.conf={realm.environment['KRB5_CONFIG']}"
    command = ["java", *SMALL_JVM, kerberos, "-cp", f"{jars}/*", "kafka.Kafka", str(properties)]
    with (scratch / "kafka.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)


@pytest.mark.parametrize("leader", [OURS, KAFKAS])
def test_each_side_logs_in_at_the_other_with_a_ticket_and_follows(addresses: str, leader: int) -> None:
    topic, follower = f"led-by-{leader}", KAFKAS if leader == OURS else OURS
    user = {"bootstrap.servers": addresses, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    with Admin(user) as admin:
        admin.create_topics([NewTopic(topic, replica_assignments={0: [leader, follower]})], timeout=HANG_S)

        def is_copied() -> bool:
            found = admin.describe_topics([topic])[topic].partitions[0]
            return found.leader == leader and sorted(found.in_sync) == [OURS, KAFKAS]

        with Producer(user, acks="all") as producer:
            for number in range(10):
                producer.send(topic, f"{number}".encode()).result(HANG_S)
        wait_until(is_copied, "both copies in sync")
