"""Flows that Spark has no sink for: each of their batches is written by a function of ours (foreachBatch).

    topic, update or complete      topic_batches.py: exactly once
    PostgreSQL                     postgres.py: exactly once
    Delta or Iceberg table         table_batches.py: the same table, however often a batch is tried
    another database               Spark's JDBC writer: at least once, because it has no transaction for a batch

1. What makes a batch count once is its number and the id of the query, which is that of the checkpoint: a query that is
   started again has the same, a new checkpoint has another and begins with batch 0.
2. The functions run where Spark's driver does, in a Python process that each query has for itself. They travel there
   pickled, so they hold plain values only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.operations import Flow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POSTGRESQL: Final = "postgresql"
TOPICS: Final = "ottla"

WriteBatch = Callable[["DataFrame", int], None]


def batch_writer(flow: Flow, checkpoint: str) -> WriteBatch:
    """The function that writes the batches of a flow."""
    if flow.target.format == TOPICS:
        from ottla.spark.pipelines.topic_batches import TopicBatches

        return TopicBatches(flow.name, flow.target, Checkpoint(checkpoint))
    if flow.target.format == POSTGRESQL:
        from ottla.spark.pipelines.postgres_batches import PostgresBatches

        return PostgresBatches(flow.name, flow.target, Checkpoint(checkpoint))
    if flow.target.table is not None:
        from ottla.spark.pipelines.table_batches import TableBatches

        return TableBatches(flow.name, flow.target)
    return _Appended(flow)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where Spark keeps the progress of a query."""

    path: str

    def query_id(self, rows: DataFrame) -> str:
        """The id of the query, as Spark wrote it there: with Spark Connect a batch does not tell it."""
        (line,) = rows.sparkSession.read.text(f"{self.path}/metadata").collect()
        return str(json.loads(line[0])["id"])


@dataclass(frozen=True, slots=True)
class _Appended:
    """A batch that was cut short by a crash is written again."""

    flow: Flow

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        rows.write.format(self.flow.target.format).options(**self.flow.target.options).mode("append").save()
