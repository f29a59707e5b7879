"""Twelve shapes of streaming queries at once, each into a place of its own with faults; ends when all is written.

Arguments: JSON. {"servers": ..., "directory": ..., "per_batch": 200, "faults": [...], "shapes": [...], "jdbc": ...}

1. Every shape reads the topic `events` (the join `answers`, too) in batches of `per_batch` offsets and writes to the
   topic of its name; `two` writes a second one.
2. When all have ended, one record a partition that is a day later closes the windows, which are written then.
3. `upsert`, `whole` and `jdbc` are written by the functions of pipelines: an upsert topic, a complete result as a
   changelog, and a table of PostgreSQL, whose faults are called line, written and done.
4. Times go up in both partitions alike and batches take as much of both, so no record is late (LATE is the room).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pandas import DataFrame as Frame
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import IntegerType, StructField, StructType
from sink_faults import DRIVER, FAULTS, FaultySource, is_first, strike

from ottla import Producer
from ottla.spark import once, session
from ottla.spark.pipelines import postgres_batches, topic_batches
from ottla.spark.pipelines.batches import Checkpoint
from ottla.spark.pipelines.operations import Batch, Operation, Select, Target
from ottla.spark.pipelines.postgres_batches import PostgresBatches
from ottla.spark.pipelines.topic_batches import TopicBatches

EVENT = "id INT, name STRING, at LONG"
ANSWER = "id INT, at LONG"
LATE = "60 seconds"
WINDOW = "20 seconds"
FEW = 150
write_batch = postgres_batches.write
CLOSING, CLOSING_AT = "closing", 86_400
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


class RunningNumber(StatefulProcessor):
    """Numbers the records of each name, from 1: `name/number`."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", StructType([StructField("count", IntegerType())]))

    def handleInputRows(self, key: Any, rows: Iterator[Frame], timerValues: Any) -> Iterator[Frame]:  # noqa: N802, N803
        before = self._count.get()[0] if self._count.exists() else 0
        count = sum(len(frame) for frame in rows)
        self._count.update((before + count,))
        numbers = range(before + 1, before + count + 1)
        yield Frame({"key": [key[0]] * count, "value": [f"{key[0]}/{number}" for number in numbers]})

    def close(self) -> None:
        """Nothing is held."""


class FaultyTable(PostgresBatches):
    """Ends the driver within a batch, before its commit, or behind it."""

    batch_id = -1

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.batch_id = batch_id
        postgres_batches.write = self._write
        super().__call__(rows, batch_id)
        self._fail_at("done")

    def _write(self, connection: Any, table: Any, mode: str, lines: Any, flow: str, batch_id: int) -> None:
        def failing() -> Iterator[Any]:
            for number, line in enumerate(lines()):
                yield line
                if number == 0:
                    self._fail_at("line")
            self._fail_at("written")

        write_batch(connection, table, mode, failing, flow, batch_id)

    def _fail_at(self, point: str) -> None:
        for fault in json.loads(os.environ[FAULTS]):
            is_here = (fault["topic"], fault["point"], fault["batch"]) == ("jdbc", point, self.batch_id)
            if is_here and is_first(fault["once"]):
                strike("driver")


class Shapes:
    """The queries of one life of the driver."""

    def __init__(self, spark: SparkSession, plan: dict[str, Any]) -> None:
        self._spark = spark
        self._servers = {"kafka.bootstrap.servers": plan["servers"]}
        self._per_batch = str(plan["per_batch"])
        self._directory = plan["directory"]
        self._jdbc = plan.get("jdbc")

    def start(self, shape: str) -> StreamingQuery:
        make: Callable[[], StreamingQuery] = getattr(self, shape)
        return make()

    def append(self) -> StreamingQuery:
        return self._write("append", self._events().selectExpr("name as key", "cast(id as string) as value"))

    def complete(self) -> StreamingQuery:
        counts = self._events().groupBy("name").count()
        return self._write("complete", counts.selectExpr("name as key", "cast(count as string) as value"), "complete")

    def update(self) -> StreamingQuery:
        counts = self._events().groupBy("name").count().selectExpr("name as key", "cast(count as string) as value")
        return self._for_each("update", counts, ("update",), "update")

    def window(self) -> StreamingQuery:
        counts = self._timely().groupBy(sf.window("time", WINDOW), "name").count()
        value = "concat(cast(unix_timestamp(window.start) as string), '/', cast(count as string)) as value"
        return self._write("window", counts.selectExpr("name as key", value))

    def dedup(self) -> StreamingQuery:
        kept = self._timely().dropDuplicatesWithinWatermark(["id"])
        return self._write("dedup", kept.selectExpr("name as key", "cast(id as string) as value"))

    def join(self) -> StreamingQuery:
        answers = self._topic("answers", ANSWER).withWatermark("time", LATE)
        left, right = self._timely().alias("event"), answers.alias("answer")
        within = "event.id = answer.id AND answer.time BETWEEN event.time AND event.time + INTERVAL 30 SECONDS"
        pairs = left.join(right, sf.expr(within))
        return self._write("join", pairs.selectExpr("event.name as key", "cast(answer.id as string) as value"))

    def state(self) -> StreamingQuery:
        numbered = (
            self._events()
            .groupBy("name")
            .transformWithStateInPandas(
                statefulProcessor=RunningNumber(),
                outputStructType="key STRING, value STRING",
                outputMode="append",
                timeMode="none",
            )
        )
        return self._write("state", numbered)

    def once(self) -> StreamingQuery:
        rows = self._events().selectExpr("name as key", "cast(id as string) as value")
        return self._for_each("once", rows, ("once",), "append")

    def two(self) -> StreamingQuery:
        rows = self._events().selectExpr("name as key", "cast(id as string) as value")
        return self._for_each("two", rows, ("two", "two-more"), "append")

    def upsert(self) -> StreamingQuery:
        target = self._changelog("upsert", "update")
        return self._by_function("upsert", self._counts(), TopicBatches("upsert", target, self._checkpoint("upsert")))

    def whole(self) -> StreamingQuery:
        few = self._counts().where(f"count < {FEW}")
        target = self._changelog("whole", "complete")
        return self._by_function("whole", few, TopicBatches("whole", target, self._checkpoint("whole")))

    def jdbc(self) -> StreamingQuery:
        batch = Batch(("name",))
        target = Target("postgresql", {"url": str(self._jdbc), "table": "totals"}, mode="update", batch=batch)
        return self._by_function("jdbc", self._counts(), FaultyTable("totals", target, self._checkpoint("jdbc")))

    # -- reading and writing -----------------------------------------------------------------------------------------

    def _topic(self, topic: str, schema: str) -> DataFrame:
        limits = {"maxOffsetsPerTrigger": self._per_batch, "minPartitions": "2"}
        source = {**self._servers, "subscribe": topic, "startingOffsets": "earliest", **limits}
        rows = self._spark.readStream.format("ottla").options(**source).load()
        parsed = rows.select(sf.from_json(rows.value.cast("string"), schema).alias("event")).select("event.*")
        return parsed.withColumn("time", sf.timestamp_seconds("at"))

    def _counts(self) -> DataFrame:
        return self._events().groupBy("name").count()

    def _changelog(self, topic: str, mode: str) -> Target:
        record: tuple[Operation, ...] = (Select(("name AS key", "CAST(count AS STRING) AS value")),)
        return Target("ottla", {**self._servers, "topic": topic}, mode=mode, batch=Batch(("name",), record=record))

    def _checkpoint(self, shape: str) -> Checkpoint:
        return Checkpoint(f"{self._directory}/{shape}")

    def _by_function(self, shape: str, rows: DataFrame, write: TopicBatches | PostgresBatches) -> StreamingQuery:
        stream = rows.writeStream.queryName(shape).outputMode(write.target.mode).foreachBatch(write)
        return stream.option("checkpointLocation", self._checkpoint(shape).path).trigger(availableNow=True).start()

    def _events(self) -> DataFrame:
        return self._topic("events", EVENT)

    def _timely(self) -> DataFrame:
        return self._events().withWatermark("time", LATE)

    def _write(self, shape: str, rows: DataFrame, mode: str = "append") -> StreamingQuery:
        options = {**self._servers, "topic": shape, "checkpointLocation": f"{self._directory}/{shape}"}
        stream = rows.writeStream.format("ottla-faulty").queryName(shape).outputMode(mode)
        return stream.options(**options).trigger(availableNow=True).start()

    def _for_each(self, shape: str, rows: DataFrame, topics: tuple[str, ...], mode: str) -> StreamingQuery:
        def write(batch: DataFrame, batch_id: int) -> None:
            for topic in topics:
                options = {**self._servers, "topic": topic, **once(batch, batch_id, topic)}
                batch.write.format("ottla-faulty").options(**options).mode("append").save()

        stream = rows.writeStream.queryName(shape).outputMode(mode).foreachBatch(write)
        return stream.option("checkpointLocation", f"{self._directory}/{shape}").trigger(availableNow=True).start()


def close_windows(plan: dict[str, Any]) -> None:
    """A record a partition that is later than everything, once."""
    closed = Path(plan["directory"], "closed")
    if closed.exists():
        return
    with Producer(bootstrap_servers=plan["servers"]) as producer:
        for topic in ("events", "answers"):
            for partition in range(2):
                value = json.dumps({"id": -1 - partition, "name": CLOSING, "at": CLOSING_AT})
                producer.send(topic, value, partition=partition)
    closed.touch()  # a driver that dies before it does this writes them twice: nothing counts them


def main() -> None:
    plan = json.loads(sys.argv[1])
    os.environ[DRIVER] = str(os.getpid())
    os.environ[FAULTS] = json.dumps(plan["faults"])
    spark = session("shapes", master="local[2,4]", settings=SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(FaultySource)
    topic_batches.TOPICS = FaultySource.name()  # type: ignore[misc]
    shapes = Shapes(spark, plan)
    for round_of in (plan["shapes"], ["window"]):
        for query in [shapes.start(shape) for shape in round_of]:
            query.awaitTermination()
        close_windows(plan)
    spark.stop()


if __name__ == "__main__":
    main()
