"""Exactly once: what a task does, and what the driver does, as steps. They decide; steps.py carries out.

Spark runs every task of a batch, then calls commit() on the driver, then writes into its checkpoint that the batch is
done. A crash anywhere before that repeats the batch under the same id. So it must be known what is done already.

    task i       read the markers of task 0 and i
                 batch decided before    end what I wrote then, if it was not; done, unless it had been aborted
                 otherwise               take over my transactional id: aborts what was left open, fences every twin,
                                         zombie and old driver. Look again: a last commit may have come in between
                                         write the rows in a transaction and leave it open
    driver       add to each transaction the marker of its task, and to that of task 0 the decision: the list of all
                 end task 0              this decides: from here on the batch is committed, whatever happens to us
                 end the others, in any order, again and again until each is ended

1. Until task 0 is ended nothing of the batch counts, and everything is written again; what an earlier run left, with
   more or fewer tasks or with other rows, can never be committed any more, because task 0 is ended first and its id is
   finished first.
2. Once task 0 is ended the batch is finished as it was decided: the list says what has to be ended, no row is written
   again. So a repetition may have other rows and another number of tasks.
3. One exception: a transaction of the list that was aborted meanwhile (its time-out was shorter than the restart, or a
   twin took its id over at the last moment). Its rows, and only they, are written again, which is right if the task
   gets the same rows again. When the number of tasks has changed it does not, and that is an error (LayoutChanged).
4. No end is repeated blindly: the same end of the same epoch is answered as before, another epoch is fenced, and what
   is fenced is looked up in its marker. What is neither committed nor open is an error, never silence.
5. A checkpoint that is older than the markers is refused (BatchSuperseded): its batches were written already.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeAlias

from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, replace
from ottla.spark.sink.markers import Decision, Marker, SinkNames

# --- steps: what is asked of the cluster, and what comes back ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """Markers of some tasks: {task: Marker}. `is_final`: wait for ends that are being written."""

    tasks: tuple[int, ...]
    is_final: bool


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Make the transactional id of the task ours: None."""

    task: int


@dataclass(frozen=True, slots=True)
class Write:
    """Write the rows of the task and leave the transaction open: (PreparedTransaction, number of rows)."""

    task: int


@dataclass(frozen=True, slots=True)
class AddMarker:
    """Put a marker into an open transaction: the PreparedTransaction, or the OttlaError that refuses it."""

    task: int
    prepared: PreparedTransaction
    marker: Marker


@dataclass(frozen=True, slots=True)
class End:
    """End a transaction: None, or the OttlaError that refuses it."""

    task: int
    prepared: PreparedTransaction
    commit: bool = True


@dataclass(frozen=True, slots=True)
class Together:
    """Several steps at the same time: the list of what comes back."""

    steps: tuple[AddMarker | End, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """Abort whatever these tasks have open, and fence who wrote it: None."""

    tasks: tuple[int, ...]


Step: TypeAlias = Look | TakeOver | Write | AddMarker | End | Together | Fence
Steps: TypeAlias = Generator[Step, Any, Any]


# --- what a task reports to the driver --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """The rows are in a transaction that waits for its end."""

    task: int
    prepared: PreparedTransaction
    row_count: int


@dataclass(frozen=True, slots=True)
class Finished:
    """An earlier run has committed what there was to write."""

    task: int


@dataclass(frozen=True, slots=True)
class Nothing:
    """There were no rows."""

    task: int


TaskResult: TypeAlias = Written | Finished | Nothing


# --- errors -----------------------------------------------------------------------------------------------------------


class BatchNotCommitted(OttlaError):
    """Nothing of the batch was committed, because a transaction of it is not open any more: it timed out, or another
    attempt took it over. Start the query again, it repeats the batch; if it timed out, raise
    kafka.transaction.timeout.ms or make batches smaller."""


class TransactionLost(OttlaError):
    """The batch is decided, but a transaction of it was aborted before it could be ended: it timed out, or another
    attempt took it over. Start the query again, it writes these rows again; if it timed out, raise
    kafka.transaction.timeout.ms or make batches smaller."""


class LayoutChanged(OttlaError):
    """A part of this batch is committed and the rest must be written again, but its rows are spread over another
    number of tasks now. Start the query again with the partitions it had (same shuffle partitions, same options of the
    source), at least for this batch."""


class BatchSuperseded(OttlaError):
    """A later batch of this query was written already. The checkpoint was set back, or another driver runs the same
    query. Use one driver; to write again on purpose choose a new checkpoint or another transactionalIdPrefix."""


class MarkersContradict(OttlaError):
    """The markers of this sink do not fit together. Were offsets of its group deleted or reset, or the marker topic
    made again? Choose another transactionalIdPrefix and a new checkpoint."""


# --- a task -----------------------------------------------------------------------------------------------------------


def task_steps(batch_id: int, task: int, names: SinkNames, *, is_empty: bool) -> Generator[Step, Any, TaskResult]:
    """One attempt of one task."""
    found = yield Look(tuple(sorted({0, task})), is_final=False)
    _check_order(batch_id, found)
    if found[0].batch_id == batch_id:
        was_finished = yield from _finish_what_was_decided(task, found, names)
        if was_finished:
            return Finished(task)
    if is_empty and task != 0:
        return Nothing(task)
    yield TakeOver(task)
    found = yield Look((task,), is_final=True)
    _check_order(batch_id, found)
    if found[task].batch_id == batch_id:
        return Finished(task)
    prepared, row_count = yield Write(task)
    return Written(task, prepared, row_count)


def _finish_what_was_decided(task: int, found: Mapping[int, Marker], names: SinkNames) -> Generator[Step, Any, bool]:
    """Whether everything that the decision says of this task is committed now."""
    decision = found[0].decision
    if task == 0 or found[task].batch_id == found[0].batch_id:
        return True
    if decision is None or not decision.is_whole:
        return False
    left = decision.transaction(task, names)
    if left is None:
        return True
    return (yield End(task, left)) is None


def _check_order(batch_id: int, found: Mapping[int, Marker]) -> None:
    later = max(marker.batch_id for marker in found.values())
    if later > batch_id:
        raise BatchSuperseded(f"this is batch {batch_id}, and batch {later} was written")


# --- the driver -------------------------------------------------------------------------------------------------------


def commit_steps(batch_id: int, results: Sequence[TaskResult], names: SinkNames) -> Steps:
    """Commit a batch whose tasks are all done."""
    written = {each.task: each.prepared for each in results if isinstance(each, Written)}
    if any(isinstance(each, Finished) for each in results):
        yield from _finish(batch_id, results, written, names)
    elif not all(each.is_empty for each in written.values()):
        yield from _decide(batch_id, len(results), written)


def _decide(batch_id: int, task_count: int, written: Mapping[int, PreparedTransaction]) -> Steps:
    if 0 not in written:
        raise MarkersContradict(f"task 0 of batch {batch_id} has not written")
    marked = {task: prepared for task, prepared in written.items() if task == 0 or not prepared.is_empty}
    decision = Decision.about(task_count, marked)
    opened = yield from _mark(batch_id, marked, decision)
    refusal = yield End(0, opened.pop(0))
    if refusal is not None:
        found = yield Look((0,), is_final=True)
        # It is not enough that the batch is done: another driver may have done it, and then ours must not count.
        if found[0].batch_id != batch_id or not decision.is_of(found[0].decision):
            raise BatchNotCommitted(f"batch {batch_id}, task 0: {refusal}")
    yield from _end(batch_id, opened, TransactionLost)


def _mark(
    batch_id: int, written: Mapping[int, PreparedTransaction], decision: Decision | None
) -> Generator[Step, Any, dict[int, PreparedTransaction]]:
    """Nothing is decided yet: a task that was fenced or timed out is noticed here, before anything counts."""
    steps = tuple(
        AddMarker(task, prepared, Marker(batch_id, decision if task == 0 else None))
        for task, prepared in written.items()
    )
    answers = yield Together(steps)
    for step, answer in zip(steps, answers, strict=True):
        if isinstance(answer, OttlaError):
            kind = BatchNotCommitted if decision is not None else TransactionLost
            raise kind(f"batch {batch_id}, task {step.task}: {answer}") from answer
    return {step.task: answer for step, answer in zip(steps, answers, strict=True)}


def _end(batch_id: int, opened: Mapping[int, PreparedTransaction], loss: type[OttlaError]) -> Steps:
    if not opened:
        return
    answers = yield Together(tuple(End(task, prepared) for task, prepared in opened.items()))
    refused = {task: answer for task, answer in zip(opened, answers, strict=True) if answer is not None}
    lost = (yield from _not_done(batch_id, tuple(refused))) if refused else ()
    if lost:
        reasons = "; ".join(f"task {task}: {refused[task]}" for task in lost)
        raise loss(f"batch {batch_id}, {reasons}")


def _not_done(batch_id: int, tasks: tuple[int, ...]) -> Generator[Step, Any, tuple[int, ...]]:
    """Which of these have not committed the batch."""
    found = yield Look(tasks, is_final=True)
    return tuple(task for task in tasks if found[task].batch_id != batch_id)


def _finish(
    batch_id: int, results: Sequence[TaskResult], written: Mapping[int, PreparedTransaction], names: SinkNames
) -> Steps:
    """An earlier run has decided: end what is left of its list, and what had to be written again."""
    found = yield Look((0,), is_final=True)
    decision = found[0].decision
    if found[0].batch_id != batch_id or decision is None or 0 in written:
        raise MarkersContradict(f"a task says that batch {batch_id} is done, the marker says {found[0].batch_id}")
    again = {task: prepared for task, prepared in written.items() if not prepared.is_empty}
    has_changed = decision.task_count != len(results)
    if has_changed and (again or not decision.is_whole):
        raise LayoutChanged(f"batch {batch_id} had {decision.task_count} tasks and has {len(results)} now")
    done = {each.task for each in results if not isinstance(each, Nothing)}
    listed = {task: decision.transaction(task, names) for task in decision.identities if task not in done}
    left = {task: prepared for task, prepared in listed.items() if prepared is not None}
    yield from _end(batch_id, left, LayoutChanged if has_changed else TransactionLost)
    if again:
        yield from _end(batch_id, (yield from _mark(batch_id, again, None)), TransactionLost)


def abort_steps(batch_id: int, results: Sequence[TaskResult | None]) -> Steps:
    """Give up a batch: nothing of it stays open, neither of tasks that are done nor of tasks that were killed (None).
    When it cannot be made sure that task 0 will never be committed, nothing is touched: the batch may be decided, and
    the next run finishes it."""
    if any(isinstance(each, Finished) for each in results):
        return
    written = {each.task: each.prepared for each in results if isinstance(each, Written)}
    if not (yield from _can_never_count(batch_id, written.pop(0, None))):
        return
    if written:
        yield Together(tuple(End(task, replace(each, is_empty=False), commit=False) for task, each in written.items()))
    killed = tuple(task for task, each in enumerate(results) if each is None and task != 0)
    if killed:
        yield Fence(killed)


def _can_never_count(batch_id: int, first: PreparedTransaction | None) -> Generator[Step, Any, bool]:
    """End task 0 by an abort; whether that was done before anybody decided the batch."""
    if first is not None:
        # The marker may have made a transaction of what was empty, so it is always ended.
        refusal = yield End(0, replace(first, is_empty=False), commit=False)
        return refusal is None
    for is_final in (False, True):
        found = yield Look((0,), is_final)
        if found[0].batch_id >= batch_id:
            return False
        if not is_final:
            yield Fence((0,))
    return True
