"""df.write.format("ottla"): one job, all or nothing.

    df.write.format("ottla").option("kafka.bootstrap.servers", "localhost:9092").option("topic", "clicks") \\
        .mode("append").save()

1. exactly-once, the default: each task writes in a transaction of its own and leaves it open. When all tasks are done
   the driver looks whether all are still open, ends them, and aborts what other attempts left. If the job fails before
   that, nothing shows. A driver that dies between two ends leaves a part: a batch has no second run that would finish
   it. singleTransaction (with coalesce(1)) closes that gap.
2. Every attempt has its own transactional id, <prefix>-<job>-<task>-<attempt>: twins do not disturb each other, the
   driver commits the one that Spark chose. The job's id is drawn when the writer is made, on the driver; Spark hands
   the same object to the tasks and to commit().
3. at-least-once: rows show as they are written; a task that is tried again writes its rows again.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import OttlaError
from ottla.spark.sink.clients import SinkClients, sink_clients
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.rows import TaskRows, chosen_columns
from ottla.spark.sink.steps import REFUSALS, take_over, write_rows
from ottla.spark.sink.stream_writer import check_single, send_at_least_once

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

ONGOING: Final = "Ongoing"
NOT_ENDED: Final = ("Empty", ONGOING)
"""What an attempt that is still at work may leave: it has its id and will write, or has written."""
LAST_LOOK_S: Final = 1.0
"""An attempt that Spark kills may begin its transaction a moment after the job was given up."""


class JobNotCommitted(OttlaError):
    """Transactions of this job are not open any more, most likely because they timed out, and nothing was committed.
    Write again; if they timed out, raise kafka.transaction.timeout.ms or write in smaller parts."""


class JobPartlyCommitted(OttlaError):
    """Some transactions of this job were committed and others could not be: the topic has a part of the rows.
    What is there is named; write the rest, or write with singleTransaction=true and coalesce(1)."""


@dataclass(frozen=True)
class JobMessage(WriterCommitMessage):
    """What a task tells the driver."""

    row_count: int
    prepared: PreparedTransaction | None = None


class BatchSink(DataSourceArrowWriter):
    """The sink of one job."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = SinkOptions.parse(options, streaming=False)
        self.columns = chosen_columns(schema, self.options)
        self.job_prefix = f"{self.options.transactional_id_prefix}-{uuid.uuid4().hex}-"

    # --- in a worker process ------------------------------------------------------------------------------------------

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        task, attempt = (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
        return self.write_task(task, attempt, iterator)

    def write_task(self, task: int, attempt: int, batches: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """One attempt of one task."""
        rows = TaskRows(batches, self.columns)
        if not self.options.is_exactly_once:
            return send_at_least_once(self.options, rows)
        check_single(self.options, task, rows)
        if rows.is_empty:
            return JobMessage(0)
        clients, transactional_id = sink_clients(self.options), f"{self.job_prefix}{task}-{attempt}"
        try:
            take_over(clients, self.options, transactional_id)
            prepared = write_rows(clients, self.options, transactional_id, rows)
        finally:
            clients.drop(transactional_id)  # nobody will use this id again
        return JobMessage(rows.row_count, prepared)

    # --- on the driver ------------------------------------------------------------------------------------------------

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        prepared = [each.prepared for each in messages if isinstance(each, JobMessage) and each.prepared is not None]
        if not prepared:
            return
        clients = sink_clients(self.options)
        self._check_open(clients, prepared)
        answers = clients.run_all([_ended(clients, each, commit=True) for each in prepared])
        refused = [str(answer) for answer in answers if answer is not None]
        self._abort_leftovers(clients)
        if refused:
            done = [each.transactional_id for each, answer in zip(prepared, answers, strict=True) if answer is None]
            kind = JobPartlyCommitted if done else JobNotCommitted
            raise kind(f"{refused[0]}; committed: {', '.join(done) or 'none'}")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if not self.options.is_exactly_once:
            return
        self._abort_leftovers(sink_clients(self.options))
        if any(each is None for each in messages):
            time.sleep(LAST_LOOK_S)
            self._abort_leftovers(sink_clients(self.options))

    def _check_open(self, clients: SinkClients, prepared: Sequence[PreparedTransaction]) -> None:
        """Before the first end: when one of them is gone, none is to be committed."""
        names = [each.transactional_id for each in prepared]
        found = clients.run(clients.admin.describe_transactions(names))
        for each in prepared:
            state = found[each.transactional_id]
            if (state.state, state.producer_epoch) != (ONGOING, each.producer_epoch):
                raise JobNotCommitted(f"{each.transactional_id} is {state.state}")

    def _abort_leftovers(self, clients: SinkClients) -> None:
        """What other attempts of this job left open would hold back readers until it times out."""
        try:
            listed = clients.run(clients.admin.list_transactions(states=NOT_ENDED))
            mine = [each.transactional_id for each in listed if each.transactional_id.startswith(self.job_prefix)]
            if mine:
                clients.run(clients.admin.fence_producers(mine))
        except OttlaError as error:
            # The job's own outcome is the one to see; what is left open ends by itself.
            log.warning("transactions of failed attempts could not be aborted and will time out: %s", error)


async def _ended(clients: SinkClients, prepared: PreparedTransaction, *, commit: bool) -> OttlaError | None:
    try:
        await clients.admin.end_transaction(prepared, commit=commit)
    except REFUSALS as refusal:
        return refusal
    return None
