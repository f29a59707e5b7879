"""Schema drift: which fields JSON values have, of which type, and since when and until when.

    FIELD     TYPE      RECORDS   FIRST                 LAST
    user.id   BIGINT        900   2026-10-01T00:00:00   2026-10-31T23:59:59
    user.id   STRING        100   2026-11-01T00:00:00   2026-11-02T12:00:00      it became a text in November

1. A value counts as JSON when it is an object. Its fields are compared one by one; an object inside is part of its
   field's type: OBJECT<id: BIGINT>.
2. Types are Spark's names for JSON: BIGINT, DOUBLE, DECIMAL, STRING, BOOLEAN, VOID (null), OBJECT<...>, ARRAY<...>.
   DECIMAL stands for all of its precisions, because 1.5 and 1.25 are not two types to anybody.
3. A field drifts when it has more than one type, VOID not counted; or when it begins after the topic's first JSON
   value, or ends before its last.
4. At most `limit` pairs of field and type for each topic, the most frequent: values whose fields are data (a map of
   ids) would have millions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.light_dataclasses import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Field:
    """One field with one type."""

    name: str
    type: str
    records: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Drift:
    """A field that is not the same all the time, and how."""

    name: str
    sentence: str


def fields_of(frame: DataFrame, limit: int) -> dict[str, tuple[int, tuple[Field, ...]]]:
    """For each topic how many values are JSON objects, and their fields by name and time."""
    if limit <= 0:
        return {}
    parsed = _parsed(frame)
    counts = {row["topic"]: row["count"] for row in parsed.groupBy("topic").count().collect()}
    found: dict[str, list[Field]] = {topic: [] for topic in counts}
    for row in _most_frequent(_fields(parsed), limit).collect():
        found[row["topic"]].append(_field(row.asDict()))
    return {
        topic: (counts[topic], tuple(sorted(fields, key=lambda each: (each.name, each.first_ms, each.type))))
        for topic, fields in found.items()
    }


def _field(row: Mapping[str, Any]) -> Field:
    return Field(row["name"], row["type"], row["records"], row["first_ms"], row["last_ms"])


def _parsed(frame: DataFrame) -> DataFrame:
    """The values that are JSON objects, each with the time of its record."""
    from pyspark.sql import functions as f

    value = f.try_parse_json(f.try_validate_utf8(f.col("value").cast("string")))
    rows = frame.select("topic", f.unix_millis("timestamp").alias("at_ms"), value.alias("parsed"))
    return rows.where(f.schema_of_variant("parsed").startswith("OBJECT<"))


def _fields(parsed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    spark = parsed.sparkSession
    each = parsed.lateralJoin(spark.tvf.variant_explode(f.col("parsed").outer()))
    plain = f.regexp_replace(f.schema_of_variant("value"), r"DECIMAL\(\d+,\s*\d+\)", "DECIMAL")
    return (
        each.select("topic", "at_ms", f.col("key").alias("name"), plain.alias("type"))
        .groupBy("topic", "name", "type")
        .agg(f.count("*").alias("records"), f.min("at_ms").alias("first_ms"), f.max("at_ms").alias("last_ms"))
    )


def _most_frequent(fields: DataFrame, limit: int) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy("topic").orderBy(f.desc("records"), f.asc("name"), f.asc("type"))
    return fields.withColumn("place", f.row_number().over(order)).where(f.col("place") <= limit)


def drifts(fields: Iterable[Field]) -> list[Drift]:
    """The fields that changed while the records were written, by name."""
    by_name: dict[str, list[Field]] = {}
    for each in fields:
        by_name.setdefault(each.name, []).append(each)
    if not by_name:
        return []
    first_ms = min(each.first_ms for group in by_name.values() for each in group)
    last_ms = max(each.last_ms for group in by_name.values() for each in group)
    found = []
    for name, group in sorted(by_name.items()):
        if sentence := _sentence(group, first_ms, last_ms):
            found.append(Drift(name, sentence))
    return found


def _sentence(group: list[Field], first_ms: int, last_ms: int) -> str:
    typed = sorted((each for each in group if each.type != "VOID"), key=lambda each: each.first_ms)
    said = []
    if len(typed) > 1:
        said.append("is " + ", then ".join(each.type for each in typed))
    if min(each.first_ms for each in group) > first_ms:
        said.append("is new")
    if max(each.last_ms for each in group) < last_ms:
        said.append("is gone")
    return "; ".join(said)
