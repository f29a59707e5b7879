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

from ottla.testing import KafkaBroker

pytestmark = pytest.mark.long
if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

WAIT_S = 120
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
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": (
            f'{module} keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
        ),
        "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1-$2](robot-.*)s/-.*//,DEFAULT",
    }
    with KafkaBroker(settings) as made:
        yield made


def run(program: str, broker: KafkaBroker) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, broker.bootstrap_servers]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, env=os.environ, check=False)


def principals(broker: KafkaBroker) -> set[str]:
    return broker.call(lambda server: {each.principal for each in server._acceptor.connections})


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
