"""Topics to Parquet: what is in the files, and that each record is in them once."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN_MS = int(datetime(2026, 11, 1, 22, 30, tzinfo=UTC).timestamp() * 1000)
HOUR_MS = 3_600_000


def make_topic(broker: KafkaBroker, topic: str, partitions: int) -> None:
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(topic, partitions)])


def fill(broker: KafkaBroker, topic: str, numbers: range, partitions: int = 2) -> None:
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in numbers:
            producer.send(
                topic,
                None if number % 7 == 3 else b"value-%d" % number,
                key=None if number % 5 == 4 else b"key-%d" % number,
                headers=[("number", b"%d" % number), ("none", None)] if number % 2 else [],
                partition=number % partitions,
                timestamp_ms=BEGIN_MS + number * HOUR_MS,
            )


def archived(path: Path) -> list[dict[str, Any]]:
    """Read without Spark: whatever reads Parquet must see each record once."""
    import pyarrow.dataset

    return list(pyarrow.dataset.dataset(path, partitioning="hive").to_table().to_pylist())


@pytest.fixture
def reading(broker: KafkaBroker) -> Any:
    from ottla.spark.jobs.reading import ReadPlan

    def make(*topics: str, **options: Any) -> ReadPlan:
        return ReadPlan({"bootstrap.servers": broker.bootstrap_servers}, topics, **options)

    return make


def test_an_archive_has_every_record_as_it_was(
    spark: SparkSession, broker: KafkaBroker, reading: Any, tmp_path: Path
) -> None:
    from ottla.spark.jobs.archive import archive
    from ottla.spark.jobs.archive_layout import ArchiveLayout

    make_topic(broker, "as-it-was", 2)
    fill(broker, "as-it-was", range(10))
    totals = archive(spark, reading("as-it-was"), ArchiveLayout(str(tmp_path), by_hour=True))
    rows = sorted(archived(tmp_path), key=lambda row: row["timestamp"])
    assert (totals.rows, totals.batches, totals.lag) == (10, 1, 0)
    assert totals.size_bytes > 0
    for number, row in enumerate(rows):
        moment = datetime.fromtimestamp(BEGIN_MS / 1000 + number * 3600, UTC)
        assert row["key"] == (None if number % 5 == 4 else b"key-%d" % number)
        assert row["value"] == (None if number % 7 == 3 else b"value-%d" % number)
        assert (row["topic"], row["partition"], row["offset"]) == ("as-it-was", number % 2, number // 2)
        assert (row["timestamp"], row["timestampType"]) == (moment, 0)
        assert (str(row["date"]), row["hour"]) == (str(moment.date()), moment.hour)
        headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
        assert headers == ([("number", b"%d" % number), ("none", None)] if number % 2 else [])


def test_an_archive_goes_on_where_it_was(
    spark: SparkSession, broker: KafkaBroker, reading: Any, tmp_path: Path
) -> None:
    from ottla.spark.jobs.archive import archive
    from ottla.spark.jobs.archive_layout import ArchiveLayout, OtherArchive

    make_topic(broker, "goes-on", 2)
    fill(broker, "goes-on", range(6))
    layout = ArchiveLayout(str(tmp_path))
    seen = []
    totals = archive(spark, reading("goes-on", batch_records=4), layout, watch=seen.append)
    assert (totals.rows, totals.batches) == (6, 2)
    assert archive(spark, reading("goes-on"), layout).rows == 0
    fill(broker, "goes-on", range(6, 9))
    assert archive(spark, reading("goes-on"), layout, count_partitions=lambda: {"goes-on": 2}).rows == 3
    assert Counter((row["partition"], row["offset"]) for row in archived(tmp_path)) == Counter(
        (number % 2, number // 2) for number in range(9)
    )
    assert [each for each in seen if each.rows > 6] == []
    with pytest.raises(OtherArchive, match="subscribe is 'goes-on', asked for is 'goes-on,other'"):
        archive(spark, reading("goes-on", "other"), layout)


def test_a_batch_that_is_written_twice_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    from ottla.spark.jobs.archive import write_batch
    from ottla.spark.jobs.archive_layout import ArchiveLayout

    layout = ArchiveLayout(str(tmp_path))
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    columns = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int,"
        "headers array<struct<key:string,value:binary>>"
    )
    first, second = (
        spark.createDataFrame([(b"k", b"v", "t", 0, offset, moment, 0, None) for offset in offsets], columns)
        for offsets in (range(4), range(4, 6))
    )
    for batch, number in ((first, 0), (second, 1), (second, 1), (first, 0)):
        write_batch(batch, number, layout=layout)
    assert sorted(row["offset"] for row in archived(tmp_path)) == list(range(6))
