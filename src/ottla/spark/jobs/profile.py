"""What is in a topic: how many records, how large, which keys, which headers, how fast they come, what JSON they hold.

    for found in profile(frame, ProfilePlan()):
        print(found.topic, found.records, found.rate_per_s)

1. The frame has the columns of the source with headers; several topics are counted separately. One pass over the
   records for numbers, one more each for headers, frequent keys and fields of JSON, so each of these can be left out.
2. Numbers are exact except the two that are named so: the 99th percentile (to 1 in 10,000) and distinct keys (to about
   2 %). Frequent keys are counted exactly.
3. Sizes are those of keys, values and headers as written, not of files: batches are compressed and have a frame.
4. Lists have limits (the plan's); what is left out is the rarest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from ottla.light_dataclasses import dataclass
from ottla.spark.jobs.drift import Field, fields_of
from ottla.spark.jobs.record_size import size_of_record

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PERCENTILE_ACCURACY: Final = 10_000
DISTINCT_ERROR: Final = 0.02


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """What to profile; 0 leaves a list out."""

    top_keys: int = 10
    header_limit: int = 100
    field_limit: int = 200


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of keys or of values, in bytes; None where there is none."""

    min_bytes: int | None
    mean_bytes: float | None
    p99_bytes: int | None
    max_bytes: int | None


@dataclass(frozen=True, slots=True)
class TopicProfile:
    """One topic."""

    topic: str
    partitions: int
    records: int
    size_bytes: int
    keys: Sizes
    values: Sizes
    null_keys: int
    null_values: int
    distinct_keys_about: int
    first_ms: int
    last_ms: int
    records_with_headers: int
    headers: tuple[tuple[str, int], ...] = ()
    top_keys: tuple[tuple[bytes | None, int], ...] = ()
    json_values: int = 0
    fields: tuple[Field, ...] = ()

    @property
    def span_s(self) -> float:
        return (self.last_ms - self.first_ms) / 1000

    @property
    def rate_per_s(self) -> float | None:
        """Records a second between the first and the last; one moment has no rate."""
        return (self.records - 1) / self.span_s if self.span_s > 0 else None

    def as_json(self) -> dict[str, Any]:
        made = asdict(self)
        made["top_keys"] = [{"key": _key_text(key), "records": count} for key, count in self.top_keys]
        made["headers"] = [{"name": name, "records": count} for name, count in self.headers]
        return made | {"span_s": self.span_s, "rate_per_s": self.rate_per_s}


def profile(frame: DataFrame, plan: ProfilePlan) -> list[TopicProfile]:
    """Every topic of the frame that has records, by name."""
    numbers = {row["topic"]: row.asDict(recursive=True) for row in _numbers(frame).collect()}
    headers = _listed(_headers(frame), plan.header_limit)
    keys = _listed(_keys(frame), plan.top_keys)
    fields = fields_of(frame, plan.field_limit)
    return [
        _profile(found, headers.get(topic, ()), keys.get(topic, ()), *fields.get(topic, (0, ())))
        for topic, found in sorted(numbers.items())
    ]


def _profile(
    found: Mapping[str, Any],
    headers: tuple[tuple[Any, int], ...],
    keys: tuple[tuple[Any, int], ...],
    json_values: int,
    fields: tuple[Field, ...],
) -> TopicProfile:
    plain = {name: value for name, value in found.items() if name not in ("keys", "values")}
    return TopicProfile(
        **plain,
        keys=Sizes(**found["keys"]),
        values=Sizes(**found["values"]),
        headers=headers,
        top_keys=tuple((None if key is None else bytes(key), count) for key, count in keys),
        json_values=json_values,
        fields=fields,
    )


def _numbers(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return frame.groupBy("topic").agg(
        f.size(f.collect_set("partition")).alias("partitions"),
        f.count("*").alias("records"),
        f.sum(size_of_record(frame.columns)).alias("size_bytes"),
        _sizes("key").alias("keys"),
        _sizes("value").alias("values"),
        f.count_if(f.col("key").isNull()).alias("null_keys"),
        f.count_if(f.col("value").isNull()).alias("null_values"),
        f.approx_count_distinct("key", DISTINCT_ERROR).alias("distinct_keys_about"),
        f.unix_millis(f.min("timestamp")).alias("first_ms"),
        f.unix_millis(f.max("timestamp")).alias("last_ms"),
        f.count_if(f.size("headers") > 0).alias("records_with_headers"),
    )


def _sizes(column: str) -> Column:
    from pyspark.sql import functions as f

    size = f.octet_length(column)
    return f.struct(
        f.min(size).alias("min_bytes"),
        f.avg(size).alias("mean_bytes"),
        f.percentile_approx(size, 0.99, PERCENTILE_ACCURACY).alias("p99_bytes"),
        f.max(size).alias("max_bytes"),
    )


def _headers(frame: DataFrame) -> DataFrame:
    """How many records have a header of this name; a name that comes twice in a record counts once."""
    from pyspark.sql import functions as f

    names = f.array_distinct(f.transform("headers", lambda header: header["key"]))
    return frame.select("topic", f.explode(names).alias("name")).groupBy("topic", "name").count()


def _keys(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return frame.groupBy("topic", f.col("key").alias("name")).count()


def _listed(counted: DataFrame, limit: int) -> dict[str, tuple[tuple[Any, int], ...]]:
    """The `limit` most frequent names of each topic, the most frequent first; equals by name."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    if limit <= 0:
        return {}
    order = Window.partitionBy("topic").orderBy(f.desc("count"), f.asc("name"))
    kept = counted.withColumn("place", f.row_number().over(order)).where(f.col("place") <= limit)
    found: dict[str, list[tuple[Any, int]]] = {}
    for row in kept.orderBy("topic", "place").collect():
        found.setdefault(row["topic"], []).append((row["name"], row["count"]))
    return {topic: tuple(pairs) for topic, pairs in found.items()}


def _key_text(key: bytes | None) -> str | None:
    """Text where it is text, else hexadecimal: JSON has no bytes."""
    if key is None:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return "0x" + key.hex()
