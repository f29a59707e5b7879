"""One step of a member towards its target, case by case."""

from __future__ import annotations

import pytest

from ottla.broker.coordinators.groups.consumer.member import ConsumerMember
from ottla.broker.coordinators.groups.consumer.reconciliation import Goal, reconcile
from ottla.broker.coordinators.groups.consumer.state import (
    STABLE,
    UNKNOWN,
    UNRELEASED,
    UNREVOKED,
    checked_move,
    state_of_number,
)
from ottla.errors import FencedMemberEpoch, IllegalMove

T, U = b"t" * 16, b"u" * 16


def member(*assigned, revoking=(), state=STABLE, epoch=5, topic=T):
    return ConsumerMember(
        "m",
        epoch=epoch,
        previous_epoch=epoch - 1,
        state=state,
        assigned={topic: dict.fromkeys(assigned, 3)} if assigned else {},
        revoking={topic: dict.fromkeys(revoking, 3)} if revoking else {},
    )


def goal(*target, epoch=6, taken=(), subscribed=(T, U), topic=T):
    return Goal(
        epoch,
        {topic: frozenset(target)} if target else {},
        frozenset(subscribed),
        lambda topic_id, partition: partition not in taken,
    )


def owned(*partitions):
    return {T: frozenset(partitions)} if partitions else {}


def seen(found):
    return found.state, found.epoch, set(found.assigned.get(T, ())), set(found.revoking.get(T, ()))


@pytest.mark.parametrize(
    ("before", "to", "says", "after"),
    [
        # nothing to do
        (member(1, 2), goal(1, 2, epoch=5), None, (STABLE, 5, {1, 2}, set())),
        (member(1, 2), goal(1, 2), None, (STABLE, 6, {1, 2}, set())),
        # something free, something taken
        (member(1), goal(1, 2), owned(1), (STABLE, 6, {1, 2}, set())),
        (member(1), goal(1, 2, taken={2}), owned(1), (UNRELEASED, 6, {1}, set())),
        (member(1), goal(1, 2, 3, taken={2}), owned(1), (UNRELEASED, 6, {1, 3}, set())),
        (member(1, state=UNRELEASED, epoch=6), goal(1, 2), owned(1), (STABLE, 6, {1, 2}, set())),
        # something to give up
        (member(1, 2), goal(1), owned(1, 2), (UNREVOKED, 5, {1}, {2})),
        (member(1, 2), goal(1), None, (UNREVOKED, 5, {1}, {2})),
        (member(1, 2), goal(1), owned(1), (STABLE, 6, {1}, set())),
        (member(1, 2), goal(1, 3), owned(1, 2), (UNREVOKED, 5, {1}, {2})),
        (member(1, revoking=(2,), state=UNREVOKED), goal(1, 3), owned(1, 2), (UNREVOKED, 5, {1}, {2})),
        (member(1, revoking=(2,), state=UNREVOKED), goal(1, 3), None, (UNREVOKED, 5, {1}, {2})),
        (member(1, revoking=(2,), state=UNREVOKED), goal(1, 3), owned(1), (STABLE, 6, {1, 3}, set())),
        # the target moved on meanwhile
        (member(1, 3, revoking=(2,), state=UNREVOKED), goal(1), owned(1, 3), (UNREVOKED, 5, {1}, {3})),
        (member(1, revoking=(2,), state=UNREVOKED), goal(1, 2, taken={2}), owned(1), (STABLE, 6, {1, 2}, set())),
        # what is not wanted any more
        (member(1), goal(1, subscribed=(U,)), owned(1), (UNREVOKED, 5, set(), {1})),
        (member(1), goal(1, subscribed=(U,)), owned(), (STABLE, 6, set(), set())),
    ],
)
def test_a_step(before, to, says, after):
    assert seen(reconcile(before, to, says)) == after


def test_an_epoch_remembers_the_one_before():
    assert reconcile(member(1), goal(1), None).previous_epoch == 5
    assert reconcile(member(1, 2), goal(1), owned(1, 2)).previous_epoch == 4


def test_a_partition_remembers_since_when_it_is_assigned():
    assert reconcile(member(1), goal(1, 2), owned(1)).assigned == {T: {1: 3, 2: 6}}


def test_another_subscription_gives_up_at_once():
    now = goal(1, 2, epoch=5, subscribed=(U,))
    assert seen(reconcile(member(1, 2), now, owned(1, 2), subscription_changed=True)) == (UNREVOKED, 5, set(), {1, 2})
    assert seen(reconcile(member(1, 2), now, owned(), subscription_changed=True)) == (STABLE, 5, set(), set())
    assert reconcile(member(1, 2), now, owned(1, 2)) == member(1, 2)
    giving = member(1, revoking=(2,), state=UNREVOKED)
    assert seen(reconcile(giving, now, owned(1, 2), subscription_changed=True)) == (UNREVOKED, 5, set(), {1, 2})


def test_a_state_of_the_future_begins_anew():
    strange = member(1, state=state_of_number(77))
    assert strange.state is UNKNOWN
    for says in (None, owned(1)):
        with pytest.raises(FencedMemberEpoch):
            reconcile(strange, goal(1), says)
    assert seen(reconcile(strange, goal(1, 2), owned())) == (STABLE, 6, {1, 2}, set())


def test_nobody_moves_to_a_state_that_nobody_knows():
    with pytest.raises(IllegalMove):
        checked_move(STABLE, UNKNOWN)
