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
5. A batch whose transactions timed out before the decision is written again by way of a staging topic (staging.py).
6. A checkpoint that is older than the markers is refused (BatchSuperseded): its batches were written already.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import OttlaError
from ottla.light_dataclasses import replace
from ottla.spark.sink.markers import Decision, Marker, SinkNames
from ottla.spark.sink.staging import copy_steps, note_too_long, stage_steps
from ottla.spark.sink.step_kinds import (
    AddMarker,
    BatchNotCommitted,
    BatchSuperseded,
    BatchTooLong,
    End,
    Fence,
    Finished,
    LayoutChanged,
    Look,
    MarkersContradict,
    Nothing,
    Staged,
    Step,
    Steps,
    TakeOver,
    TaskResult,
    TimedOut,
    Together,
    TransactionLost,
    Write,
    Written,
)

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
    if found[0].batch_id < batch_id and found[0].staged_batch == batch_id:
        return (yield from stage_steps(batch_id, task))
    yield TakeOver(task)
    found = yield Look((task,), is_final=True)
    _check_order(batch_id, found)
    if found[task].batch_id == batch_id:
        return Finished(task)
    written: Written | TimedOut = yield Write(task)
    if isinstance(written, TimedOut):
        yield from note_too_long(batch_id)
        raise BatchTooLong(f"batch {batch_id}, task {task}: {written.reason}")
    return written


def _finish_what_was_decided(task: int, found: Mapping[int, Marker], names: SinkNames) -> Generator[Step, Any, bool]:
    """Whether everything that the decision says of this task is committed now."""
    decision = found[0].decision
    if task == 0 or found[task].batch_id == found[0].batch_id:
        return True
    if decision is None:
        return False
    if decision.is_staged:
        return True  # the driver copies
    left = decision.transaction(task, names)
    if left is None:
        return True
    return (yield End(task, left)) is None


def _check_order(batch_id: int, found: Mapping[int, Marker]) -> None:
    later = max(marker.batch_id for marker in found.values())
    if later > batch_id:
        raise BatchSuperseded(f"this is batch {batch_id}, and batch {later} was written")


# --- the driver -------------------------------------------------------------------------------------------------------


def commit_steps(batch_id: int, results: Sequence[TaskResult], names: SinkNames, now_s: float) -> Steps:
    """Commit a batch whose tasks are all done."""
    written = {each.task: each for each in results if isinstance(each, Written)}
    staged = {each.task: each.prepared for each in results if isinstance(each, Staged)}
    if any(isinstance(each, Finished) for each in results):
        yield from _finish(batch_id, results, {task: each.prepared for task, each in written.items()}, names)
    elif staged:
        yield from _decide_staged(batch_id, len(results), staged, written)
    elif not all(each.prepared.is_empty for each in written.values()):
        yield from _decide(batch_id, len(results), written, now_s)


def _decide(batch_id: int, task_count: int, written: Mapping[int, Written], now_s: float) -> Steps:
    if 0 not in written:
        raise MarkersContradict(f"task 0 of batch {batch_id} has not written")
    marked = {task: each.prepared for task, each in written.items() if task == 0 or not each.prepared.is_empty}
    decision = Decision.about(task_count, marked)
    try:
        opened = yield from _mark(batch_id, marked, decision)
    except BatchNotCommitted as refusal:
        late = [task for task in marked if written[task].ends_s <= now_s]
        if not late:
            raise
        yield from note_too_long(batch_id)
        raise BatchTooLong(f"batch {batch_id}, task {late[0]}") from refusal
    yield from _end_first(batch_id, opened.pop(0), decision)
    yield from _end(batch_id, opened, TransactionLost)


def _decide_staged(
    batch_id: int, task_count: int, staged: Mapping[int, PreparedTransaction], written: Mapping[int, Written]
) -> Steps:
    """The list names identities in the staging topic; what they have written there is copied when it is decided."""
    mixed = [task for task, each in written.items() if not each.prepared.is_empty]
    if mixed or 0 not in staged:
        raise BatchNotCommitted(f"task {min(mixed, default=0)} of batch {batch_id} wrote before it was to be staged")
    decision = Decision.about(task_count, staged, is_staged=True)
    opened = yield from _mark(batch_id, {0: staged[0]}, decision)
    yield from _end_first(batch_id, opened[0], decision)
    yield from copy_steps(batch_id, decision)


def _end_first(batch_id: int, first: PreparedTransaction, decision: Decision) -> Steps:
    """The end of task 0 decides."""
    refusal = yield End(0, first)
    if refusal is not None:
        found = yield Look((0,), is_final=True)
        # It is not enough that the batch is done: another driver may have done it, and then ours must not count.
        if found[0].batch_id != batch_id or not decision.is_of(found[0].decision):
            raise BatchNotCommitted(f"batch {batch_id}, task 0: {refusal}")


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
    if decision.is_staged:
        yield from copy_steps(batch_id, decision)
        return
    again = {task: prepared for task, prepared in written.items() if not prepared.is_empty}
    has_changed = decision.task_count != len(results)
    if has_changed and again:
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
    written = {each.task: each.prepared for each in results if isinstance(each, Written | Staged)}
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
