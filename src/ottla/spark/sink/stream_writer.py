"""df.writeStream.format("ottla"): every micro-batch once, however often its tasks and its driver die.

    df.writeStream.format("ottla").option("kafka.bootstrap.servers", "localhost:9092").option("topic", "clicks") \\
        .option("checkpointLocation", "/data/checkpoints/clicks").start()

1. Spark calls write() once per task, in worker processes, with the batch id and the query's id in its local
   properties; then commit() with what all write() calls gave, in a Python process of the driver. Who decides what is in
   sink_transactions.py, how it is done in sink_steps.py.
2. deliveryGuarantee=at-least-once: write() returns when all rows are acknowledged, commit() has nothing to do.
3. Readers see a batch once they read read_committed; parts of it may show before others unless singleTransaction is on.
4. abort() is a courtesy: what it does not clean up is ended by the next write() of the same task, or times out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.errors import OttlaError
from ottla.spark.option_table import InvalidOption
from ottla.spark.sink.clients import sink_clients
from ottla.spark.sink.leftovers import abort_leftovers
from ottla.spark.sink.markers import SinkNames
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.rows import TaskRows, chosen_columns
from ottla.spark.sink.steps import SinkActions, carry_out
from ottla.spark.sink.transactions import Step, TaskResult, abort_steps, commit_steps, task_steps

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"


class NotInAQuery(OttlaError):
    """The stream sink runs outside a streaming query: Spark did not tell the batch id. Use df.write for a batch."""


@dataclass(frozen=True)
class SinkMessage(WriterCommitMessage):
    """What a task tells the driver; without a result when nothing is left to be committed."""

    row_count: int
    query_id: str = ""
    result: TaskResult | None = None


def send_at_least_once(options: SinkOptions, rows: TaskRows) -> SinkMessage:
    """Write all rows and wait for their acknowledgements."""
    clients = sink_clients(options)
    producer = clients.producer()
    try:
        rows.send(producer, options.topic)
        producer.flush()
    except BaseException:
        clients.drop(None)
        raise
    return SinkMessage(rows.row_count)


def check_single(options: SinkOptions, task: int, rows: TaskRows) -> None:
    """With singleTransaction only the first task may have rows."""
    if options.single_transaction and task > 0 and not rows.is_empty:
        raise InvalidOption(
            "singleTransaction is on and the rows are in several partitions; write df.coalesce(1), so that one task"
            " writes them in one transaction"
        )


class StreamSink(DataSourceStreamArrowWriter):
    """The sink of one streaming query; made anew for every batch and for every commit."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = SinkOptions.parse(options, streaming=True)
        self.columns = chosen_columns(schema, self.options)

    def passing(self, step: Step, is_done: bool) -> None:
        """Called before and after every step; does nothing. Tests end the process here."""

    # --- in a worker process ------------------------------------------------------------------------------------------

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> SinkMessage:
        context = TaskContext.get()
        if context is None:
            raise NotInAQuery
        batch_id, query_id = context.getLocalProperty(BATCH_ID), context.getLocalProperty(QUERY_ID)
        if batch_id is None or query_id is None:
            raise NotInAQuery
        return self.write_task(query_id, int(batch_id), context.partitionId(), iterator)

    def write_task(
        self, query_id: str, batch_id: int, task: int, batches: Iterator[pyarrow.RecordBatch]
    ) -> SinkMessage:
        """One attempt of one task."""
        rows = TaskRows(batches, self.columns)
        if not self.options.is_exactly_once:
            return send_at_least_once(self.options, rows)
        check_single(self.options, task, rows)
        actions = self._actions(query_id, rows)
        result = carry_out(task_steps(batch_id, task, self._names(query_id), is_empty=rows.is_empty), actions.act)
        return SinkMessage(rows.row_count, query_id, result)

    # --- on the driver ------------------------------------------------------------------------------------------------

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        query_id, results = _told(messages)
        if query_id is None:
            return
        done = [each for each in results if each is not None]
        names = self._names(query_id)
        carry_out(commit_steps(batchId, done, names), self._actions(query_id).act)
        abort_leftovers(sink_clients(self.options), names, len(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        query_id, results = _told(messages)
        if query_id is None:
            return
        sink_clients(self.options).known_tasks.pop(query_id, None)  # the next run may have other tasks
        try:
            carry_out(abort_steps(results), self._actions(query_id).act)
        except OttlaError as error:
            # The reason for the abort is the one to see; what is left open ends by itself.
            log.warning("batch %d could not be aborted; its transactions end with the next attempt: %s", batchId, error)

    def _names(self, query_id: str) -> SinkNames:
        return SinkNames(self.options.transactional_id_prefix, query_id, self.options.marker_topic)

    def _actions(self, query_id: str, rows: TaskRows | None = None) -> SinkActions:
        clients = sink_clients(self.options)
        return SinkActions(clients, self.options, self._names(query_id), passing=self.passing, rows=rows)


def _told(messages: Sequence[WriterCommitMessage | None]) -> tuple[str | None, list[TaskResult | None]]:
    """The query and the results of tasks that have one; no query when there is nothing to end."""
    known = [each if isinstance(each, SinkMessage) else None for each in messages]
    query_id = next((each.query_id for each in known if each is not None and each.result is not None), None)
    return query_id, [None if each is None else each.result for each in known]
