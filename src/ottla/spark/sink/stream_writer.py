"""df.writeStream.format("ottla"): every micro-batch once, however often its tasks and its driver die.

    df.writeStream.format("ottla").option("kafka.bootstrap.servers", "localhost:9092").option("topic", "clicks") \\
        .option("checkpointLocation", "/data/checkpoints/clicks").start()

1. Spark calls write() once per task, in worker processes, with the batch id and the query's id in its local
   properties; then commit() with what all write() calls returned, in a Python process of the driver. marked_batches.py
   does the rest.
2. deliveryGuarantee=at-least-once: write() returns when all rows are acknowledged, commit() has nothing to do.
3. Readers see a batch once they read read_committed; parts of it may show before others unless singleTransaction is on.
4. A batch that was planned before the markers of its query may have been forgotten is not written without a word: where
   the checkpoint is on this machine, commit() refuses it.
5. abort() after a query was stopped in the middle of a batch may come without any message. Then the id of the query is
   read from its checkpoint, if that is on a disk of this machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.errors import OttlaError
from ottla.spark.running.arrival import Arriving
from ottla.spark.sink.marked_batches import MarkedBatches, SinkMessage, query_id_of
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.rows import chosen_columns
from ottla.spark.sink.step_kinds import Look
from ottla.spark.tokens.handout import with_login

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
CHECKPOINT: Final = "checkpointlocation"
OFFSETS_RETENTION_S: Final = 7 * 24 * 3600
"""offsets.retention.minutes, unless brokers say otherwise."""


class NotInAQuery(OttlaError):
    """The stream sink runs outside a streaming query: Spark did not tell the batch id. Use df.write for a batch."""


class BatchForgotten(OttlaError):
    """This batch was planned by an earlier run, longer ago than brokers keep offsets of a group that nobody uses
    (offsets.retention.minutes), and there is no marker of this query: nobody knows whether the batch was written. Look
    into the topic. If it was not, touch the named file and start the query again, it is written then; if it was, copy
    the file of the batch before it in the checkpoint's `commits` to its number, it is passed over then."""

    invalid_configuration = True


class StreamSink(Arriving, MarkedBatches, DataSourceStreamArrowWriter):
    """The sink of one streaming query; made again for every batch and for every commit."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = with_login(SinkOptions.parse(options, streaming=True))
        self.columns = chosen_columns(schema, self.options)
        self.checkpoint = {name.lower(): value for name, value in options.items()}.get(CHECKPOINT)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> SinkMessage:
        context = TaskContext.get()
        if context is None:
            raise NotInAQuery
        batch_id, query_id = context.getLocalProperty(BATCH_ID), context.getLocalProperty(QUERY_ID)
        if batch_id is None or query_id is None:
            raise NotInAQuery
        return self.write_task(query_id, int(batch_id), context.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        query_id = query_id_of(messages)
        if query_id is not None:
            if self.options.is_exactly_once:
                self._refuse_forgotten(query_id, batchId)
            self.commit_batch(query_id, messages, batchId)

    def _refuse_forgotten(self, query_id: str, batch_id: int) -> None:
        """A crash in the middle of a commit may have been so long ago that its decision is forgotten."""
        planned = planned_s(self.checkpoint, batch_id)
        if planned is None or time.time() - planned < OFFSETS_RETENTION_S:
            return
        (marker,) = self._actions(query_id).act(Look((0,), is_final=True)).values()
        if marker.batch_id < 0:
            raise BatchForgotten(f"batch {batch_id}, planned in {self.checkpoint}/offsets/{batch_id}")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        query_id = query_id_of(messages) or checkpoint_query_id(self.checkpoint)
        if query_id is not None and self.options.is_exactly_once:
            self.abort_batch(query_id, messages, batchId)


def planned_s(location: str | None, batch_id: int) -> float | None:
    """When Spark planned a batch (Unix time), by its checkpoint; None if it cannot be seen from this machine."""
    directory = _local(location)
    try:
        return None if directory is None else (directory / "offsets" / str(batch_id)).stat().st_mtime
    except OSError:
        return None


def _local(location: str | None) -> Path | None:
    place = urlsplit(location or "")
    if not place.path or place.scheme not in ("", "file"):
        return None
    return Path(unquote(place.path))


def checkpoint_query_id(location: str | None) -> str | None:
    """The id of the query that has its checkpoint there; None if it cannot be read from this machine."""
    directory = _local(location)
    if directory is None:
        return None
    try:
        found = json.loads((directory / "metadata").read_text())["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(found)
