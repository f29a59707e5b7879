"""spark.read.format("ottla") with a real Spark and a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla import Admin, NewTopic, Producer
from ottla.testing import KafkaBroker

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC, PARTITIONS, COUNT = "events", 4, 400


@pytest.fixture(scope="module", autouse=True)
def events(broker: KafkaBroker) -> None:
    """Record n is in partition n % 4 with key k<n>, value v<n>, time n and one header."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS), NewTopic("empty", num_partitions=1)])
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for n in range(COUNT):
            producer.send(
                TOPIC,
                b"v%d" % n,
                key=b"k%d" % n,
                partition=n % PARTITIONS,
                timestamp_ms=n,
                headers=[("n", b"%d" % n)],
            )
        producer.flush()


def load(spark: SparkSession, broker: KafkaBroker, **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": TOPIC, **options}
    return spark.read.format("ottla").options(**given).load()


def test_every_record_is_a_row_with_all_its_columns(spark: SparkSession, broker: KafkaBroker) -> None:
    rows = load(spark, broker, includeHeaders="true").collect()
    assert len(rows) == COUNT
    by_value = {bytes(row.value): row for row in rows}
    row = by_value[b"v42"]
    assert (bytes(row.key), row.topic, row.partition, row.offset) == (b"k42", TOPIC, 42 % 4, 42 // 4)
    assert (row.timestampType, [(each.key, bytes(each.value)) for each in row.headers]) == (0, [("n", b"42")])
    assert row.timestamp.microsecond == 42_000


def test_several_filters_on_one_dataframe_do_not_disturb_each_other(spark: SparkSession, broker: KafkaBroker) -> None:
    """Spark's own push-down for Python sources gets these wrong; without it they are right."""
    df = load(spark, broker)
    one = df.filter("partition = 1")
    assert one.filter("offset = 3").count() == 1
    assert one.count() == COUNT // PARTITIONS
    both = one.filter("offset = 1").union(one.filter("offset = 2"))
    assert sorted(row.offset for row in both.collect()) == [1, 2]
    assert one.filter("offset = 5").union(one).count() == COUNT // PARTITIONS + 1
    assert df.filter("timestamp >= timestamp_millis(390)").count() == 10


def test_a_dataframe_is_a_snapshot(spark: SparkSession, broker: KafkaBroker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("growing", num_partitions=1)])
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        df = load(spark, broker, subscribe="growing")
        producer.send("growing", b"1").result()
        assert df.count() == 1  # planned by the first action
        producer.send("growing", b"2").result()
        assert df.count() == 1
        assert load(spark, broker, subscribe="growing").count() == 2


def test_ranges_and_columns_by_option(spark: SparkSession, broker: KafkaBroker) -> None:
    bounds = {each: {str(index): offset for index in range(PARTITIONS)} for each, offset in (("a", 10), ("b", 15))}
    begin, end = (str({TOPIC: bounds[each]}).replace("'", '"') for each in "ab")
    assert load(spark, broker, startingOffsets=begin, endingOffsets=end).count() == 5 * PARTITIONS
    assert load(spark, broker, startingTimestamp="100", endingTimestamp="200").count() == 100
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": TOPIC}
    few = spark.read.format("ottla").schema("offset bigint, value binary").options(**given).load()
    assert few.columns == ["offset", "value"]
    assert few.agg(F.sum("offset")).first() == (PARTITIONS * sum(range(COUNT // PARTITIONS)),)


def test_tasks_are_packed_and_split(spark: SparkSession, broker: KafkaBroker) -> None:
    def tasks(**options: str) -> int:
        found = load(spark, broker, **options).groupBy(F.spark_partition_id()).count().collect()
        assert sum(row["count"] for row in found) == COUNT
        return len(found)

    assert tasks() == 1  # 400 records are not worth a second task
    assert tasks(minPartitions="3") == 3
    assert tasks(minPartitions="8") == 8
    assert tasks(maxRecordsPerPartition="90") == 8


def test_an_empty_topic_has_no_rows(spark: SparkSession, broker: KafkaBroker) -> None:
    assert load(spark, broker, subscribe="empty").count() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minPartition": "2"}, "did you mean minPartitions"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"kafka.auto.offset.reset": "earliest"}, "where to begin is said by startingOffsets"),
        ({"subscribe": "no-such-topic"}, "no-such-topic does not exist"),
        ({"assign": "{}"}, "exactly one of subscribe, subscribePattern and assign"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(
    spark: SparkSession, broker: KafkaBroker, options: dict[str, str], words: str
) -> None:
    with pytest.raises(PySparkException, match=words):
        load(spark, broker, **options).count()


def test_a_secret_does_not_appear_in_an_error(spark: SparkSession, broker: KafkaBroker) -> None:
    with pytest.raises(PySparkException) as caught:
        load(spark, broker, **{"kafka.sasl.password": "hunter2", "subscribePattern": "x"}).count()
    assert "hunter2" not in str(caught.value)


def test_lost_records_fail_a_batch_or_are_passed_over(spark: SparkSession, broker: KafkaBroker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("short", num_partitions=1)])
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("short", b"1").result()
    end = '{"short": {"0": 5}}'
    with pytest.raises(PySparkException, match="short-0 at offset 5"):
        load(spark, broker, subscribe="short", endingOffsets=end).count()
    assert load(spark, broker, subscribe="short", endingOffsets=end, failOnDataLoss="false").count() == 1
