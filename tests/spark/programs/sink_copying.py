"""The query of the programs about the sink: a topic is copied to another one in small batches, until all is read."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def copy(spark: SparkSession, plan: dict[str, Any], sink_format: str, **options: str) -> None:
    """`plan` names servers, source, sink, checkpoint and how many offsets a batch has; `options` are the sink's."""
    servers = {"kafka.bootstrap.servers": plan["servers"]}
    source = {"subscribe": plan["source"], "startingOffsets": "earliest", "minPartitions": "2"}
    rows = (
        spark.readStream.format("ottla")
        .options(**servers, **source, maxOffsetsPerTrigger=str(plan["per_batch"]))
        .load()
        .select("key", "value")
    )
    sink = {"topic": plan["sink"], "checkpointLocation": plan["checkpoint"]}
    writer = rows.writeStream.format(sink_format).options(**servers, **sink, **options)
    writer.trigger(availableNow=True).start().awaitTermination()
