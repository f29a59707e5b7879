"""The clients of the field log in at our broker, with every mechanism that they know: write, read, and be refused."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import confluent_kafka
import jwt
import kafka
import kafka.errors
import kafka.net.sasl.oauth
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

import ottla
from ottla.client.admin.credentials import ScramMechanism, ScramUpsertion
from ottla.clock import SystemClock
from ottla.errors import SaslAuthenticationFailed
from ottla.testing import KafkaBroker

WAIT_S = 120
MODULE = "org.apache.kafka.common.security"
PLAIN_JAAS = f'{MODULE}.plain.PlainLoginModule required user_alice="a, \\"=;\\\\ pw" user_admin="admin";'
PASSWORD = 'a, "=;\\ pw'
KEY = ec.generate_private_key(ec.SECP256R1())
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


def token(sub: str = "alice", life_s: int = 300) -> str:
    now_s = SystemClock().now_ms() // 1000
    claims = {"sub": sub, "iat": now_s, "exp": now_s + life_s, "aud": "ottla", "scope": "kafka"}
    return jwt.encode(claims, KEY, "ES256")


def login_settings(directory: Path) -> dict[str, object]:
    """A listener with every mechanism; the keys of tokens are kept in the directory."""
    keys = directory / "jwks.json"
    keys.write_text(json.dumps({"keys": [ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)]}))
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_JAAS,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "ottla.oauthbearer.allowed.urls": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "ottla",
        "connection.failed.authentication.delay.ms": 1,
    }


def make_users(broker: KafkaBroker) -> None:
    """alice, for SCRAM, and a topic."""
    with ottla.Admin(**ours(broker, "PLAIN", user="admin", password="admin")) as client:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            client.alter_user_scram_credentials([ScramUpsertion("alice", PASSWORD, mechanism=mechanism)])
        client.create_topics([ottla.NewTopic("clicks", 1, 1)])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(login_settings(tmp_path_factory.mktemp("keys"))) as made:
        make_users(made)
        yield made


def ours(broker: KafkaBroker, mechanism: str, *, user: str = "alice", password: str = PASSWORD) -> dict[str, Any]:
    base = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return base | {"sasl_oauthbearer_token_provider": lambda: token() if password == PASSWORD else "no.good.token"}
    return base | {"sasl_username": user, "sasl_password": password}


# --- one function for each client: it writes a record, reads it, and gives its value -------------------------------


def with_ottla(broker: KafkaBroker, mechanism: str, password: str) -> bytes:
    settings = ours(broker, mechanism, password=password)
    with ottla.Producer(**settings) as producer:
        sent = producer.send("clicks", b"from ottla").result(WAIT_S)
    with ottla.Consumer(**settings) as consumer:
        consumer.assign([("clicks", 0)])
        consumer.seek(("clicks", 0), sent.offset)
        return bytes(next(iter(consumer.poll(WAIT_S))).value)


def with_confluent(broker: KafkaBroker, mechanism: str, password: str) -> bytes:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "logger": logging.getLogger("silent"),
    }
    errors: list[Any] = []
    settings["error_cb"] = errors.append
    if mechanism == "OAUTHBEARER":
        good = password == PASSWORD
        settings["oauth_cb"] = lambda _: (token() if good else "no.good.token", SystemClock().now_ms() / 1000 + 300)
    else:
        settings |= {"sasl.username": "alice", "sasl.password": password}
    producer = confluent_kafka.Producer(settings)
    delivered: list[Any] = []
    producer.produce("clicks", b"from confluent", on_delivery=lambda error, message: delivered.append(message))
    while not delivered:
        producer.poll(0.1)
        if any(each.code() == confluent_kafka.KafkaError._AUTHENTICATION for each in errors):
            producer.purge()
            raise SaslAuthenticationFailed(str(errors))
    consumer = confluent_kafka.Consumer({**settings, "group.id": "any"})
    consumer.assign([confluent_kafka.TopicPartition("clicks", 0, delivered[0].offset())])
    try:
        return bytes(consumer.poll(WAIT_S).value())
    finally:
        consumer.close()


class KafkaPythonTokens(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
    value = ""

    def token(self) -> str:
        return self.value or token()


class AiokafkaTokens(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    value = ""

    async def token(self) -> str:
        return self.value or token()


def theirs(broker: KafkaBroker, mechanism: str, password: str, provider: Any) -> dict[str, Any]:
    """For kafka-python and aiokafka."""
    found: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        provider.value = "" if password == PASSWORD else "no.good.token"
        return found | {"sasl_oauth_token_provider": provider}
    return found | {"sasl_plain_username": "alice", "sasl_plain_password": password}


def with_kafka_python(broker: KafkaBroker, mechanism: str, password: str) -> bytes:
    settings = theirs(broker, mechanism, password, KafkaPythonTokens())
    if password != PASSWORD:
        raise SaslAuthenticationFailed(refusal_of_kafka_python(settings))
    producer = kafka.KafkaProducer(**settings)
    sent = producer.send("clicks", b"from kafka-python").get(WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(**settings)
    consumer.assign([kafka.TopicPartition("clicks", 0)])
    consumer.seek(kafka.TopicPartition("clicks", 0), sent.offset)
    try:
        return bytes(next(consumer).value)
    finally:
        consumer.close()


def refusal_of_kafka_python(settings: dict[str, Any]) -> str:
    """In a process of its own: it tries again until its time is over, and leaves sockets open when it gives up."""
    settings = {name: value for name, value in settings.items() if name != "sasl_oauth_token_provider"}
    program = f"""
import kafka, kafka.errors, kafka.net.sasl.oauth
class Tokens(kafka.net.sasl.oauth.AbstractTokenProvider):
    def token(self):
        return "no.good.token"
settings = {settings!r}
if settings["sasl_mechanism"] == "OAUTHBEARER":
    settings["sasl_oauth_token_provider"] = Tokens()
try:
    kafka.KafkaProducer(**settings, bootstrap_timeout_ms=2_000)
except kafka.errors.KafkaError as error:
    print("refused:", error)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert "refused:" in ran.stdout, ran.stderr
    return ran.stdout


def with_aiokafka(broker: KafkaBroker, mechanism: str, password: str) -> bytes:
    async def run() -> bytes:
        settings = theirs(broker, mechanism, password, AiokafkaTokens())
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
            sent = await producer.send_and_wait("clicks", b"from aiokafka")
        except aiokafka.errors.KafkaError as error:
            raise SaslAuthenticationFailed(str(error)) from None
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(**settings)
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition("clicks", 0)])
            consumer.seek(aiokafka.TopicPartition("clicks", 0), sent.offset)
            found = await consumer.getone()
            return bytes(found.value)
        finally:
            await consumer.stop()

    return asyncio.run(run())


CLIENTS: dict[str, Callable[[KafkaBroker, str, str], bytes]] = {
    "ottla": with_ottla,
    "confluent": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_that_logs_in_writes_and_reads(broker: KafkaBroker, client: str, mechanism: str) -> None:
    assert CLIENTS[client](broker, mechanism, PASSWORD) == f"from {client}".encode()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_with_a_wrong_secret_is_refused(broker: KafkaBroker, client: str, mechanism: str) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        CLIENTS[client](broker, mechanism, "wrong")
