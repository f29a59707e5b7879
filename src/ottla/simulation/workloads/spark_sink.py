"""Spark's exactly-once sink, with the steps that real queries take: spark/sink/transactions.py decides, this acts in
virtual time as tasks and driver of a query that copies the numbers' topic.

1. A batch is a range of offsets, planned and remembered before it begins, as Spark's checkpoint does; it is repeated
   under the same id until its commit has succeeded. The checkpoint survives kill -9, nothing else does.
2. A copy is a `send` with `source`, as in copying.py, and the checkpoint at the end is `final-committed`: each record
   below it must have been copied once.
3. A batch whose transactions timed out is repeated as it is. How the sink stages such a batch is tried on its model and
   on a real broker (tests/unit/spark/sink, tests/spark/test_sink_staging.py), not here.
4. Tasks have twins at times, drivers die between any two steps, a failed batch is aborted or left as it is, and a
   repetition may have another number of tasks. When the sink says that it needs the number it had, the next is tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any, Final, TypeVar

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.producer.async_producer import AsyncProducer
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.simulation.workloads.base import CALL_S, ERRORS, close_quietly, describe, name_of
from ottla.simulation.workloads.transactions import Transactional
from ottla.spark.sink.coordinator_calls import CoordinatorCalls
from ottla.spark.sink.leftovers import abort_open
from ottla.spark.sink.markers import SinkNames
from ottla.spark.sink.step_kinds import (
    AddMarker,
    End,
    Fence,
    LayoutChanged,
    Look,
    Step,
    TakeOver,
    TaskResult,
    Together,
    Write,
    Written,
)
from ottla.spark.sink.transactions import abort_steps, commit_steps, task_steps
from ottla.values import TopicPartition

R = TypeVar("R")

GROUP: Final = "spark sink"
NAMES: Final = SinkNames("sink", "query", "sink-markers")
TASKS: Final = 3  # at most
BATCH_OFFSETS: Final = 8  # of a partition, at most
TWINS: Final = 0.1
OTHER_LAYOUT: Final = 0.3
LEFT_OPEN: Final = 0.5
DEATHS: Final = 0.03  # of drivers, before a step
NOT_STAGED: Final = 0.0  # a time before every time-out: batches here are short enough to be repeated as they are


class DriverDied(Exception):
    """And its tasks with it; the next driver goes on from the checkpoint."""


@dataclass
class Batch:
    """What the checkpoint says of the batch that has begun."""

    number: int
    rows: Sequence[tuple[TopicPartition, int]]
    ends: dict[TopicPartition, int]
    tasks: int

    def rows_of(self, task: int) -> Sequence[tuple[TopicPartition, int]]:
        return self.rows[task :: self.tasks]


class SparkSink(Transactional):
    """See the module."""

    def __init__(self, *arguments: Any, source: Sequence[TopicPartition], target: str) -> None:
        super().__init__(*arguments, transactional_id=NAMES.transactional_id(0))
        self._source, self._target = source, target
        self._done = dict.fromkeys(source, 0)
        self._batch: Batch | None = None
        self._next_batch = 0
        self._txns: dict[tuple[int, int], int] = {}  # numbers in the history, by producer id and epoch

    async def run(self) -> None:
        admin = self.admin()
        try:
            while self._batch is not None or not self.is_stopping:
                await self._one_batch(admin)
        finally:
            await close_quietly(admin)
        done = {name_of(each): offset for each, offset in self._done.items()}
        self.history.invoke(self.name, "final-committed", group=GROUP).ok(offsets=done)

    async def _one_batch(self, admin: AsyncAdmin) -> None:
        try:
            batch = self._batch = self._batch or await self._plan(admin)
            if batch is None:
                await self.pause(self.paced_s(0.5))
                return
            await _Attempt(self, admin, batch).run()
        except LayoutChanged:
            assert self._batch is not None, "a batch has failed"
            self._batch.tasks = self._batch.tasks % TASKS + 1
        except (*ERRORS, DriverDied):
            await self.pause(self.paced_s(0.5))
            if self._batch is not None and self.random.random() < OTHER_LAYOUT:
                self._batch.tasks = self.random.randint(1, TASKS)
        else:
            self._done, self._batch = {**self._done, **batch.ends}, None

    async def _plan(self, admin: AsyncAdmin) -> Batch | None:
        found = await admin.list_offsets(dict.fromkeys(self._source, OffsetSpec.LATEST))
        rows, ends = [], {}
        for partition, start in self._done.items():
            ends[partition] = min(start + BATCH_OFFSETS, found[partition].offset)
            rows += [(partition, offset) for offset in range(start, ends[partition])]
        if not rows:
            return None
        self._next_batch += 1
        return Batch(self._next_batch, rows, ends, self.random.randint(1, TASKS))

    # --- for attempts ---

    async def write(self, producer: AsyncProducer, rows: Sequence[tuple[TopicPartition, int]]) -> PreparedTransaction:
        """All rows in one transaction, which stays open."""
        txn = await self.begin(producer)
        facts = {"client": f"{self.name} {txn}", "group": GROUP}
        for partition, offset in rows:
            target = TopicPartition(self._target, partition.partition)
            await self.send(producer, txn, target, source=[name_of(partition), offset], **facts)
        prepared = await producer.prepare_transaction(self.paced_s(CALL_S))
        self._txns[prepared.producer_id, prepared.producer_epoch] = txn
        return prepared

    async def end_prepared(self, calls: CoordinatorCalls, step: End) -> PreparedTransaction | OttlaError | None:
        """End a transaction, written down."""
        txn = self._txns[step.prepared.producer_id, step.prepared.producer_epoch]
        ending = self.history.invoke(self.name, "end", txn=txn, wants="commit" if step.commit else "abort")
        try:
            refusal = await calls.send(step)
        except ERRORS as error:
            ending.info(describe(error))
            raise
        if isinstance(refusal, OttlaError):
            ending.info(describe(refusal))
        else:
            ending.ok()
        return refusal


class _Attempt:
    """One attempt of one batch: all tasks, then the driver's commit."""

    def __init__(self, query: SparkSink, admin: AsyncAdmin, batch: Batch) -> None:
        self._query, self._admin, self._batch = query, admin, batch
        self._calls = CoordinatorCalls(admin, NAMES, set())
        self._draw = query.random.random

    async def run(self) -> None:
        tasks = [asyncio.ensure_future(self._run_task(task)) for task in range(self._batch.tasks)]
        try:
            results = await asyncio.gather(*tasks)
            await carry_out(commit_steps(self._batch.number, results, NAMES, NOT_STAGED), self._act)
            self._may_die()
        except (*ERRORS, DriverDied) as error:
            await _cancel(tasks)
            if not isinstance(error, DriverDied) and self._draw() > LEFT_OPEN:
                await self._abort(tasks)
            raise
        try:
            await abort_open(self._admin, NAMES, range(self._batch.tasks, TASKS))
        except ERRORS:
            pass  # a courtesy: the time-out does it later

    async def _abort(self, tasks: Sequence[asyncio.Future[TaskResult]]) -> None:
        results = [None if each.cancelled() or each.exception() is not None else each.result() for each in tasks]
        try:
            await carry_out(abort_steps(self._batch.number, results), self._act)
        except ERRORS:
            pass  # what is left open ends with the next attempt

    async def _run_task(self, task: int) -> TaskResult:
        """One attempt, or two at the same time: the first that succeeds counts, the other is killed."""
        count = 2 if self._draw() < TWINS else 1
        attempts = [_Task(self._query, self._calls, self._batch, task) for _ in range(count)]
        running = [asyncio.ensure_future(each.run()) for each in attempts]
        try:
            while True:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                ended = min((each for each in running if each.done()), key=lambda each: each.exception() is not None)
                running.remove(ended)
                if ended.exception() is None or not running:
                    return ended.result()
        finally:
            await _cancel(running)

    def _may_die(self) -> None:
        if self._draw() < DEATHS:
            raise DriverDied

    async def _act(self, step: Step) -> Any:
        self._may_die()
        match step:
            case Look(tasks, is_final):
                return await self._calls.read_markers(tasks, is_final)
            case Together(steps):
                if any(isinstance(each, AddMarker) for each in steps):
                    await self._calls.ensure_marker_topic()
                return await asyncio.gather(*(self._act(each) for each in steps))
            case Fence(tasks):
                return await abort_open(self._admin, NAMES, tasks)
            case AddMarker():
                return await self._calls.send(step)
            case End():
                return await self._query.end_prepared(self._calls, step)
        raise AssertionError(f"a driver does not {step}")


class _Task:
    """One attempt of one task."""

    def __init__(self, query: SparkSink, calls: CoordinatorCalls, batch: Batch, task: int) -> None:
        self._query, self._calls, self._number, self._task = query, calls, batch.number, task
        self._rows = batch.rows_of(task)
        self._producer: AsyncProducer | None = None

    async def run(self) -> TaskResult:
        steps = task_steps(self._number, self._task, NAMES, is_empty=not self._rows)
        try:
            return await carry_out(steps, self._act)
        finally:
            if self._producer is not None:
                await close_quietly(self._producer)

    async def _act(self, step: Step) -> Any:
        match step:
            case Look(tasks, is_final):
                return await self._calls.read_markers(tasks, is_final)
            case TakeOver():
                self._producer = await self._query.ready_producer(NAMES.transactional_id(self._task))
                return None
            case Write():
                assert self._producer is not None, "the id was taken over"
                return Written(self._task, await self._query.write(self._producer, self._rows), len(self._rows))
            case End():
                return await self._query.end_prepared(self._calls, step)
        raise AssertionError(f"a task does not {step}")


async def carry_out(steps: Generator[Step, Any, R], act: Any) -> R:
    """Go through all steps; returns what they come to."""
    answer = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            result: R = end.value
            return result
        answer = await act(step)


async def _cancel(tasks: Any) -> None:
    """Killed, as Spark kills tasks whose batch has failed."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
