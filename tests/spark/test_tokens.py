"""Jobs with delegation tokens: a password on the driver, tokens for the tasks, and a query that outlives its tokens.

Real Spark and a broker of ours with logins. The password is a canary: whatever reaches a task is searched for it.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.canaries import Canaries
from tests.patience import HANG_S
from tests.spark.running import why_not
from tests.unit.net.tls_files import TlsFiles

from ottla import Admin, Producer
from ottla.spark import hand_out_tokens
from ottla.spark.tokens.driver import stop_handing_out
from ottla.spark.tokens.handout import read_tokens
from ottla.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAMS = Path(__file__).with_name("programs")
CANARY = secrets.token_urlsafe(24)
MODULE = "org.apache.kafka.common.security"


def settings(expiry_ms: int, life_ms: int) -> dict[str, object]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required"
        f' username="alice" password="{CANARY}" user_alice="{CANARY}";',
        "delegation.token.secret.key": "shared by all brokers",
        "delegation.token.expiry.time.ms": expiry_ms,
        "delegation.token.max.lifetime.ms": life_ms,
    }


def login(broker: KafkaBroker, protocol: str = "SASL_PLAINTEXT") -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": protocol,
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": CANARY,
    }


def hand_out(
    spark: SparkSession,
    broker: KafkaBroker,
    protocol: str = "SASL_PLAINTEXT",
    trusted: Mapping[str, str] = MappingProxyType({}),
) -> None:
    asking = {name: value for name, value in login(broker).items() if name.startswith("sasl.")}
    cluster = {
        "auth.bootstrap.servers": broker.bootstrap_servers,
        "target.bootstrap.servers.regex": broker.bootstrap_servers.replace(".", r"\."),
        "security.protocol": protocol,
        **trusted,
        **{f"kafka.{name}": value for name, value in asking.items()},
    }
    hand_out_tokens(spark, {f"spark.kafka.clusters.main.{name}": value for name, value in cluster.items()})


@pytest.fixture
def secured(spark: SparkSession) -> Iterator[KafkaBroker]:
    with KafkaBroker(settings(86_400_000, 604_800_000)) as broker:
        hand_out(spark, broker)
        yield broker
        stop_handing_out()


def as_options(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in settings.items()}


def fill(
    broker: KafkaBroker,
    topic: str,
    *values: str,
    protocol: str = "SASL_PLAINTEXT",
    trusted: Mapping[str, str] = MappingProxyType({}),
) -> None:
    with Producer({**login(broker, protocol), **trusted}) as producer:
        for value in values:
            producer.send(topic, value.encode())
        producer.flush(HANG_S)


def values_in(
    spark: SparkSession, broker: KafkaBroker, topic: str, trusted: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    options = as_options({"bootstrap.servers": broker.bootstrap_servers, **trusted})
    rows = spark.read.format("ottla").options(**options, subscribe=topic)
    return sorted(row.value for row in rows.load().selectExpr("cast(value as string) as value").collect())


def forms(secret: str) -> list[bytes]:
    raw = secret.encode()
    return [raw, base64.b64encode(raw).rstrip(b"="), raw.hex().encode()]


def test_a_job_reads_and_writes_with_tokens_only(spark: SparkSession, secured: KafkaBroker, tmp_path: Path) -> None:
    fill(secured, "in", "a", "b")
    servers = {"kafka.bootstrap.servers": secured.bootstrap_servers}
    rows = spark.read.format("ottla").options(**servers, subscribe="in").load()
    rows.selectExpr("upper(cast(value as string)) as value").write.format("ottla").options(**servers, topic="out").mode(
        "append"
    ).save()
    assert values_in(spark, secured, "out") == ["A", "B"]
    stream = spark.readStream.format("ottla").options(**servers, subscribe="in", startingOffsets="earliest").load()
    query = (
        stream.selectExpr("cast(value as string) || '!' as value")
        .writeStream.format("ottla")
        .options(**servers, topic="streamed", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(HANG_S)
    assert values_in(spark, secured, "streamed") == ["a!", "b!"]
    assert only_tokens_were_used(secured)


def only_tokens_were_used(broker: KafkaBroker) -> bool:
    """Whoever logged in by password was the driver; the tokens of the job are there while it runs."""
    with Admin(login(broker)) as admin:
        return [str(each.owner) for each in admin.describe_delegation_tokens(timeout=HANG_S)] == ["User:alice"]


def test_nothing_of_the_password_reaches_a_task(spark: SparkSession, secured: KafkaBroker) -> None:
    from pyspark import SparkFiles
    from pyspark.serializers import CloudPickleSerializer, CPickleSerializer
    from pyspark.sql.streaming.datasource import ReadAllAvailable
    from pyspark.sql.types import BinaryType, StructField, StructType

    from ottla.spark.datasource import OttlaSource

    fill(secured, "canary", "x")
    servers = {"kafka.bootstrap.servers": secured.bootstrap_servers}
    source = OttlaSource({**servers, "subscribe": "canary", "startingOffsets": "earliest"})
    sink = OttlaSource({**servers, "topic": "canary"})
    rows = StructType([StructField("value", BinaryType())])
    batch, stream = source.reader(source.schema()), source.streamReader(source.schema())
    start = stream.initialOffset()
    sent = [
        *(batch, *batch.partitions(), stream, sink.writer(rows, False), sink.streamWriter(rows, False)),
        *stream.partitions(start, stream.latestOffset(start, ReadAllAvailable())),
    ]
    stream.stop()
    pickled = b"".join(CloudPickleSerializer().dumps(each) + CPickleSerializer().dumps(each) for each in sent)

    def what_a_task_sees(_: int) -> bytes:
        kept = Path("/proc/self/environ")
        return repr(dict(os.environ)).encode() + (kept.read_bytes() if kept.exists() else b"")

    (seen,) = spark.sparkContext.parallelize([0], 1).map(what_a_task_sees).collect()
    configured = repr(spark.sparkContext.getConf().getAll()).encode()
    files = b"".join(each.read_bytes() for each in Path(SparkFiles.getRootDirectory()).iterdir() if each.is_file())
    for form in forms(CANARY):
        assert form not in pickled + seen + configured + files
    assert b"tokenauth" in pickled


def test_a_query_that_has_a_password_of_its_own_is_refused(spark: SparkSession, secured: KafkaBroker) -> None:
    options = {f"kafka.{name}": value for name, value in login(secured).items()}
    with pytest.raises(Exception, match="options of a query travel to the executors") as refused:
        spark.read.format("ottla").options(**options, subscribe="in").load().collect()
    assert CANARY not in str(refused.value)


@pytest.mark.matrix(
    "PySpark 4.3, local, SASL_SSL: a stream that outlives its delegation token ({expiry_ms}/{life_ms} ms)"
)
@pytest.mark.long
@pytest.mark.parametrize(("expiry_ms", "life_ms"), [(60_000, 600_000), (120_000, 120_000)], ids=["renewed", "replaced"])
def test_a_query_outlives_its_token(spark: SparkSession, tmp_path: Path, expiry_ms: int, life_ms: int) -> None:
    """So long that a busy machine has done its first batch before the first token ends."""
    tls = TlsFiles(tmp_path)
    encrypted = {**settings(expiry_ms, life_ms), **tls.broker_settings("SASL_SSL")}
    encrypted["listener.name.sasl_ssl.plain.sasl.jaas.config"] = encrypted.pop(
        "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    )
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(tls.ca)}
    with KafkaBroker(encrypted) as broker, Admin({**login(broker, "SASL_SSL"), **trusted}) as admin:
        admin.create_topics(["long", "copied"], timeout=HANG_S)
        hand_out(spark, broker, "SASL_SSL", trusted)
        try:
            (first,) = admin.describe_delegation_tokens(timeout=HANG_S)
            fill(broker, "long", "0", protocol="SASL_SSL", trusted=trusted)
            query = copying(spark, broker, tmp_path / "checkpoint", trusted)
            wait_for(lambda: values_in(spark, broker, "copied", trusted) == ["0"] or query.exception())
            wait_for(lambda: time.time() * 1000 > first.expiry_timestamp_ms + 1_000)
            fill(broker, "long", "1", protocol="SASL_SSL", trusted=trusted)
            wait_for(lambda: values_in(spark, broker, "copied", trusted) == ["0", "1"] or query.exception())
            assert query.exception() is None
            assert (first.token_id in handed()) is (life_ms > expiry_ms)
            query.stop()
        finally:
            stop_handing_out()
        left = {each.token_id for each in admin.describe_delegation_tokens(timeout=HANG_S)}
        assert left <= {first.token_id}, "the last one was ended; the first may be listed until it is swept up"


def copying(spark: SparkSession, broker: KafkaBroker, checkpoint: Path, trusted: Mapping[str, str]) -> Any:
    servers = as_options({"bootstrap.servers": broker.bootstrap_servers, **trusted})
    rows = spark.readStream.format("ottla").options(**servers, subscribe="long", startingOffsets="earliest").load()
    writer = rows.selectExpr("value").writeStream.format("ottla").options(**servers, topic="copied")
    return writer.option("checkpointLocation", str(checkpoint)).start()


@pytest.mark.long
def test_spark_shows_no_secret_of_a_job(tmp_path: Path) -> None:
    """Event log, UI with its dumps of threads, checkpoint, local files, plans and everything printed, of a job in a
    process of its own. Its tokens are searched for, too, but in local files: there the tasks find them."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    watched, noted = tmp_path / "watched", tmp_path / "tokens"
    for name in ("events", "local"):
        (watched / name).mkdir(parents=True)
    canaries = Canaries()
    canaries.add("password", CANARY.encode())
    stores = ("keystore", "truststore", "key")
    more = {f"kafka.ssl.{name}.password": canaries.new(f"ssl.{name}.password") for name in stores}
    with KafkaBroker(settings(86_400_000, 604_800_000)) as broker:
        about = {"password": CANARY, "servers": broker.bootstrap_servers, "more": more, "tokens": str(noted)}
        command = [sys.executable, str(PROGRAMS / "with_tokens.py"), str(watched)]
        done = subprocess.run(command, input=json.dumps(about).encode(), capture_output=True, timeout=4 * HANG_S)
    assert b"done" in done.stdout, done.stderr[-3000:]
    shown = {str(path): path.read_bytes() for path in watched.rglob("*") if path.is_file()}
    shown["printed"] = done.stdout + done.stderr
    assert any(b"SparkListenerApplicationEnd" in data for data in shown.values()), "the event log is among them"
    assert any("/ui/" in name and b"java.lang" in data for name, data in shown.items()), "and a dump of threads"
    for name, data in shown.items():
        canaries.watch(name, data)
    assert canaries.found() == []
    tokens = Canaries()
    for number, hmac in enumerate(json.loads(noted.read_text())):
        tokens.add(f"HMAC {number}", bytes.fromhex(hmac))
        tokens.add(f"HMAC {number} as a password", base64.b64encode(bytes.fromhex(hmac)))
    assert tokens.secrets
    for name, data in shown.items():
        if "/local/" not in name:
            tokens.watch(name, data)
    assert tokens.found() == []


def handed() -> str:
    from pyspark import SparkFiles

    (only,) = read_tokens(Path(SparkFiles.getRootDirectory()))
    return only.jaas_config


def wait_for(happens: Any) -> Any:
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        if found := happens():
            return found
        time.sleep(0.05)
    raise TimeoutError("it did not happen")
