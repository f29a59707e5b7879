"""A cluster, a checkpoint and drivers for tests of the sink's decisions: everything in memory, every step visible.

Rows are (batch, number). A run of the query goes through its batches from the checkpoint on, task after task, step
after step; `Run.step()` makes one step of it, so that a test may stop there (a crash), go on with another run in
between (a zombie), let a transaction time out, or run a task twice (a twin).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import InvalidTxnState, OttlaError, ProducerFenced
from ottla.spark.sink.markers import Decision, Marker, SinkNames
from ottla.spark.sink.step_kinds import (
    AddMarker,
    BatchSuperseded,
    BeginCopy,
    Claim,
    Clear,
    CopyPart,
    End,
    Fence,
    LayoutChanged,
    Look,
    Stage,
    Step,
    TakeOver,
    TaskResult,
    TimedOut,
    Together,
    Write,
    Written,
)
from ottla.spark.sink.transactions import abort_steps, commit_steps, task_steps
from ottla.values import OffsetAndMetadata

NAMES = SinkNames("p", "q", "markers")
Row = tuple[int, int]


@dataclass
class Transaction:
    """One transactional id at its coordinator."""

    producer_id: int
    epoch: int = -1
    is_open: bool = False
    rows: list[Row] = field(default_factory=list)
    marker: Marker | None = None
    ended: tuple[int, bool] | None = None
    """Epoch and kind of the last end, while nobody has taken the id over since."""


class Cluster:
    """What brokers do with transactions; `version` 1 keeps the epoch at an end, 2 raises it."""

    def __init__(self, version: int = 2) -> None:
        self.version = version
        self.transactions: dict[int, Transaction] = {}
        self.markers: dict[int, Marker] = {}
        self.committed: Counter[Row] = Counter()
        self.staged: dict[int, dict[tuple[int, int, int], list[Row]]] = {}
        """What is in the staging topic of a batch, by task and identity."""
        self.copier, self.copied, self.progress = 0, -1, set[tuple[int, int]]()
        self.story: list[str] = []

    def take_over(self, task: int) -> PreparedTransaction:
        found = self.transactions.setdefault(task, Transaction(100 + task))
        self._abort(found)
        found.epoch += 1
        found.ended = None
        return PreparedTransaction(
            NAMES.transactional_id(task), found.producer_id, found.epoch, True, transaction_version=self.version
        )

    def fence(self, tasks: tuple[int, ...]) -> None:
        """Abort what these have open, and nothing else: an end that was answered is answered again."""
        for task in tasks:
            found = self.transactions.get(task)
            if found is not None and found.is_open:
                self.take_over(task)

    def time_out(self, task: int) -> None:
        self.story.append(f"task {task} times out")
        found = self.transactions.get(task)
        if found is not None and found.is_open:
            self._abort(found)
            found.ended = (found.epoch, False)
            found.epoch += 1

    def write(self, task: int, prepared: PreparedTransaction, rows: list[Row]) -> PreparedTransaction:
        found = self._of(task, prepared)
        if rows:
            found.is_open = True
            found.rows += rows
        return PreparedTransaction(
            prepared.transactional_id, prepared.producer_id, prepared.producer_epoch, not rows, self.version
        )

    def add_marker(self, task: int, prepared: PreparedTransaction, marker: Marker) -> PreparedTransaction:
        found = self._of(task, prepared)
        if not found.is_open and not prepared.is_empty:
            raise InvalidTxnState
        found.is_open, found.marker = True, marker
        return PreparedTransaction(
            prepared.transactional_id, prepared.producer_id, prepared.producer_epoch, False, self.version
        )

    def end(self, task: int, prepared: PreparedTransaction, commit: bool) -> None:
        if prepared.is_empty:
            return
        found = self.transactions[task]
        if not found.is_open and found.ended == (prepared.producer_epoch, commit):
            return
        found = self._of(task, prepared)
        if not found.is_open:
            raise InvalidTxnState
        if commit:
            self.committed.update(found.rows)
            if found.marker is not None:
                self.markers[task] = Marker.of(task, *_as_read(found.marker))
        self._abort(found)
        found.ended = (found.epoch, commit)
        found.epoch += self.version == 2

    def stage(self, batch: int, task: int, prepared: PreparedTransaction, rows: list[Row]) -> int:
        key = (task, prepared.producer_id, prepared.producer_epoch)
        self.staged.setdefault(batch, {})[key] = rows
        return len(rows)

    def begin_copy(self, batch: int) -> bool:
        self.copier += 1
        return self.copied >= batch

    def copy_part(self, copier: int, batch: int, decision: Decision) -> bool:
        """The rows of one task in one transaction, with the progress."""
        if copier != self.copier:
            raise ProducerFenced
        left = [task for task in decision.identities if (batch, task) not in self.progress]
        if left:
            self.committed.update(self.staged[batch][(left[0], *decision.identities[left[0]])])
            self.progress.add((batch, left[0]))
        if len(left) > 1:
            return False
        self.copied = batch
        return True

    def _of(self, task: int, prepared: PreparedTransaction) -> Transaction:
        found = self.transactions[task]
        if (found.producer_id, found.epoch) != (prepared.producer_id, prepared.producer_epoch):
            raise ProducerFenced
        return found

    def _abort(self, found: Transaction) -> None:
        found.is_open, found.rows, found.marker = False, [], None


def rows_of(batch: int, count: int, task: int, tasks: int, turn: int = 0) -> list[Row]:
    """The rows of a task; another `turn` spreads them otherwise."""
    return [(batch, number) for number in range(count) if (number + turn) % tasks == task]


class Run:
    """One life of the driver. `step()` makes one step and is False when there is nothing more to do."""

    def __init__(
        self,
        cluster: Cluster,
        checkpoint: list[int],
        batches: int,
        *,
        tasks: int,
        rows: int = 4,
        turn: int = 0,
        twins: Callable[[int, int], bool] = lambda batch, task: False,
        is_late: bool = False,
    ) -> None:
        self.cluster, self.checkpoint, self.batches = cluster, checkpoint, batches
        self.tasks, self.rows, self.turn, self._twins = tasks, rows, turn, twins
        self.error: OttlaError | None = None
        self.ends_s = 0.0 if is_late else math.inf
        """When transactions time out; it is always 0. A transaction that is gone then has timed out, else not."""
        self._copier = 0
        self.name = (
            f"run {len({each.split(':')[0] for each in cluster.story if each.startswith('run')})}, {tasks} tasks"
        )
        cluster.story.append(f"{self.name}: begins")
        self._life = self._live()

    def step(self) -> bool:
        return next(self._life, None) is not None

    def finish(self) -> None:
        while self.step():
            pass

    def _live(self) -> Iterator[bool]:
        while self.checkpoint[0] < self.batches:
            batch = self.checkpoint[0]
            results: list[TaskResult | None] = [None] * self.tasks
            try:
                for task in range(self.tasks):
                    for _ in range(1 + self._twins(batch, task)):
                        results[task] = yield from self._task(batch, task)
                yield from self._carry_out(commit_steps(batch, list(results), NAMES, now_s=0.0), None)
            except OttlaError as error:
                self.error = error
                yield from self._carry_out(abort_steps(batch, results), None)
                return
            yield True  # killed here, Spark does not know that the batch is done
            self.checkpoint[0] = max(self.checkpoint[0], batch + 1)

    def _task(self, batch: int, task: int) -> Iterator[bool]:
        rows = rows_of(batch, self.rows, task, self.tasks, self.turn)
        return (yield from self._carry_out(task_steps(batch, task, NAMES, is_empty=not rows), rows))

    def _carry_out(self, steps: Any, rows: list[Row] | None) -> Iterator[bool]:
        held: dict[str, PreparedTransaction] = {}
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            if isinstance(step, Together):
                answer = []
                for each in step.steps:
                    yield True
                    answer.append(self._act(each, rows, held))
            else:
                yield True
                answer = self._act(step, rows, held)

    def _act(self, step: Step, rows: list[Row] | None, held: dict[str, PreparedTransaction]) -> Any:
        answer = self._acted(step, rows, held)
        self.cluster.story.append(f"{self.name}: {step} -> {answer!r}")
        return answer

    def _acted(self, step: Step, rows: list[Row] | None, held: dict[str, PreparedTransaction]) -> Any:
        cluster = self.cluster
        match step:
            case Look(tasks):
                return {task: cluster.markers.get(task, Marker()) for task in tasks}
            case TakeOver(task):
                held["mine"] = cluster.take_over(task)
            case Write(task):
                assert rows is not None
                return self._written(task, held["mine"], rows)
            case Claim(task):
                return cluster.take_over(task)
            case Stage(task, batch_id, prepared):
                assert rows is not None
                return cluster.stage(batch_id, task, prepared, rows)
            case BeginCopy(batch_id):
                is_copied = cluster.begin_copy(batch_id)
                self._copier = cluster.copier
                return is_copied
            case CopyPart(batch_id, decision):
                return cluster.copy_part(self._copier, batch_id, decision)
            case Clear(batch_id):
                cluster.staged.pop(batch_id, None)
            case Fence(tasks):
                cluster.fence(tasks)
            case AddMarker(task, prepared, marker):
                return _answered(lambda: cluster.add_marker(task, prepared, marker))
            case End(task, prepared, commit):
                return _answered(lambda: cluster.end(task, prepared, commit))
        return None

    def _written(self, task: int, prepared: PreparedTransaction, rows: list[Row]) -> Written | TimedOut:
        try:
            return Written(task, self.cluster.write(task, prepared, rows), len(rows), self.ends_s)
        except ProducerFenced:
            if self.ends_s > 0:
                raise
            return TimedOut("fenced")


def _answered(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except OttlaError as refusal:
        return refusal


def _as_read(marker: Marker) -> tuple[OffsetAndMetadata, list[OffsetAndMetadata]]:
    first, *more = marker.as_offsets()
    return first, more


def expected(batches: int, rows: int = 4) -> Counter[Row]:
    return Counter((batch, number) for batch in range(batches) for number in range(rows))


FINAL = (LayoutChanged, BatchSuperseded)
