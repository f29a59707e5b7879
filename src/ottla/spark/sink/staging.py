"""Batches that take longer than a transaction may stay open: written down first, decided, and then copied.

A transaction of Kafka ends after its time-out (transaction.timeout.ms, 15 minutes at most unless brokers allow more),
whatever its producer does. A batch whose first row is older than that at its commit cannot be committed in this way,
however often it is repeated. So the second attempt goes another way:

    note     who sees that a transaction of the batch timed out writes "stage batch n" beside the marker of task 0
    task i   takes its transactional id over (its epoch is the identity of this attempt), and writes its rows into the
             staging topic of the batch, outside of any transaction, marked with that identity
    driver   decides as ever: the list of all identities, committed in a transaction of task 0 that has nothing else
             copies what these identities have staged to where it belongs, in transactions of seconds, each with the
             position in the staging topic up to which it came; the last says that the batch is copied
             deletes the staging topic

1. The note is committed by who has just taken over task 0, and only if the batch is not decided. From then on no
   decision about open transactions of this batch can succeed any more: task 0 of whoever wanted it is fenced.
2. Staged rows of attempts that are not on the list are never copied, and the order of rows in an attempt is its own:
   nothing has to be the same when a batch is repeated.
3. A decided batch is copied by whoever comes: tasks of a repetition write nothing, and the driver goes on where the
   last committed part ends. A copier takes over the copier's id first, which fences the one before.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ottla.errors import OttlaError
from ottla.light_dataclasses import replace
from ottla.spark.sink.markers import Decision
from ottla.spark.sink.step_kinds import (
    AddMarker,
    BatchSuperseded,
    BeginCopy,
    Claim,
    Clear,
    CopyPart,
    End,
    Finished,
    Look,
    Stage,
    Staged,
    Step,
    Steps,
    TaskResult,
    Together,
)


def note_too_long(batch_id: int) -> Steps:
    """See to it that the next attempt stages, unless somebody has decided the batch meanwhile."""
    prepared = yield Claim(0)
    found = yield Look((0,), is_final=True)
    if found[0].batch_id >= batch_id or found[0].staged_batch == batch_id:
        return
    (opened,) = yield Together((AddMarker(0, prepared, replace(found[0], staged_batch=batch_id)),))
    if not isinstance(opened, OttlaError):
        yield End(0, opened)  # refused: somebody else was later, and sees for himself


def stage_steps(batch_id: int, task: int) -> Generator[Step, Any, TaskResult]:
    """One attempt of a task of a batch that is staged."""
    prepared = yield Claim(task)
    found = yield Look((0,), is_final=True)
    if found[0].batch_id > batch_id:
        raise BatchSuperseded(f"this is batch {batch_id}, and batch {found[0].batch_id} was written")
    if found[0].batch_id == batch_id:
        return Finished(task)
    row_count = yield Stage(task, batch_id, prepared)
    return Staged(task, prepared, row_count)


def copy_steps(batch_id: int, decision: Decision) -> Steps:
    """Copy what was decided, from where the last copier came to."""
    is_copied = yield BeginCopy(batch_id)
    while not is_copied:
        is_copied = yield CopyPart(batch_id, decision)
    yield Clear(batch_id)
