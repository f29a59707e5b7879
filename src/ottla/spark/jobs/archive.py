"""Topics to Parquet: exactly once, resumable, readable by everything that reads Parquet.

    totals = archive(spark, reading, ArchiveLayout("clicks-archive"))

1. Every committed record is in the archive once, also when the job was killed at any moment and started again. A batch
   is written by replacing the directories that carry its number (archive_layout.py), so writing it twice is writing it
   once. Spark's own file sink would be simpler here; but it keeps its list of valid files to itself, so that every
   other reader counts the files of a killed run twice, and its list grows for ever.
2. The checkpoint lies in the archive: they are moved, copied and deleted together, and batch numbers never repeat.
3. Within a file records are in the order of their offsets.
4. What a killed run left half written begins with a dot; on a local disk the next run that ends removes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.jobs.archive_layout import DATA_COLUMNS, ArchiveLayout, check_plan, plan_text, topics_text
from ottla.spark.jobs.following import Watch, observed, run_stream, unwatched
from ottla.spark.jobs.reading import ReadPlan
from ottla.spark.jobs.state_files import read_state, write_state
from ottla.spark.jobs.tally import Totals

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SETTINGS: Final = {
    # Spark still writes a form of its own that has no statistics unless it is set otherwise.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
HOUR_MICROS: Final = 3_600_000_000


def archive(
    spark: SparkSession,
    reading: ReadPlan,
    layout: ArchiveLayout,
    *,
    every: str | None = None,
    count_partitions: Callable[[], dict[str, int]] | None = None,
    watch: Watch = unwatched,
) -> Totals:
    """Bring an archive up to date, or keep it so with `every`."""
    asked = plan_text(layout, reading)
    found = read_state(spark, layout.state("plan"))
    if found is None:
        write_state(spark, layout.state("plan"), asked)
    else:
        check_plan(found, asked)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    rows = spark.readStream.format("ottla").options(**reading.options()).load()
    writer = observed(rows).writeStream.foreachBatch(partial(write_batch, layout=layout))
    totals = run_stream(writer.option("checkpointLocation", layout.checkpoint), every, watch)
    if count_partitions is not None:
        write_state(spark, layout.state("topics"), topics_text(count_partitions()))
    _remove_leftovers(layout.path)
    return totals


def write_batch(batch: DataFrame, batch_id: int, *, layout: ArchiveLayout) -> None:
    """Replace what this batch wrote before, if it did."""
    from pyspark.sql import functions as f

    columns = layout.partition_columns
    placed = batch.withColumns(_places(layout.by_hour)).withColumn("batch", f.lit(batch_id))
    ordered = placed.select(*DATA_COLUMNS, *columns).sortWithinPartitions(*columns, "offset")
    writer = ordered.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(*columns).parquet(layout.path)


def _places(by_hour: bool) -> dict[str, Column]:
    """From the count of microseconds, because Spark's own functions for dates ask the session's time zone."""
    from pyspark.sql import functions as f

    hours = f.floor(f.unix_micros("timestamp") / f.lit(HOUR_MICROS))
    date = f.date_from_unix_date(f.floor(hours / f.lit(24)).cast("int"))
    return {"date": date} | ({"hour": f.pmod(hours, f.lit(24)).cast("int")} if by_hour else {})


def _remove_leftovers(path: str) -> None:
    local: Any = Path(path.removeprefix("file://"))
    if "://" in path.removeprefix("file://") or not local.is_dir():
        return
    for each in local.glob(".spark-staging-*"):
        shutil.rmtree(each, ignore_errors=True)
