"""Batch writes whose driver is killed. Arguments: JSON.

{"servers": ..., "source": ..., "sink": ..., "checkpoint": ..., "kind": "numbered", "named" or "waiting"}

    numbered    foreachBatch with df.write and once(); killed when KILLED_BATCH is written and Spark does not
                know it yet
    named       df.write with a jobName; killed when its first task is done and the second begins
    waiting     the same, and instead of a kill the second task makes the file "<checkpoint>.waiting" and waits for ever
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ottla.spark import once, session

PER_BATCH, KILLED_BATCH, ROWS = 100, 1, 1000


def write(rows: DataFrame, plan: dict[str, Any], **options: Any) -> None:
    named = {"kafka.bootstrap.servers": plan["servers"], "topic": plan["sink"], "jobName": plan["sink"], **options}
    rows.write.format("ottla").options(**named).mode("append").save()


def copy_numbered(spark: SparkSession, plan: dict[str, Any], after: Callable[[int], None]) -> None:
    """Copy a topic in numbered batches, until all is read; `after` is called when a batch is written."""

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        write(rows, plan, **once(rows, batch_id, "copy"))
        after(batch_id)

    source = {"subscribe": plan["source"], "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(PER_BATCH)}
    rows = spark.readStream.format("ottla").options(**{"kafka.bootstrap.servers": plan["servers"]}, **source).load()
    stream = rows.select("key", "value").writeStream.option("checkpointLocation", plan["checkpoint"])
    stream.foreachBatch(write_batch).trigger(availableNow=True).start().awaitTermination()


def rows_of_job(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 2).selectExpr("cast(id as string) as value")


def main() -> None:
    plan = json.loads(sys.argv[1])
    driver = os.getpid()
    spark = session("sink-jobs", master="local[1]", quiet=True)

    def kill(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.column(0)[0].as_py() != "0":  # not the first task
                if plan["kind"] == "named":
                    os.killpg(driver, signal.SIGKILL)
                Path(f"{plan['checkpoint']}.waiting").touch()
                signal.pause()
            yield batch

    if plan["kind"] == "numbered":
        copy_numbered(
            spark, plan, lambda batch_id: os.killpg(driver, signal.SIGKILL) if batch_id == KILLED_BATCH else None
        )
    else:
        write(rows_of_job(spark).mapInArrow(kill, "value string"), plan)


if __name__ == "__main__":
    main()
