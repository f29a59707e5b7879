"""Carries out the steps that transactions.py decides on, with the clients of this process.

1. What is asked of coordinators is coordinator_calls.py: an answer that refuses for good is a value; everything else
   that goes wrong (no connection, no right, time is over) is raised and fails the task or the commit. Spark repeats.
2. Steps that may run together do, so a commit takes as long with a hundred tasks as with one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import InvalidTransactionTimeout, OttlaError
from ottla.spark.sink.clients import SinkClients
from ottla.spark.sink.coordinator_calls import REFUSALS, CoordinatorCalls
from ottla.spark.sink.leftovers import abort_open
from ottla.spark.sink.markers import SinkNames
from ottla.spark.sink.options import TRANSACTION_TIMEOUT, SinkOptions
from ottla.spark.sink.rows import TaskRows
from ottla.spark.sink.signals import ended_by_signals
from ottla.spark.sink.transactions import AddMarker, End, Fence, Look, Step, TakeOver, Together, Write

R = TypeVar("R")


class TransactionTimeoutRefused(OttlaError):
    """The brokers do not allow transactions to stay open as long as this sink asks for.
    Raise transaction.max.timeout.ms on the brokers; or set the option kafka.transaction.timeout.ms to what they allow,
    and driverRecovery to less than that if the driver is really restarted so quickly."""

    invalid_configuration = True


class TaskFenced(OttlaError):
    """Another attempt of this task has replaced its transaction, or the transaction timed out while rows were
    written. If there is no other attempt (speculation, a second driver with the same checkpoint), raise
    kafka.transaction.timeout.ms or make batches smaller."""


def carry_out(steps: Generator[Step, Any, R], act: Callable[[Step], Any]) -> R:
    """Go through all steps; returns what they come to."""
    answer = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            result: R = end.value
            return result
        answer = act(step)


class SinkActions:
    """What can be asked of the cluster for one query, by a task (with rows) or by the driver (without)."""

    def __init__(
        self,
        clients: SinkClients,
        options: SinkOptions,
        names: SinkNames,
        *,
        passing: Callable[[Step, bool], None],
        rows: TaskRows | None = None,
    ) -> None:
        self._clients, self._options, self._names = clients, options, names
        self._passing, self._rows = passing, rows
        self._calls = CoordinatorCalls(clients.admin, names, clients.marker_topics)

    def act(self, step: Step) -> Any:
        match step:
            case Together(steps):
                if any(isinstance(each, AddMarker) for each in steps):
                    self._clients.run(self._calls.ensure_marker_topic())
                return self._clients.run_all([self._send(each) for each in steps])
            case AddMarker() | End():
                return self._clients.run(self._send(step))
        self._passing(step, False)
        answer = self._act_alone(step)
        self._passing(step, True)
        return answer

    def _act_alone(self, step: Look | TakeOver | Write | Fence) -> Any:
        match step:
            case Fence(tasks):
                return self._clients.run(abort_open(self._clients.admin, self._names, tasks))
            case Look(tasks, is_final):
                return self._clients.run(self._calls.read_markers(tasks, is_final))
            case TakeOver(task):
                return self._take_over(task)
            case Write(task):
                return self._write(task)

    async def _send(self, step: AddMarker | End) -> PreparedTransaction | OttlaError | None:
        self._passing(step, False)
        answer = await self._calls.send(step)
        self._passing(step, True)
        return answer

    # --- the task's own transaction -----------------------------------------------------------------------------------

    def _take_over(self, task: int) -> None:
        transactional_id = self._names.transactional_id(task)
        take_over(self._clients, self._options, transactional_id)

    def _write(self, task: int) -> tuple[PreparedTransaction, int]:
        assert self._rows is not None, "only a task writes"
        prepared = write_rows(self._clients, self._options, self._names.transactional_id(task), self._rows)
        return prepared, self._rows.row_count


def take_over(clients: SinkClients, options: SinkOptions, transactional_id: str) -> None:
    """Make the id ours, with a higher epoch than anybody had before."""
    try:
        clients.producer_to_initialize(transactional_id).init_transactions()
    except InvalidTransactionTimeout as error:
        clients.drop(transactional_id)
        asked = f"{TRANSACTION_TIMEOUT}={options.transaction_timeout_ms}"
        raise TransactionTimeoutRefused(asked) from error
    except OttlaError:
        clients.drop(transactional_id)
        raise


def write_rows(
    clients: SinkClients, options: SinkOptions, transactional_id: str, rows: TaskRows
) -> PreparedTransaction:
    """All rows in one transaction, acknowledged, and the transaction left open."""
    producer = clients.producer(transactional_id)
    try:
        with ended_by_signals():
            producer.begin_transaction()
            rows.send(producer, options.topic)
            prepared = producer.prepare_transaction(options.transaction_timeout_ms / 1000)
    except BaseException as error:
        clients.drop(transactional_id)
        if isinstance(error, REFUSALS):
            raise TaskFenced(f"{transactional_id}: {error}") from error
        raise
    clients.has_prepared(transactional_id)
    return prepared
