"""A streaming query on a cluster with speculation on, in which some first attempts stand still. Argument: JSON.

    {"master": ..., "servers": ..., "source": ..., "sink": ..., "checkpoint": ..., "seen": a directory}

In batch 0 the first attempt of task 1 stands still when it has taken over, in batch 1 when it has written all its rows.
Each attempt leaves a file with its name in `seen`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql.types import StructType
from sink_copying import copy

from ottla.spark import session
from ottla.spark.datasource import OttlaSource
from ottla.spark.sink.stream_writer import BATCH_ID, StreamSink

STILL_S = 120.0  # Spark ends it when the other attempt is done; longer than that takes to begin anywhere
STANDS_STILL = {"0": "TakeOver", "1": "Write"}
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.executor.memory": "600m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}


class SlowSink(StreamSink):
    def passing(self, step, is_done):
        context = TaskContext.get()
        if context is None or not is_done:
            return
        batch, task, attempt = context.getLocalProperty(BATCH_ID), context.partitionId(), context.attemptNumber()
        (Path(self.seen) / f"{batch}-{task}-{attempt}").touch()
        if task == 1 and attempt == 0 and STANDS_STILL.get(batch) == type(step).__name__:
            time.sleep(STILL_S)


class SlowSource(OttlaSource):
    @classmethod
    def name(cls):
        return "ottla-slow"

    def streamWriter(self, schema: StructType, overwrite: bool):  # noqa: N802
        options = dict(self.options)
        seen = options.pop("seen")
        sink = SlowSink(options, schema)
        sink.seen = seen
        return sink


def main() -> None:
    plan = json.loads(sys.argv[1])
    spark = session("sink-speculation", master=plan["master"], settings=SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(SlowSource)
    copy(spark, plan, "ottla-slow", seen=plan["seen"])
    spark.stop()


if __name__ == "__main__":
    main()
