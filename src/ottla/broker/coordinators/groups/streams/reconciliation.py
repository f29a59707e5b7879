"""One step of a member from the tasks that it has to those that it should have.

    has and should have          keeps
    has, should not have         revoked: the member stays in its epoch, UNREVOKED_TASKS, until it names them no more
    should have, free            gets, and moves to the target's epoch
    should have, not free        waits: UNRELEASED_TASKS, in the target's epoch

1. A member gets new tasks only after it has released all that are revoked.
2. `owned` is what the member says it has; None means that it said nothing, so it may still have anything.
3. An active task is free when no other member has it active, and no other member of the same process has it in any
   other role. A standby or warm-up task is free when no other member of the same process has it in any role.
4. A member that has released what was revoked moves one epoch on, even when it must release more at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.broker.coordinators.groups.streams.member import StreamsMember
from ottla.broker.coordinators.groups.streams.state import STABLE, UNKNOWN, UNRELEASED, UNREVOKED, MemberState
from ottla.broker.coordinators.groups.streams.tasks import (
    NO_TASKS,
    NOTHING_OWNED,
    OwnedTasks,
    Partitions,
    TaskId,
    Tasks,
    still_has,
)
from ottla.errors import FencedMemberEpoch
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple


class Goal(NamedTuple):
    """Where the member should be, and what it may have on the way."""

    epoch: int
    target: Tasks
    is_free: Callable[[TaskId], bool]
    is_free_in_process: Callable[[TaskId], bool]


def reconcile(member: StreamsMember, goal: Goal, owned: Tasks | None) -> StreamsMember:
    if member.is_reconciled_to(goal.epoch):
        return member
    if member.state is UNREVOKED:
        if owned is None or still_has(owned, member.revoking):
            return member
        return _next(member, goal, owned, member.epoch + 1)
    if member.state is UNKNOWN and (owned is None or owned != NO_TASKS):
        raise FencedMemberEpoch(
            "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
        )
    return _next(member, goal, owned, goal.epoch if member.state is UNKNOWN else member.epoch)


class _Difference(NamedTuple):
    """What becomes of one role's tasks; `new` are free, `must_wait` says that others are not."""

    kept: Mapping[str, frozenset[int]]
    revoked: Mapping[str, frozenset[int]]
    new: Mapping[str, frozenset[int]]
    must_wait: bool


def _difference(has: Partitions, wanted: Partitions, is_free: Callable[[TaskId], bool]) -> _Difference:
    kept, revoked, new = {}, {}, {}
    must_wait = False
    for name in {**wanted, **has}:
        now, then = has.get(name, frozenset()), wanted.get(name, frozenset())
        free = frozenset(each for each in then - now if is_free(TaskId(name, each)))
        must_wait = must_wait or len(free) < len(then - now)
        kept[name], revoked[name], new[name] = now & then, now - then, free
    return _Difference(_without_empty(kept), _without_empty(revoked), _without_empty(new), must_wait)


def _without_empty(partitions: dict[str, frozenset[int]]) -> Partitions:
    return {name: each for name, each in partitions.items() if each}


def _next(member: StreamsMember, goal: Goal, owned: Tasks | None, epoch: int) -> StreamsMember:
    has, target = member.assigned.tasks, goal.target
    active = _difference(has.active, target.active, goal.is_free)
    standby = _difference(has.standby, target.standby, goal.is_free_in_process)
    warmup = _difference(has.warmup, target.warmup, goal.is_free_in_process)
    since = member.assigned.active
    revoked = OwnedTasks(
        {name: {each: since[name][each] for each in numbers} for name, numbers in active.revoked.items()},
        standby.revoked,
        warmup.revoked,
    )
    kept = {name: {each: since[name][each] for each in numbers} for name, numbers in active.kept.items()}
    if not revoked.is_empty and (owned is None or still_has(owned, revoked)):
        assigned = OwnedTasks(kept, standby.kept, warmup.kept)
        return _moved(member, UNREVOKED, epoch, assigned, revoked)
    for name, numbers in active.new.items():
        kept.setdefault(name, {}).update(dict.fromkeys(numbers, goal.epoch))
    assigned = OwnedTasks(kept, _union(standby), _union(warmup))
    must_wait = active.must_wait or standby.must_wait or warmup.must_wait
    return _moved(member, UNRELEASED if must_wait else STABLE, goal.epoch, assigned, NOTHING_OWNED)


def _union(difference: _Difference) -> Partitions:
    names = {**difference.kept, **difference.new}
    empty: frozenset[int] = frozenset()
    return {name: difference.kept.get(name, empty) | difference.new.get(name, empty) for name in names}


def _moved(
    member: StreamsMember, state: MemberState, epoch: int, assigned: OwnedTasks, revoking: OwnedTasks
) -> StreamsMember:
    if (state, epoch, assigned, revoking) == (member.state, member.epoch, member.assigned, member.revoking):
        return member
    return replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, revoking=revoking)
