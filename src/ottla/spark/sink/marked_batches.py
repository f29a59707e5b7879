"""Batches with numbers, each written once: what the sinks of a stream and of a numbered df.write have in common.

A batch has a name (the id of the query, or jobName) and a number. write_task() runs in a worker process for each task,
commit_batch() or abort_batch() on the driver with what the tasks returned. What has to be done is decided in
transactions.py and carried out by steps.py.

1. abort_batch() is a courtesy to readers: what it cannot clean up is ended by the next write of the same task, or by
   its time-out. Its own errors are logged only, so that the reason for the abort is the one to see.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.spark.option_table import InvalidOption
from ottla.spark.running.worker_exit import exit_quietly_when_closed
from ottla.spark.running.worker_memory import freeze_what_is_loaded
from ottla.spark.sink.clients import sink_clients
from ottla.spark.sink.leftovers import abort_leftovers
from ottla.spark.sink.markers import SinkNames
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.rows import TaskRows
from ottla.spark.sink.step_kinds import Finished, Staged, Step, TaskResult
from ottla.spark.sink.steps import SinkActions, carry_out
from ottla.spark.sink.transactions import abort_steps, commit_steps, task_steps

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger(__name__)

exit_quietly_when_closed()  # a worker that has only tasks imports no more than this


@dataclass(frozen=True)
class SinkMessage(WriterCommitMessage):
    """What a task reports to the driver; without a result when nothing is left to be committed."""

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


class MarkedBatches:
    """Writes, commits and aborts numbered batches. A sink inherits it and sets `options` and `columns`."""

    options: SinkOptions
    columns: tuple[str, ...]

    def passing(self, step: Step, is_done: bool) -> None:
        """Called before and after every step; does nothing. Tests end the process here."""

    def write_task(
        self, query_id: str, batch_id: int, task: int, batches: Iterator[pyarrow.RecordBatch]
    ) -> SinkMessage:
        """One attempt of one task, in a worker process."""
        freeze_what_is_loaded()
        rows = TaskRows(batches, self.columns, self.options)
        if not self.options.is_exactly_once:
            return send_at_least_once(self.options, rows)
        check_single(self.options, task, rows)
        actions = self._actions(query_id, rows)
        result = carry_out(task_steps(batch_id, task, self._names(query_id), is_empty=rows.is_empty), actions.act)
        return SinkMessage(rows.row_count, query_id, result)

    def commit_batch(self, query_id: str, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """All tasks are done: make the batch count."""
        results = [each for each in results_of(messages) if each is not None]
        if any(isinstance(each, Finished) for each in results):
            log.info("batch %d of %s was decided by an earlier run, which is finished now", batch_id, query_id)
        if any(isinstance(each, Staged) for each in results):
            log.info("batch %d of %s is copied from its staging topic", batch_id, query_id)
        names = self._names(query_id)
        carry_out(commit_steps(batch_id, results, names, time.time()), self._actions(query_id).act)
        abort_leftovers(sink_clients(self.options), names, len(messages))

    def abort_batch(self, query_id: str, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """A task failed or was killed: leave nothing open."""
        clients = sink_clients(self.options)
        clients.known_tasks.pop(query_id, None)  # the next run may have other tasks
        try:
            carry_out(abort_steps(batch_id, results_of(messages)), self._actions(query_id).act)
        except OttlaError as error:
            log.warning(
                "batch %d could not be aborted; its transactions end with the next attempt: %s", batch_id, error
            )

    def _names(self, query_id: str) -> SinkNames:
        return SinkNames(self.options.transactional_id_prefix, query_id, self.options.marker_topic)

    def _actions(self, query_id: str, rows: TaskRows | None = None) -> SinkActions:
        clients = sink_clients(self.options)
        return SinkActions(clients, self.options, self._names(query_id), passing=self.passing, rows=rows)


def results_of(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult | None]:
    """What each task came to; None for a task that did not end."""
    return [each.result if isinstance(each, SinkMessage) else None for each in messages]


def query_id_of(messages: Sequence[WriterCommitMessage | None]) -> str | None:
    """The query, as its tasks say it; None when no task has left anything to end."""
    return next((each.query_id for each in messages if isinstance(each, SinkMessage) and each.result is not None), None)
