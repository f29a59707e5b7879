"""spark.readStream.format("ottla") with a real Spark and a real broker: restarts, growth, deletion."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.patience import HANG_S
from tests.spark.programs.static_side import joined_batch_by_batch

from ottla import Admin, NewTopic, Producer
from ottla.errors import UnknownTopicOrPartition
from ottla.testing import KafkaBroker

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

from pyspark.errors import StreamingQueryException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Stream:
    """One query with its checkpoint, run as often as wanted; what it has read is in Parquet files."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, directory: Path, **options: str) -> None:
        self.spark, self.servers, self.directory = spark, broker.bootstrap_servers, directory
        self.options = {"kafka.bootstrap.servers": self.servers, "startingOffsets": "earliest", **options}

    def load(self) -> DataFrame:
        return self.spark.readStream.format("ottla").options(**self.options).load()

    def start(self, **trigger: Any) -> StreamingQuery:
        rows = self.load().selectExpr("topic", "partition", "offset", "cast(value as string) as value")
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(self.directory / "checkpoint"))
        return writer.trigger(**trigger).start(str(self.directory / "out"))

    def run(self) -> list[int]:
        """Read what there is; the rows of each batch."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(HANG_S), "the run did not end"
        return [each.numInputRows for each in query.recentProgress if each.numInputRows]

    def values(self) -> list[str]:
        found = self.spark.read.schema("value string").parquet(str(self.directory / "out")).collect()
        return sorted(row.value for row in found)


def make(broker: KafkaBroker, name: str, partitions: int = 2) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, num_partitions=partitions)])


def remove(broker: KafkaBroker, name: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topics([name])
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            try:
                admin.describe_topics([name])
            except UnknownTopicOrPartition:
                return
    raise AssertionError("the topic is still there")


def send(broker: KafkaBroker, name: str, numbers: range, partitions: int = 2) -> list[str]:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for n in numbers:
            producer.send(name, b"%06d" % n, partition=n % partitions)
        producer.flush()
    return [f"{n:06d}" for n in numbers]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_runs_to_the_end_go_on_where_the_last_one_ended(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    """Limits, growth, a new topic by pattern and the group in one life of a query; a batch reads the same."""
    make(broker, "orders-a")
    sent = send(broker, "orders-a", range(100))
    stream = Stream(
        spark, broker, tmp_path, subscribePattern="orders-.*", maxOffsetsPerTrigger="40", commitGroupId="orders"
    )
    assert stream.run() == [40, 40, 20]
    assert stream.values() == sent
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_partitions({"orders-a": 3})
        make(broker, "orders-b", 1)
        sent += send(broker, "orders-a", range(100, 130), partitions=3) + send(broker, "orders-b", range(200, 205), 1)
        assert stream.run() == [35]
        assert stream.values() == sent
        committed = {
            str(each): found.offset for each, found in admin.list_consumer_group_offsets("orders").items() if found
        }
        assert committed == {"orders-a-0": 60, "orders-a-1": 60, "orders-a-2": 10, "orders-b-0": 5}
    assert stream.run() == []
    df = spark.read.format("ottla").options(**{"kafka.bootstrap.servers": broker.bootstrap_servers})
    batch = df.option("subscribePattern", "orders-.*").load()
    assert sorted(bytes(row.value).decode() for row in batch.collect()) == sent


def test_a_running_query_sees_what_comes(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    make(broker, "live-a")
    old = send(broker, "live-a", range(5))
    stream = Stream(spark, broker, tmp_path, subscribePattern="live-.*", startingOffsets="latest")
    query = stream.start(processingTime="0 seconds")
    try:
        until(lambda: query.lastProgress is not None)
        sent = send(broker, "live-a", range(10, 20))
        until(lambda: stream.values() == sent)
        make(broker, "live-b")
        sent += send(broker, "live-b", range(20, 30))
        until(lambda: stream.values() == sent)
    finally:
        query.stop()
    sent += send(broker, "live-a", range(30, 40))
    assert stream.run() == [10]
    assert stream.values() == sent
    assert not set(old) & set(sent)


def test_a_topic_that_is_made_again(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    make(broker, "again")
    sent = send(broker, "again", range(10))
    stream = Stream(spark, broker, tmp_path, subscribe="again")
    stream.run()
    remove(broker, "again")
    make(broker, "again")
    sent += send(broker, "again", range(50, 70))
    with pytest.raises(StreamingQueryException, match="its topic was deleted and made again"):
        stream.run()
    assert stream.values() == sent[:10]
    stream.options["failOnDataLoss"] = "false"
    assert stream.run() == [20]
    assert stream.values() == sent


def test_batches_without_news_read_nothing_again(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    """A window closes in a batch that has no records; its offset still names where the batch before began."""
    make(broker, "windows", 1)
    stream = Stream(spark, broker, tmp_path, subscribe="windows")
    counts = stream.load().withWatermark("timestamp", "0 seconds").groupBy("timestamp").count()
    writer = counts.writeStream.format("memory").queryName("windows").outputMode("update")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        until(lambda: query.lastProgress is not None)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_partitions({"windows": 2})
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for n in range(6):
                producer.send("windows", b"x", partition=n % 2, timestamp_ms=1_000)
            producer.flush()
        until(lambda: spark.table("windows").count() > 0)
        query.processAllAvailable()
        assert sum(each.numInputRows for each in query.recentProgress) == 6
    finally:
        query.stop()


def test_a_checkpoint_of_the_kafka_connector_is_taken_over(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    make(broker, "taken")
    sent = send(broker, "taken", range(20))
    stream = Stream(spark, broker, tmp_path, subscribe="taken")
    stream.run()
    # What the connector would have written, had it read the first four records of each partition.
    written = tmp_path / "checkpoint" / "offsets" / "0"
    lines = written.read_text().splitlines()
    written.write_text("\n".join([*lines[:2], json.dumps({"taken": {"0": 4, "1": 4}})]))
    written.with_name(".0.crc").unlink(missing_ok=True)
    again = Stream(spark, broker, tmp_path, subscribe="taken")
    assert again.run() == [12]
    assert again.values() == sorted(sent + sent[8:])


def test_the_static_side_of_a_stream_is_read_anew_for_every_batch(spark: SparkSession, broker: KafkaBroker) -> None:
    """As by Spark's own connector (test_jvm_connector.py): also from partitions that are added later."""
    assert joined_batch_by_batch(spark, broker.bootstrap_servers, "ottla") == [
        ["customer 0"],
        ["customer 0", "customer 1"],
        ["customer 0", "customer 1", "customer 2"],
        ["customer 0", "customer 1", "customer 2", "customer 3"],
    ]
