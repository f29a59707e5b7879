"""A topic as the changelog of a result: a row replaces what its key had, a tombstone deletes it.

    update      the last row of each key in the batch
    complete    the whole result beside the one before: what is new or has changed is written, keys that vanished get
                tombstones, what is the same is not written again

1. Each batch is written once: it has the query's id and its number (options jobName and batchId of the sink).
2. The result before is a copy in the checkpoint, written behind the records. There are two places for it, for batches
   with even and with odd numbers: a batch that is repeated finds that of the batch before it untouched.
3. The first batch of a checkpoint finds the result before in the topic itself. So a pipeline that begins anew on a
   topic that is there deletes what its result does not have any more. The topic belongs to the sink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.batches import TOPICS, Checkpoint
from ottla.spark.pipelines.frames import operated
from ottla.spark.pipelines.latest_rows import latest_of_keys
from ottla.spark.pipelines.operations import Target
from ottla.spark.sink.options import AT_LEAST_ONCE, DELIVERY_GUARANTEE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RESULTS: Final = "ottla-result"
_NAME_MAX: Final = 60


@dataclass(slots=True)
class TopicBatches:
    """Writes the batches of one flow."""

    flow: str
    target: Target
    checkpoint: Checkpoint
    query_id: str | None = None

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        batch = self.target.batch
        assert batch is not None, "the plan says so"
        latest = latest_of_keys(rows, batch.key, batch.order)
        records = operated(latest, batch.record)
        if self.target.mode != "complete":
            self._write(records, batch_id)
            return
        now = records.where("value IS NOT NULL").persist()
        try:
            self._write(changes(self._before(now, batch_id), now), batch_id)
            now.write.mode("overwrite").parquet(self._place(batch_id))
        finally:
            now.unpersist()

    def _write(self, records: DataFrame, batch_id: int) -> None:
        options = {**self.target.options, **self._once(records, batch_id)}
        records.write.format(TOPICS).options(**options).mode("append").save()

    def _once(self, rows: DataFrame, batch_id: int) -> dict[str, str]:
        if self.target.options.get(DELIVERY_GUARANTEE.name) == AT_LEAST_ONCE:
            return {}
        if self.query_id is None:
            self.query_id = self.checkpoint.query_id(rows)
        return {"jobName": f"{self.flow[:_NAME_MAX]}-{self.query_id}", "batchId": str(batch_id)}

    def _before(self, now: DataFrame, batch_id: int) -> DataFrame:
        """The result of the batch before."""
        if batch_id == 0:
            return self._in_topic(now)
        return now.sparkSession.read.schema(now.schema).parquet(self._place(batch_id - 1))

    def _place(self, batch_id: int) -> str:
        return f"{self.checkpoint.path}/{_RESULTS}-{batch_id % 2}"

    def _in_topic(self, now: DataFrame) -> DataFrame:
        """What the topic says: the keys that have a value. The values are not compared: they may be encoded."""
        from pyspark.sql import functions

        kafka = {name: value for name, value in self.target.options.items() if name.startswith("kafka.")}
        reading = {**kafka, "subscribe": self.target.options["topic"], "startingOffsets": "earliest"}
        rows = now.sparkSession.read.format(TOPICS).options(**reading, isolationLevel="read_committed").load()
        last = rows.groupBy("key").agg(functions.expr("max_by(struct(value), offset).value AS value"))
        last = last.where("key IS NOT NULL AND value IS NOT NULL")
        return now.where("false").unionByName(last.select("key"), allowMissingColumns=True)


def changes(before: DataFrame, now: DataFrame) -> DataFrame:
    """The records that lead from one result to the next; `before` may have its columns in another order."""
    from pyspark.sql import functions

    compared = [name for name in now.columns if name != "key"]
    old, new = (f"to_json(struct({', '.join(f'{side}.{name}' for name in compared)}))" for side in ("before", "now"))
    both = now.alias("now").join(before.alias("before"), functions.expr("now.key = before.key"), "full_outer")
    changed = both.where(f"now.key IS NULL OR before.key IS NULL OR {old} <> {new}")
    return changed.selectExpr("coalesce(now.key, before.key) AS key", *(f"now.{name} AS {name}" for name in compared))
