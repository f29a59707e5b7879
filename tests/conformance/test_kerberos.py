"""Logins with Kerberos: a real KDC, and clients of the field with a ticket. Long, because it starts a realm."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.kerberos import REALM, Realm, missing

from ottla import Admin, NewTopic, Producer
from ottla.broker.settings import BrokerSettings
from ottla.cluster.store.zookeeper.connecting import connection_from
from ottla.errors import AuthenticationFailed
from ottla.net.sasl.kerberos_login import KerberosLogin
from ottla.testing import KafkaBroker, KafkaCluster
from ottla.testing.zookeeper import ZooKeeperServer
from ottla.testing.zookeeper import missing as zookeeper_missing

pytestmark = pytest.mark.long
if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

WAIT_S = 120
MISSING_ZOOKEEPER = zookeeper_missing()
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
SETTINGS = """
settings = dict(
    bootstrap_servers=sys.argv[1], security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI",
    sasl_kerberos_service_name="kafka", sasl_kerberos_domain_name="localhost",
)
"""
KAFKA_PYTHON = f"""
import sys, kafka
{SETTINGS}
producer = kafka.KafkaProducer(**settings, bootstrap_timeout_ms=20_000)
print("sent", producer.send("clicks", b"hello").get(60).topic)
producer.close()
"""
AIOKAFKA = f"""
import asyncio, sys, aiokafka
{SETTINGS}
async def main():
    producer = aiokafka.AIOKafkaProducer(**settings)
    try:
        await producer.start()
        print("sent", (await producer.send_and_wait("clicks", b"hello")).topic)
    finally:
        await producer.stop()
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with Realm(tmp_path_factory.mktemp("realm")) as made:
        yield made


@pytest.fixture
def broker(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaBroker]:
    for name, value in realm.environment.items():
        monkeypatch.setenv(name, value)
    keytab = realm.directory / "kafka-localhost.keytab"
    if not keytab.exists():
        realm.keytab("kafka/localhost")
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": (
            f'{MODULE} keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
        ),
        "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1-$2](robot-.*)s/-.*//,DEFAULT",
    }
    with KafkaBroker(settings) as made:
        yield made


def run(program: str, broker: KafkaBroker) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, broker.bootstrap_servers]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, env=os.environ, check=False)


def principals(broker: KafkaBroker) -> set[str]:
    return broker.call(lambda server: {each.principal for each in server.listeners.acceptor.connections})


@pytest.mark.parametrize("program", [KAFKA_PYTHON, AIOKAFKA], ids=["kafka-python", "aiokafka"])
def test_a_client_with_a_ticket_logs_in(realm: Realm, broker: KafkaBroker, program: str) -> None:
    realm.log_in("alice")
    ran = run(program, broker)
    assert ran.stdout == "sent clicks\n", ran.stderr


def test_a_client_without_a_ticket_does_not(realm: Realm, broker: KafkaBroker) -> None:
    Path(realm.environment["KRB5CCNAME"].removeprefix("FILE:")).unlink(missing_ok=True)
    ran = run(AIOKAFKA, broker)
    assert ran.returncode != 0
    assert "sent" not in ran.stdout


@pytest.mark.parametrize(("principal", "user"), [("alice", "User:alice"), ("robot/host", "User:robot")])
def test_the_user_is_the_short_name(realm: Realm, broker: KafkaBroker, principal: str, user: str) -> None:
    import gssapi
    from tests.unit.broker.security.logins import handshake, token, told

    from ottla.broker.security.login import Reply

    realm.log_in(principal)
    host, _, port = broker.bootstrap_servers.partition(":")

    async def log_in() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))

        async def ask(frame: memoryview) -> bytes:
            writer.write(len(frame).to_bytes(4) + frame)
            return await reader.readexactly(int.from_bytes(await reader.readexactly(4)))

        async def step(content: bytes) -> bytes:
            answer = told(Reply([await ask(token(content))]))
            assert answer.error_code == 0, answer
            return bytes(answer.auth_bytes)

        await ask(handshake("GSSAPI"))
        name = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(name=name, usage="initiate")
        said = context.step() or b""
        while not context.complete:
            said = context.step(await step(said)) or b""
        offer = context.unwrap(await step(said)).message
        assert offer == b"\x01\0\0\0"
        await step(context.wrap(offer, False).message)
        assert principals(broker) == {user}
        writer.close()
        await writer.wait_closed()

    asyncio.run(log_in())


# --- brokers among themselves ---------------------------------------------------------------------------------------


@pytest.fixture
def cluster(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaCluster]:
    """Three brokers that know each other by their tickets only; a principal of its own for each would need a host for
    each, so they share one."""
    for name, value in realm.environment.items():
        monkeypatch.setenv(name, value)
    realm.log_in("alice")  # the KDC answers
    keytab = realm.keytab("kafka/127.0.0.1")
    listener = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        listener: f'{MODULE} keyTab="{keytab}" principal="kafka/127.0.0.1@{REALM}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:kafka;User:alice",
    }
    with KafkaCluster(3, settings) as made:
        yield made


def test_brokers_log_in_at_each_other_with_tickets(cluster: KafkaCluster) -> None:
    user = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
    }
    with Admin(**user) as admin:
        admin.create_topics([NewTopic("clicks", 3, 3)], timeout=WAIT_S)
    with Producer(**user, acks="all") as producer:
        for number in range(60):
            producer.send("clicks", str(number).encode(), partition=number % 3).result(WAIT_S)
        stopped = cluster.leader_of("clicks", 0)
        cluster.stop_broker(stopped)
        cluster.start_broker(stopped)
        cluster.wait_for_copies("clicks", 3)
        producer.send("clicks", b"60", partition=0).result(WAIT_S)
    cluster.check_replicas("clicks", 3)
    servers = [cluster.server(each) for each in cluster.running]
    principals = cluster.call(lambda: {each.principal for one in servers for each in one._acceptor.connections})
    assert "User:kafka" in principals
    assert principals <= {"User:kafka", "User:alice"}


def test_an_old_key_gets_no_ticket(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker whose keytab is older than the key that the realm has now is refused with the library's words."""
    for name, value in realm.environment.items():
        monkeypatch.setenv(name, value)
    realm.log_in("alice")  # the KDC answers
    kept = tmp_path / "old.keytab"
    kept.write_bytes(realm.keytab("kafka/127.0.0.2").read_bytes())
    realm.keytab("kafka/127.0.0.2")  # has a new key now
    login = KerberosLogin("kafka", principal=f"kafka/127.0.0.2@{REALM}", keytab=str(kept))
    with pytest.raises(AuthenticationFailed, match="Kerberos: "):
        asyncio.run(login.prepare("127.0.0.1"))


# --- at ZooKeeper ---------------------------------------------------------------------------------------------------


def zookeeper_jaas(keytab: Path) -> str:
    return f'''Server {{ {MODULE} keyTab="{keytab}" principal="zookeeper/127.0.0.1@{REALM}"; }};\n'''


@pytest.mark.skipif(MISSING_ZOOKEEPER is not None, reason=str(MISSING_ZOOKEEPER))
@pytest.mark.parametrize("source", ["keytab", "ticket cache"])
def test_a_broker_logs_in_at_zookeeper_with_a_ticket(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoAuthError

    from ottla.cluster.store.zookeeper.store import ZooKeeperStore

    for name, value in realm.environment.items():
        monkeypatch.setenv(name, value)
    realm.log_in("kafka/127.0.0.1")
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(zookeeper_jaas(realm.keytab("zookeeper/127.0.0.1")))
    values = {
        "zookeeper.set.acl": "true",
        "ottla.zookeeper.sasl.mechanism": "GSSAPI",
        "ottla.zookeeper.sasl.username": f"kafka/127.0.0.1@{REALM}",
    }
    if source == "keytab":
        values["ottla.zookeeper.sasl.keytab"] = str(realm.directory / "kafka-127.0.0.1.keytab")
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none'}")
    with ZooKeeperServer(
        tmp_path / "zk",
        extra=[
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "kerberos.removeHostFromPrincipal=true",
            "kerberos.removeRealmFromPrincipal=true",
        ],
        java_options=[
            f"-Djava.security.auth.login.config={jaas}",
            f"-Djava.security.krb5.conf={realm.environment['KRB5_CONFIG']}",
        ],
    ) as server:
        store = ZooKeeperStore(connection_from(BrokerSettings({"zookeeper.connect": server.connect, **values})))
        store.load()
        store.close()
        stranger = KazooClient(server.connect)
        stranger.start()
        try:
            acls = stranger.get_acls("/brokers/ids")[0]
            assert {("sasl", "kafka")} == {(each.id.scheme, each.id.id) for each in acls if each.id.scheme == "sasl"}
            with pytest.raises(NoAuthError):
                stranger.create("/brokers/ids/7", b"")
        finally:
            stranger.stop()
            stranger.close()
