"""One step of a member from where it is to where it should be.

    assigned and in the target          keeps
    assigned, not in the target         revoked: the member stays in its epoch, UNREVOKED_PARTITIONS, until it names
                                        them no more
    in the target, nobody has it        gets, and moves to the target's epoch
    in the target, somebody has it      waits: UNRELEASED_PARTITIONS, in the target's epoch

1. A member gets new partitions only after it has released all that are revoked.
2. `owned` is what the member says it has; None means that it said nothing, so it may still have anything.
3. Partitions of a topic that does not exist any more need not be released: nobody can read them, and a topic that is
   made again under the same name has another id. A member that never knew such a topic, because it was deleted right
   after it was assigned, has nothing to release and may say nothing; it would get nothing until its time is over.
4. What a member does not subscribe to any more is revoked at once, whatever the target says: the target may be older
   than its wish.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.broker.coordinators.groups.consumer.member import NOTHING, ConsumerMember, Owned, Target
from ottla.broker.coordinators.groups.consumer.state import (
    STABLE,
    UNKNOWN,
    UNRELEASED,
    UNREVOKED,
    MemberState,
    checked_move,
)
from ottla.errors import FencedMemberEpoch
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple


class Goal(NamedTuple):
    """Where the member should be, and what it may have on the way."""

    epoch: int
    target: Target
    subscribed: frozenset[bytes]  # topic ids
    is_free: Callable[[bytes, int], bool]
    exists: Callable[[bytes], bool] = lambda topic_id: True


def reconcile(
    member: ConsumerMember, goal: Goal, owned: Target | None, *, subscription_changed: bool = False
) -> ConsumerMember:
    if member.state is STABLE and member.epoch == goal.epoch:
        return _without_unsubscribed(member, goal, owned) if subscription_changed else member
    if member.state is UNREVOKED and _still_owns(member.revoking, owned, goal):
        return _without_unsubscribed(member, goal, owned) if subscription_changed else member
    if member.state is UNKNOWN:
        if owned is None or owned:
            raise FencedMemberEpoch(
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin."
            )
        return _next(_advanced(member, member.state, goal.epoch), goal, owned)
    return _next(member, goal, owned)


def _still_owns(revoked: Owned, owned: Target | None, goal: Goal) -> bool:
    """Whether the member may still have any of these that somebody else could want."""
    left = {topic_id: partitions for topic_id, partitions in revoked.items() if goal.exists(topic_id)}
    if owned is None:
        return bool(left)
    return any(not owned.get(topic_id, frozenset()).isdisjoint(partitions) for topic_id, partitions in left.items())


def _advanced(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Owned | None = None, revoking: Owned = NOTHING
) -> ConsumerMember:
    previous = member.previous_epoch if epoch == member.epoch else member.epoch
    return replace(
        member,
        state=state,
        epoch=epoch,
        previous_epoch=previous,
        assigned=member.assigned if assigned is None else assigned,
        revoking=revoking,
    )


def _next(member: ConsumerMember, goal: Goal, owned: Target | None) -> ConsumerMember:
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    free: dict[bytes, set[int]] = {}
    must_wait = False
    for topic_id in {**goal.target, **member.assigned}:
        wanted = goal.target.get(topic_id, frozenset()) if topic_id in goal.subscribed else frozenset()
        has: Mapping[int, int] = member.assigned.get(topic_id) or {}
        kept[topic_id] = {partition: epoch for partition, epoch in has.items() if partition in wanted}
        revoked[topic_id] = {partition: epoch for partition, epoch in has.items() if partition not in wanted}
        missing = wanted - kept[topic_id].keys()
        # What it has just released itself is free for it.
        own: Mapping[int, int] = member.revoking.get(topic_id) or {}
        free[topic_id] = {each for each in missing if each in own or goal.is_free(topic_id, each)}
        must_wait = must_wait or len(free[topic_id]) < len(missing)
    revoked = _without_empty(revoked)
    if _still_owns(revoked, owned, goal):
        state = checked_move(member.state, UNREVOKED)
        return _advanced(member, state, member.epoch, _without_empty(kept), revoked)
    for topic_id, partitions in free.items():
        kept[topic_id].update(dict.fromkeys(partitions, goal.epoch))
    state = checked_move(member.state, UNRELEASED if must_wait else STABLE)
    return _advanced(member, state, goal.epoch, _without_empty(kept))


def _without_unsubscribed(member: ConsumerMember, goal: Goal, owned: Target | None) -> ConsumerMember:
    """The member stays in its epoch; topics it does not subscribe to any more are revoked."""
    gone = {topic_id: each for topic_id, each in member.assigned.items() if topic_id not in goal.subscribed}
    if not gone:
        return member
    kept = {topic_id: each for topic_id, each in member.assigned.items() if topic_id not in gone}
    revoking: dict[bytes, Mapping[int, int]] = dict(member.revoking)
    for topic_id, each in gone.items():
        revoking[topic_id] = {**(revoking.get(topic_id) or {}), **each}
    if _still_owns(revoking, owned, goal):
        return _advanced(member, checked_move(member.state, UNREVOKED), member.epoch, kept, revoking)
    return replace(member, assigned=kept)


def _without_empty(owned: dict[bytes, dict[int, int]]) -> dict[bytes, dict[int, int]]:
    return {topic_id: partitions for topic_id, partitions in owned.items() if partitions}
