"""df.write with jobName and batchId: each number is written once, however often the job is killed and run again.

    def write(rows, batch_id):                                     # for foreachBatch
        rows.write.format("ottla").options(**servers, topic="totals", jobName="totals", batchId=batch_id) \\
            .mode("append").save()

1. It is the stream sink's machinery under another name: the name of the job stands for the id of the query. A number
   that is decided already is finished and not written again; an aborted one is written again; a smaller number
   than the last is refused (BatchSuperseded).
2. One jobName is for one write. A function that writes two topics needs two names: the second write of the same name
   and number would be mistaken for a repetition of the first, and its rows would not be written.
3. Ids are <prefix>-<jobName>-batches-<task>. The word in between keeps names apart: without it the second group of
   markers of "a" would be the first of "a-1".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage

from ottla.spark.running.arrival import Arriving
from ottla.spark.sink.marked_batches import MarkedBatches, SinkMessage
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.rows import chosen_columns
from ottla.spark.sink.writer import BatchSink
from ottla.spark.tokens.handout import with_login

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType


def batch_sink(options: Mapping[str, str], schema: StructType) -> DataSourceWriter:
    """The sink of a df.write, ready for its first task."""
    if SinkOptions.parse(options, streaming=False).batch_id is not None:
        return NumberedSink(options, schema)
    sink = BatchSink(options, schema)
    sink.abort_former_runs()
    return sink


class NumberedSink(Arriving, MarkedBatches, DataSourceArrowWriter):
    """The sink of one batch of a job."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = with_login(SinkOptions.parse(options, streaming=False))
        self.columns = chosen_columns(schema, self.options)
        assert self.options.job_name is not None, "batchId needs jobName"
        assert self.options.batch_id is not None, "this sink is for batches with a batchId"
        self.query_id, self.batch_id = f"{self.options.job_name}-batches", self.options.batch_id

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> SinkMessage:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        return self.write_task(self.query_id, self.batch_id, task, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.options = with_login(self.options)  # of now: the tasks may have taken long
        self.commit_batch(self.query_id, messages, self.batch_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.options = with_login(self.options)
        self.abort_batch(self.query_id, messages, self.batch_id)
