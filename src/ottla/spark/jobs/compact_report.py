"""What compaction would save: how many records are not the last of their key.

1. Counted exactly as the cleaner decides: of the records of a key in a partition that with the greatest offset stays.
2. A tombstone (no value) that is the last of its key stays for delete.retention.ms and goes then; it is counted
   separately, and `saved_at_last_bytes` is what is saved when these are gone too.
3. A record without a key cannot be compacted; a topic that has such records refuses them once it is compacted.
4. Sizes are those of record_size.py: what the cleaner removes from a compressed batch is less on disk.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ottla.light_dataclasses import dataclass
from ottla.spark.jobs.record_size import size_of_record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class CompactReport:
    """One topic."""

    topic: str
    records: int
    size_bytes: int
    keys: int
    keyless_records: int
    keyless_bytes: int
    superseded_records: int
    superseded_bytes: int
    tombstones: int
    last_tombstones: int
    last_tombstone_bytes: int

    @property
    def saved_at_last_bytes(self) -> int:
        return self.superseded_bytes + self.last_tombstone_bytes

    @property
    def saved_share(self) -> float:
        """Of all bytes, when the tombstones are gone too."""
        return self.saved_at_last_bytes / self.size_bytes if self.size_bytes else 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"saved_at_last_bytes": self.saved_at_last_bytes, "saved_share": self.saved_share}


def compact_report(frame: DataFrame) -> list[CompactReport]:
    """Every topic of the frame that has records, by name."""
    found = _by_topic(_by_key(frame)).orderBy("topic").collect()
    return [CompactReport(**row.asDict()) for row in found]


def _by_key(frame: DataFrame) -> DataFrame:
    """One row for each key of a partition; all records without a key are one row too."""
    from pyspark.sql import functions as f

    rows = frame.select(
        "topic",
        "partition",
        "key",
        f.col("value").isNull().alias("is_tombstone"),
        size_of_record(frame.columns).alias("size"),
        "offset",
    )
    last = f.max_by(f.struct("size", "is_tombstone"), "offset")
    return rows.groupBy("topic", "partition", "key").agg(
        f.count("*").alias("records"),
        f.sum("size").alias("size"),
        f.count_if("is_tombstone").alias("tombstones"),
        last.alias("last"),
    )


def _by_topic(keys: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    has_key = f.col("key").isNotNull()
    zero = f.lit(0).cast("bigint")

    def total(column: Any, condition: Any) -> Any:
        return f.coalesce(f.sum(f.when(condition, column)), zero)

    ends_deleted = has_key & f.col("last.is_tombstone")
    return keys.groupBy("topic").agg(
        f.sum("records").alias("records"),
        f.sum("size").alias("size_bytes"),
        f.count_if(has_key).alias("keys"),
        total(f.col("records"), ~has_key).alias("keyless_records"),
        total(f.col("size"), ~has_key).alias("keyless_bytes"),
        total(f.col("records") - 1, has_key).alias("superseded_records"),
        total(f.col("size") - f.col("last.size"), has_key).alias("superseded_bytes"),
        total(f.col("tombstones"), has_key).alias("tombstones"),
        f.count_if(ends_deleted).alias("last_tombstones"),
        total(f.col("last.size"), ends_deleted).alias("last_tombstone_bytes"),
    )
