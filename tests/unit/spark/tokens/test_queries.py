"""Source and sink with tokens that come and go, without Spark itself: what it would call, in one process.

The same with Spark and with time that passes is in tests/spark/test_tokens.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla.client.admin.admin import Admin
from ottla.client.admin.credentials import DelegationToken
from ottla.client.producer.producer import Producer
from ottla.spark.tokens.handout import HandedToken, write_tokens
from ottla.testing import KafkaBroker

pyspark = pytest.importorskip("pyspark")
pyarrow = pytest.importorskip("pyarrow")

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required username="a" password="a" user_a="a";',
    "delegation.token.secret.key": "secret",
    "connection.failed.authentication.delay.ms": "0",
}


class Place:
    """A broker, somebody with a password, and a driver's directory with the token of now."""

    def __init__(self, broker: KafkaBroker, directory: Path) -> None:
        self.servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        self.login = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "a",
            "sasl.password": "a",
        }
        self.admin = Admin(self.login)
        self.directory = directory
        self.token: DelegationToken | None = None

    def next_token(self) -> str:
        """Another token is handed out, and the one before is good for nothing any more; gives its id."""
        before, self.token = self.token, self.admin.create_delegation_token(timeout=HANG_S)
        jaas_config = self.token.login_settings()["sasl.jaas.config"]
        write_tokens(self.directory, [HandedToken("main", ".*", "SASL_PLAINTEXT", "SCRAM-SHA-512", jaas_config)])
        if before is not None:
            self.admin.expire_delegation_token(before.hmac, timeout=HANG_S)
        return self.token.token_id

    def fill(self, topic: str, *values: str) -> None:
        with Producer(self.login) as producer:
            for value in values:
                producer.send(topic, value.encode())
            producer.flush(HANG_S)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    from pyspark import SparkFiles

    from ottla.spark.sink.clients import close_sink_clients
    from ottla.spark.source import range_reading

    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    with KafkaBroker(SETTINGS) as broker:
        made = Place(broker, tmp_path)
        yield made
        close_sink_clients()
        range_reading._kept.close()
        made.admin.close()


def source(place: Place) -> Any:
    from ottla.spark.datasource import OttlaSource

    return OttlaSource({**place.servers, "subscribe": "clicks", "startingOffsets": "earliest"})


def values(reader: Any, tasks: Any) -> list[bytes]:
    return [value for task in tasks for batch in reader.read(task) for value in batch.column("value").to_pylist()]


def test_a_stream_goes_on_with_the_next_token(place: Place) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    place.next_token()
    place.fill("clicks", "a")
    found = source(place)
    reader = found.streamReader(found.schema())
    start, seen = reader.initialOffset(), []
    for number in range(3):
        token_id = place.next_token()
        place.fill("clicks", str(number))
        end = reader.latestOffset(start, ReadAllAvailable())
        tasks = reader.partitions(start, end)
        assert all(token_id in task.login["sasl.jaas.config"] for task in tasks)
        seen += values(reader, tasks)
        start = end
    reader.stop()
    assert seen == [b"a", b"0", b"1", b"2"]


def test_a_batch_is_planned_with_the_token_of_now(place: Place) -> None:
    place.next_token()
    place.fill("clicks", "a", "b")
    found = source(place)
    reader = found.reader(found.schema())
    for _ in range(2):
        token_id = place.next_token()
        tasks = reader.partitions()
        assert token_id in tasks[0].login["sasl.jaas.config"]
        assert values(reader, tasks) == [b"a", b"b"]


def test_a_batch_without_records_logs_in_too(place: Place) -> None:
    token_id = place.next_token()
    place.admin.create_topics(["clicks"], timeout=HANG_S)
    found = source(place)
    reader = found.reader(found.schema())
    (task,) = reader.partitions()
    assert token_id in task.login["sasl.jaas.config"]
    assert values(reader, [task]) == []


def test_a_ready_made_job_leaves_its_login_on_the_driver(place: Place) -> None:
    from ottla.spark.jobs.reading import client_options

    with_password = {f"kafka.{name}": value for name, value in place.login.items()}
    assert client_options(place.login) == with_password
    place.next_token()
    assert client_options(place.login) == {**place.servers, "kafka.security.protocol": "SASL_PLAINTEXT"}


def test_batches_are_written_with_one_token_and_committed_with_the_next(place: Place) -> None:
    from pyspark.sql.types import BinaryType, StructField, StructType

    from ottla.spark.sink.stream_writer import StreamSink
    from ottla.spark.sink.writer import BatchSink

    rows = pyarrow.RecordBatch.from_pydict({"value": [b"x"]}, schema=pyarrow.schema([("value", pyarrow.binary())]))
    schema = StructType([StructField("value", BinaryType())])
    place.next_token()
    for number in range(2):
        writing = StreamSink({**place.servers, "topic": "out"}, schema)
        message = writing.write_task("query", number, 0, iter([rows]))
        place.next_token()
        StreamSink({**place.servers, "topic": "out"}, schema).commit([message], number)
    job = BatchSink({**place.servers, "topic": "out"}, schema)
    message = job.write_task(0, 0, iter([rows]))
    place.next_token()
    job.commit([message])
    assert written(place) == 3


def written(place: Place) -> int:
    """How many committed records there are."""
    from ottla.client.consumer.consumer import Consumer
    from ottla.values import TopicPartition

    settings = {**place.login, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition("out", 0)])
        found = 0
        while found < 3:
            found += len(consumer.poll(HANG_S))
        return found
