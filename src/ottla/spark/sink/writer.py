"""df.write.format("ottla"): one job, all or nothing.

    df.write.format("ottla").option("kafka.bootstrap.servers", "localhost:9092").option("topic", "clicks") \\
        .mode("append").save()

1. exactly-once, the default: each task writes in a transaction of its own and leaves it open. When all tasks are done
   the driver checks that all are still open, ends them, and aborts what other attempts left. If the job fails before
   that, nothing shows. A driver that dies between two ends leaves a part: nobody finishes a batch without a batchId.
   singleTransaction (with coalesce(1)) closes that gap, and so does batchId (numbered_writer.py).
2. Every attempt has its own transactional id, <prefix>-<job>-<run>-<task>-<attempt>: twins do not disturb each other,
   the driver commits the attempt that Spark chose. The run is drawn when the writer is made, on the driver; Spark hands
   the same object to the tasks and to commit().
3. A run of a jobName first aborts what killed runs of the same jobName left open. They would hold back readers of
   committed records until their time-out (five minutes). Without a jobName nobody can tell whose they are.
4. at-least-once: rows show as they are written; a task that is tried again writes its rows again.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.spark.running.arrival import Arriving
from ottla.spark.sink.clients import SinkClients, sink_clients
from ottla.spark.sink.coordinator_calls import REFUSALS
from ottla.spark.sink.marked_batches import check_single, send_at_least_once
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.rows import TaskRows, chosen_columns
from ottla.spark.sink.steps import take_over, write_rows
from ottla.spark.tokens.handout import with_login

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

ONGOING: Final = "Ongoing"
NOT_ENDED: Final = ("Empty", ONGOING)
"""What an attempt that is still at work may leave: it has its id and will write, or has written."""
ATTEMPT_OF_A_RUN: Final = r"[0-9a-f]{32}-\d+-\d+"
LAST_LOOK_S: Final = 1.0
"""An attempt that Spark kills may begin its transaction a moment after the job was aborted."""


class JobNotCommitted(OttlaError):
    """Transactions of this job are not open any more, most likely because they timed out, and nothing was committed.
    Write again; if they timed out, raise kafka.transaction.timeout.ms or write in smaller parts."""


class JobPartlyCommitted(OttlaError):
    """Some transactions of this job were committed and others could not be: the topic has a part of the rows.
    What is there is named; write the rest, or write with singleTransaction=true and coalesce(1)."""


@dataclass(frozen=True)
class JobMessage(WriterCommitMessage):
    """What a task reports to the driver."""

    row_count: int
    prepared: PreparedTransaction | None = None


class BatchSink(Arriving, DataSourceArrowWriter):
    """The sink of one job."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = with_login(SinkOptions.parse(options, streaming=False))
        self.columns = chosen_columns(schema, self.options)
        prefix, job = self.options.transactional_id_prefix, self.options.job_name
        self.runs_prefix = f"{prefix}-{job}-" if job is not None else None
        self.job_prefix = f"{self.runs_prefix or prefix + '-'}{uuid.uuid4().hex}-"

    def abort_former_runs(self) -> None:
        """Called on the driver before the first task."""
        if self.runs_prefix is not None:
            former = re.compile(re.escape(self.runs_prefix) + ATTEMPT_OF_A_RUN)
            self._abort_open(lambda transactional_id: former.fullmatch(transactional_id) is not None)

    # --- in a worker process ------------------------------------------------------------------------------------------

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        task, attempt = (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
        return self.write_task(task, attempt, iterator)

    def write_task(self, task: int, attempt: int, batches: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """One attempt of one task."""
        rows = TaskRows(batches, self.columns, self.options)
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
        self.options = with_login(self.options)  # of now: the tasks may have taken long
        clients = sink_clients(self.options)
        self._check_open(clients, prepared)
        answers = clients.run_all([_ended(clients, each, commit=True) for each in prepared])
        refused = [str(answer) for answer in answers if answer is not None]
        self._abort_leftovers()
        if refused:
            done = [each.transactional_id for each, answer in zip(prepared, answers, strict=True) if answer is None]
            kind = JobPartlyCommitted if done else JobNotCommitted
            raise kind(f"{refused[0]}; committed: {', '.join(done) or 'none'}")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if not self.options.is_exactly_once:
            return
        self.options = with_login(self.options)
        self._abort_leftovers()
        if any(each is None for each in messages):
            time.sleep(LAST_LOOK_S)
            self._abort_leftovers()

    def _check_open(self, clients: SinkClients, prepared: Sequence[PreparedTransaction]) -> None:
        """Before the first end: when one of them is gone, none is to be committed."""
        names = [each.transactional_id for each in prepared]
        found = clients.run(clients.admin.describe_transactions(names))
        for each in prepared:
            state = found[each.transactional_id]
            if (state.state, state.producer_epoch) != (ONGOING, each.producer_epoch):
                raise JobNotCommitted(f"{each.transactional_id} is {state.state}")

    def _abort_leftovers(self) -> None:
        """What other attempts of this run left open."""
        self._abort_open(lambda transactional_id: transactional_id.startswith(self.job_prefix))

    def _abort_open(self, is_left: Callable[[str], bool]) -> None:
        """An open transaction holds back readers until it times out."""
        clients = sink_clients(self.options)
        try:
            listed = clients.run(clients.admin.list_transactions(states=NOT_ENDED))
            left = [each.transactional_id for each in listed if is_left(each.transactional_id)]
            if left:
                clients.run(clients.admin.fence_producers(left))
        except OttlaError as error:
            # The job's own outcome is the one to see; what is left open ends by itself.
            log.warning("transactions of earlier attempts could not be aborted and will time out: %s", error)


async def _ended(clients: SinkClients, prepared: PreparedTransaction, *, commit: bool) -> OttlaError | None:
    try:
        await clients.admin.end_transaction(prepared, commit=commit)
    except REFUSALS as refusal:
        return refusal
    return None
