"""The source and the sink on Apache Kafka itself: the same program as on our broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conformance.kafka_broker import KafkaBroker as ApacheBroker
from tests.conformance.kafka_jars import JarsMissing, find_jars

import ottla

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 1_000

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        jars = find_jars("4.3")
    except JarsMissing as reason:
        pytest.skip(str(reason))
    scratch = tmp_path_factory.mktemp("apache")
    broker = ApacheBroker(jars, scratch, scratch / "data")
    broker.format()
    with broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def written(servers: str) -> list[str]:
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([ottla.NewTopic(name, 3, 1) for name in ("source", "copy", "batch")])
    values = [f"value {number:04}" for number in range(RECORDS)]
    with ottla.Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send("source", value.encode(), key=value[-2:].encode())
    return values


def test_a_batch_reads_what_was_written(spark: SparkSession, servers: str, written: list[str]) -> None:
    options = {"kafka.bootstrap.servers": servers, "subscribe": "source"}
    rows = spark.read.format("ottla").options(**options).load().selectExpr("cast(value as string) v").collect()
    assert sorted(row.v for row in rows) == written


def test_a_stream_copies_exactly_once(spark: SparkSession, servers: str, written: list[str], tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": servers}
    source = {"subscribe": "source", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "300"}
    for _ in range(2):  # the second time there is nothing to do
        rows = spark.readStream.format("ottla").options(**options, **source).load().select("key", "value")
        sink = rows.writeStream.format("ottla").options(**options, topic="copy", checkpointLocation=str(tmp_path))
        sink.trigger(availableNow=True).start().awaitTermination()
    assert committed(servers, "copy") == written


def test_a_batch_is_written_whole(spark: SparkSession, servers: str, written: list[str]) -> None:
    rows = spark.createDataFrame([(value,) for value in written], "value string")
    options = {"kafka.bootstrap.servers": servers, "topic": "batch"}
    rows.write.format("ottla").mode("append").options(**options).save()
    assert committed(servers, "batch") == written


def committed(servers: str, topic: str) -> list[str]:
    settings = {"bootstrap_servers": servers, "isolation_level": "read_committed", "value_format": "string"}
    return sorted(ottla.read_topic(topic, **settings)["value"].to_pylist())
