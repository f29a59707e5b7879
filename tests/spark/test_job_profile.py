"""The jobs that only look, on rows that are made by hand: every number is one that can be counted here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
BEGIN_MS = int(BEGIN.timestamp() * 1000)


def row(offset: int, key: bytes | None, value: bytes | None, *, topic: str = "clicks", partition: int = 0) -> Any:
    headers = [("trace", b"12"), ("trace", b"3")] if offset % 2 else None
    return (key, value, topic, partition, offset, BEGIN + timedelta(seconds=offset), 0, headers)


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    rows = [
        row(0, b"a", b'{"id": 1, "price": 1.5}'),
        row(1, b"b", b'{"id": 2, "price": 1.25}'),
        row(2, b"a", b'{"id": "three", "user": {"name": "x"}}'),
        row(3, None, b"no json"),
        row(4, b"b", None),
        row(0, b"a", b"[1, 2]", partition=1),
        row(1, b"c", b"\xff\xfe{", partition=1),
        row(0, b"k", b"v", topic="other"),
    ]
    return spark.createDataFrame(rows, COLUMNS)


def test_a_profile_counts_what_is_there(clicks: DataFrame) -> None:
    from ottla.spark.jobs.profile import ProfilePlan, Sizes, profile

    found, other = profile(clicks, ProfilePlan(top_keys=2))
    values = [23, 24, 38, 7, 6, 3]
    assert (found.topic, found.partitions, found.records) == ("clicks", 2, 7)
    assert (found.null_keys, found.null_values, found.distinct_keys_about) == (1, 1, 3)
    assert found.values == Sizes(3, sum(values) / 6, 38, 38)
    assert found.keys == Sizes(1, 1.0, 1, 1)
    assert found.size_bytes == sum(values) + 6 + 3 * len("tracetrace123")
    assert (found.first_ms, found.last_ms, found.rate_per_s) == (BEGIN_MS, BEGIN_MS + 4000, 6 / 4)
    assert (found.records_with_headers, found.headers) == (3, (("trace", 3),))
    assert found.top_keys == ((b"a", 3), (b"b", 2))
    assert (other.topic, other.records, other.rate_per_s, other.json_values) == ("other", 1, None, 0)
    assert found.as_json()["top_keys"][0] == {"key": "a", "records": 3}


def test_a_profile_tells_how_json_drifts(clicks: DataFrame) -> None:
    from ottla.spark.jobs.drift import Drift, Field, drifts
    from ottla.spark.jobs.profile import ProfilePlan, profile

    found = profile(clicks, ProfilePlan(top_keys=0, header_limit=0))[0]
    assert found.json_values == 3
    assert found.fields == (
        Field("id", "BIGINT", 2, BEGIN_MS, BEGIN_MS + 1000),
        Field("id", "STRING", 1, BEGIN_MS + 2000, BEGIN_MS + 2000),
        Field("price", "DECIMAL", 2, BEGIN_MS, BEGIN_MS + 1000),
        Field("user", "OBJECT<name: STRING>", 1, BEGIN_MS + 2000, BEGIN_MS + 2000),
    )
    assert drifts(found.fields) == [
        Drift("id", "is BIGINT, then STRING"),
        Drift("price", "is gone"),
        Drift("user", "is new"),
    ]
    assert (found.top_keys, found.headers) == ((), ())


def test_a_compact_report_keeps_the_last_record_of_each_key_of_a_partition(clicks: DataFrame) -> None:
    from ottla.spark.jobs.compact_report import compact_report

    found, other = compact_report(clicks)
    header = len("tracetrace123")
    assert (found.records, found.keys, found.keyless_records, found.keyless_bytes) == (7, 4, 1, 7 + header)
    assert (found.superseded_records, found.superseded_bytes) == (2, 24 + 25 + header)
    assert (found.tombstones, found.last_tombstones, found.last_tombstone_bytes) == (1, 1, 1)
    assert found.saved_at_last_bytes == 24 + 25 + header + 1
    assert (other.superseded_records, other.saved_share) == (0, 0.0)
