"""Carries out the steps that transactions.py decides on, with the clients of this process.

1. What is asked of coordinators is coordinator_calls.py: an answer that refuses for good is a value; everything else
   that goes wrong (no connection, no right, time is over) is raised and fails the task or the commit. Spark repeats.
2. Steps that may run together do, so a commit takes as long with a hundred tasks as with one.
"""

from __future__ import annotations

import time
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
from ottla.spark.sink.staging_topic import Copier, stage_rows
from ottla.spark.sink.step_kinds import (
    AddMarker,
    BeginCopy,
    Claim,
    Clear,
    CopyPart,
    End,
    Fence,
    Look,
    Stage,
    Step,
    TakeOver,
    TimedOut,
    Together,
    Write,
    Written,
)

R = TypeVar("R")


class TransactionTimeoutRefused(OttlaError):
    """The brokers do not allow transactions to stay open as long as this sink asks for.
    Raise transaction.max.timeout.ms on the brokers; or set the option kafka.transaction.timeout.ms to what they allow,
    and driverRecovery to less than that if the driver is really restarted so quickly."""

    invalid_configuration = True


class TaskFenced(OttlaError):
    """The transaction of this task was ended while it wrote: by its time-out (kafka.transaction.timeout.ms), or by
    another attempt of the task (speculation, a second driver with the same checkpoint). Nothing of it was committed."""


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
        self._copier: Copier | None = None
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

    def _act_alone(self, step: Step) -> Any:
        match step:
            case Fence(tasks):
                return self._clients.run(abort_open(self._clients.admin, self._names, tasks))
            case Look(tasks, is_final):
                return self._clients.run(self._calls.read_markers(tasks, is_final))
            case TakeOver(task):
                return self._take_over(task)
            case Claim(task):
                return self._claim(task)
            case Write(task):
                return self._write(task)
            case Stage(task, batch_id, prepared):
                return self._stage(task, batch_id, prepared)
            case BeginCopy(batch_id):
                self._copier = Copier(self._clients, self._options, self._names, batch_id)
                return self._copying(self._copier.begin)
            case CopyPart(_, decision):
                copier = self._began_copy()
                return self._copying(lambda: copier.copy_part(decision))
            case Clear():
                return self._began_copy().clear()
        raise AssertionError(f"{step} is not done alone")

    async def _send(self, step: AddMarker | End) -> PreparedTransaction | OttlaError | None:
        self._passing(step, False)
        answer = await self._calls.send(step)
        self._passing(step, True)
        return answer

    # --- the task's own transaction -----------------------------------------------------------------------------------

    def _take_over(self, task: int) -> None:
        transactional_id = self._names.transactional_id(task)
        take_over(self._clients, self._options, transactional_id)

    def _claim(self, task: int) -> PreparedTransaction:
        """An empty transaction: its id and epoch are ours."""
        transactional_id = self._names.transactional_id(task)
        take_over(self._clients, self._options, transactional_id)
        producer = self._clients.producer(transactional_id)
        producer.begin_transaction()
        prepared = producer.prepare_transaction()
        self._clients.has_prepared(transactional_id)
        return prepared

    def _write(self, task: int) -> Written | TimedOut:
        assert self._rows is not None, "only a task writes"
        timeout_s, began_s = self._options.transaction_timeout_ms / 1000, time.monotonic()
        ends_s = time.time() + timeout_s
        try:
            prepared = write_rows(self._clients, self._options, self._names.transactional_id(task), self._rows)
        except TaskFenced as error:
            if time.monotonic() - began_s < timeout_s:
                raise
            return TimedOut(f"its transaction was over after {timeout_s:g} s ({error.__cause__})")
        return Written(task, prepared, self._rows.row_count, ends_s)

    # --- staged rows --------------------------------------------------------------------------------------------------

    def _stage(self, task: int, batch_id: int, prepared: PreparedTransaction) -> int:
        assert self._rows is not None, "only a task writes"
        stage_rows(self._clients, self._options, self._names.staging_topic(batch_id), task, prepared, self._rows)
        return self._rows.row_count

    def _began_copy(self) -> Copier:
        assert self._copier is not None, "a copy is begun first"
        return self._copier

    def _copying(self, act: Callable[[], bool]) -> bool:
        """A copier that failed is not used again; the next one fences it and goes on."""
        try:
            return act()
        except BaseException:
            self._clients.drop(self._names.copier_id)
            raise


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
