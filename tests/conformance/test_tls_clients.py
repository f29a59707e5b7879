"""The clients of the field speak TLS with our broker, with and without a certificate of their own."""

from __future__ import annotations

import asyncio
import logging
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.helpers
import confluent_kafka
import kafka
import pytest
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.unit.net.tls_files import TlsFiles

import ottla
import ottla.aio
from ottla.broker.server import Server
from ottla.testing import KafkaBroker

WAIT_S = 120
KINDS = {"SSL": "none", "mTLS": "required"}


class Place:
    """A broker with one kind of TLS, and the files of its authority."""

    def __init__(self, broker: KafkaBroker, files: TlsFiles, is_mutual: bool) -> None:
        self.broker = broker
        self.files = files
        self.store = files.directory / "alice.pem" if is_mutual else None

    @property
    def address(self) -> str:
        return self.broker.bootstrap_servers

    def principals(self) -> set[str]:
        def look(server: Server) -> set[str]:
            return {each.principal for each in server.listeners.acceptor.connections}

        return self.broker.call(look)


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    files = TlsFiles(tmp_path_factory.mktemp("tls"))
    files.issue("alice")
    settings = files.broker_settings(ssl_client_auth=KINDS[request.param])
    with KafkaBroker(settings) as broker:
        made = Place(broker, files, request.param == "mTLS")
        with ottla.Admin(**ours(made)) as admin:
            admin.create_topics([ottla.NewTopic("clicks", 1, 1)])
        yield made


def ours(place: Place) -> dict[str, Any]:
    store = "alice" if place.store else None
    return {"bootstrap_servers": place.address, **place.files.client_settings(store)}


# --- one function for each client: it writes a record, reads it, and gives its value ---------------------------------


def with_ottla(place: Place) -> bytes:
    with ottla.Producer(**ours(place)) as producer:
        sent = producer.send("clicks", b"from ottla").result(WAIT_S)
    with ottla.Consumer(**ours(place)) as consumer:
        consumer.assign([("clicks", 0)])
        consumer.seek(("clicks", 0), sent.offset)
        return bytes(next(iter(consumer.poll(WAIT_S))).value)


def with_ottla_aio(place: Place) -> bytes:
    async def run() -> bytes:
        async with ottla.aio.Producer(**ours(place)) as producer:
            sent = await (await producer.send("clicks", b"from ottla.aio"))
        async with ottla.aio.Consumer(**ours(place)) as consumer:
            await consumer.assign([("clicks", 0)])
            consumer.seek(("clicks", 0), sent.offset)
            return bytes(next(iter(await consumer.poll(WAIT_S))).value)

    return asyncio.run(run())


def with_confluent(place: Place) -> bytes:
    settings: dict[str, Any] = {
        "bootstrap.servers": place.address,
        "security.protocol": "SSL",
        "ssl.ca.location": str(place.files.ca),
        "logger": logging.getLogger("silent"),
    }
    if place.store:
        settings |= {"ssl.certificate.location": str(place.store), "ssl.key.location": str(place.store)}
    producer = confluent_kafka.Producer(settings)
    delivered: list[Any] = []
    producer.produce("clicks", b"from confluent", on_delivery=lambda error, message: delivered.append(message))
    assert producer.flush(WAIT_S) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": "any"})
    consumer.assign([confluent_kafka.TopicPartition("clicks", 0, delivered[0].offset())])
    try:
        return bytes(consumer.poll(WAIT_S).value())
    finally:
        consumer.close()


def with_kafka_python(place: Place) -> bytes:
    own = {"ssl_certfile": str(place.store), "ssl_keyfile": str(place.store)} if place.store else {}
    settings = {
        "bootstrap_servers": place.address,
        "security_protocol": "SSL",
        "ssl_cafile": str(place.files.ca),
        **own,
    }
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


def with_aiokafka(place: Place) -> bytes:
    store = str(place.store) if place.store else None
    context = aiokafka.helpers.create_ssl_context(cafile=str(place.files.ca), certfile=store, keyfile=store)
    settings = {"bootstrap_servers": place.address, "security_protocol": "SSL", "ssl_context": context}

    async def run() -> bytes:
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            sent = await producer.send_and_wait("clicks", b"from aiokafka")
        consumer = aiokafka.AIOKafkaConsumer(**settings)
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition("clicks", 0)])
            consumer.seek(aiokafka.TopicPartition("clicks", 0), sent.offset)
            return bytes((await consumer.getone()).value)
        finally:
            await consumer.stop()

    return asyncio.run(run())


CLIENTS: dict[str, Callable[[Place], bytes]] = {
    "ottla": with_ottla,
    "ottla.aio": with_ottla_aio,
    "confluent": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_writes_and_reads_by_tls(place: Place, client: str) -> None:
    assert CLIENTS[client](place) == f"from {client}".encode()


def test_who_shows_a_certificate_is_known_by_it(place: Place) -> None:
    with ottla.Producer(**ours(place)) as producer:
        producer.send("clicks", b"x").result(WAIT_S)
        assert place.principals() == {"User:CN=alice" if place.store else "User:ANONYMOUS"}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["PEM", "JKS", "PKCS12"])
def test_javas_clients_write_and_read_by_tls(place: Place, tmp_path: Path, kind: str) -> None:
    """A producer, a consumer and an admin client of Apache Kafka, with stores of every form."""
    java = JavaPrograms(jars_or_skip("4.3"), tmp_path, place.address)
    config = tmp_path / "client.properties"
    config.write_text(java_settings(place, tmp_path, kind))
    with ottla.Admin(**ours(place)) as admin:
        admin.create_topics([ottla.NewTopic(kind, 1, 1)])
    numbers = f"--topic {kind} --num-records 100 --record-size 1000 --throughput -1"
    own = ["--command-config", str(config), "--command-property", f"bootstrap.servers={place.address}"]
    java.run("org.apache.kafka.tools.ProducerPerformance", *numbers.split(), *own)
    told = java.tool("GetOffsetShell", "--command-config", str(config), "--topic", kind)
    assert told.split() == [f"{kind}:0:100"]
    more = f"--topic {kind} --from-beginning --max-messages 100 --command-config {config}"
    printed = java.tool("consumer.ConsoleConsumer", *more.split())
    assert len(printed.split()) == 100


def java_settings(place: Place, directory: Path, kind: str) -> str:
    """client.properties with stores of this form; those that are not PEM are made by keytool."""
    lines = ["security.protocol=SSL", f"ssl.truststore.type={kind}", f"ssl.keystore.type={kind}"]
    if kind == "PEM":
        lines.append(f"ssl.truststore.location={place.files.ca}")
        return "\n".join([*lines, f"ssl.keystore.location={place.store}"] if place.store else lines[:2] + lines[3:])
    trust, store = directory / "trust", directory / "store"
    secret = ["-storepass", "secret-secret"]
    keytool("-importcert", "-alias", "ca", "-file", place.files.ca, "-keystore", trust, "-storetype", kind, *secret)
    lines += [f"ssl.truststore.location={trust}", "ssl.truststore.password=secret-secret"]
    if place.store is not None:
        made = ["-in", place.store, "-out", directory / "p12", "-passout", "pass:secret-secret"]
        subprocess.run(["openssl", "pkcs12", "-export", *made], check=True)
        source = ["-srckeystore", directory / "p12", "-srcstoretype", "PKCS12", "-srcstorepass", "secret-secret"]
        target = ["-destkeystore", store, "-deststoretype", kind, "-deststorepass", "secret-secret"]
        keytool("-importkeystore", *source, *target)
        lines += [f"ssl.keystore.location={store}", "ssl.keystore.password=secret-secret"]
        lines += ["ssl.key.password=secret-secret"]
    return "\n".join(lines)


def keytool(*arguments: object) -> None:
    command = ["keytool", arguments[0], "-noprompt", *arguments[1:]]
    subprocess.run([str(each) for each in command], check=True, capture_output=True)
