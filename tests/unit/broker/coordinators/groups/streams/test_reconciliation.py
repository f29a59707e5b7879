"""One step of a streams member: what it keeps, gets, must release, and waits for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.coordinators.groups.streams.member import StreamsMember
from ottla.broker.coordinators.groups.streams.reconciliation import Goal, reconcile
from ottla.broker.coordinators.groups.streams.state import STABLE, UNRELEASED, UNREVOKED
from ottla.broker.coordinators.groups.streams.tasks import NO_TASKS, OwnedTasks, TaskId, Tasks

EPOCH = 5


def free(*taken: int) -> Callable[[TaskId], bool]:
    return lambda task: task.partition not in taken


def goal(target: Tasks, *, taken: tuple[int, ...] = (), taken_in_process: tuple[int, ...] = ()) -> Goal:
    return Goal(EPOCH, target, free(*taken), free(*taken_in_process))


def numbers(*which: int) -> dict[str, frozenset[int]]:
    return {"0": frozenset(which)}


@pytest.mark.parametrize("role", ["standby", "warmup"])
def test_a_standby_or_warmup_task_that_another_of_the_process_has_is_waited_for(role: str) -> None:
    """Two copies of one task's state in one process have one directory: the second would find it locked."""
    wanted = Tasks(**{role: numbers(1, 2)})
    member = reconcile(StreamsMember("a", epoch=4), goal(wanted, taken_in_process=(2,)), NO_TASKS)
    assert (member.state, getattr(member.assigned, role)) == (UNRELEASED, numbers(1))
    member = reconcile(StreamsMember("a", epoch=4), goal(wanted), NO_TASKS)
    assert (member.state, getattr(member.assigned, role)) == (STABLE, numbers(1, 2))


@pytest.mark.parametrize("role", ["standby", "warmup"])
def test_a_standby_or_warmup_task_in_other_processes_is_no_reason_to_wait(role: str) -> None:
    wanted = Tasks(**{role: numbers(1)})
    member = reconcile(StreamsMember("a", epoch=4), goal(wanted, taken=(1,)), NO_TASKS)
    assert (member.state, getattr(member.assigned, role)) == (STABLE, numbers(1))


def test_an_active_task_that_somebody_has_is_waited_for() -> None:
    member = reconcile(StreamsMember("a", epoch=4), goal(Tasks(active=numbers(1, 2)), taken=(1,)), NO_TASKS)
    assert (member.state, dict(member.assigned.active)) == (UNRELEASED, {"0": {2: EPOCH}})


def test_nothing_new_comes_before_what_is_revoked_is_released() -> None:
    has = StreamsMember("a", epoch=4, assigned=OwnedTasks({"0": {1: 3}}))
    wanted = goal(Tasks(active=numbers(2)))
    waiting = reconcile(has, wanted, None)
    assert (waiting.state, waiting.epoch, dict(waiting.assigned.active)) == (UNREVOKED, 4, {})
    assert dict(waiting.revoking.active) == {"0": {1: 3}}
    assert reconcile(waiting, wanted, Tasks(active=numbers(1))) is waiting
    released = reconcile(waiting, wanted, NO_TASKS)
    assert (released.state, released.epoch, dict(released.assigned.active)) == (STABLE, EPOCH, {"0": {2: EPOCH}})


def test_what_is_kept_keeps_the_epoch_in_which_it_was_assigned() -> None:
    has = StreamsMember("a", epoch=4, assigned=OwnedTasks({"0": {1: 3}}))
    member = reconcile(has, goal(Tasks(active=numbers(1, 2))), None)
    assert dict(member.assigned.active) == {"0": {1: 3, 2: EPOCH}}
