"""The steps that a heartbeat, a join of the classic protocol, and a leave are made of.

Each of them reads and writes a Draft, so each sees what those before it have decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.broker.coordinators.effects import (
    ClusterView,
    Effect,
    SetTimer,
)
from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.broker.coordinators.groups.consumer.member import (
    NOTHING,
    ConsumerMember,
    Target,
)
from ottla.broker.coordinators.groups.consumer.reconciliation import Goal, reconcile
from ottla.broker.coordinators.groups.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    partition_metadata_tombstone,
    regex_tombstone,
    target_record,
)
from ottla.broker.coordinators.groups.consumer.regex import RegexChange, update_regex
from ottla.broker.coordinators.groups.consumer.state import UNREVOKED
from ottla.broker.coordinators.groups.consumer.subscriptions import metadata_hash, topic_ids
from ottla.broker.coordinators.groups.consumer.timers import RevocationTimer
from ottla.broker.coordinators.groups.modern_group import Draft
from ottla.broker.coordinators.groups.timers import SessionTimer
from ottla.broker.settings.group_level import ConsumerTimes
from ottla.broker.settings.groups import GroupCoordinatorSettings
from ottla.errors import (
    GroupMaxSizeReached,
)
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple

CLIENT_MAKES_MEMBER_ID_SINCE = 1


class Environment(NamedTuple):
    """What every decision about consumer groups depends on besides the group itself."""

    cluster: ClusterView
    settings: GroupCoordinatorSettings
    times_of: Callable[[str], ConsumerTimes]
    now_ms: int


class Changes(NamedTuple):
    topics: bool
    regex: RegexChange

    @property
    def any(self) -> bool:
        return self.topics or self.regex is not RegexChange.NONE

    @property
    def what_is_read(self) -> bool:
        """An expression that is not matched yet changes nothing now; the match will."""
        return self.topics or self.regex is RegexChange.RESOLVED


def check_room(group: ConsumerGroup, member_id: str, settings: GroupCoordinatorSettings) -> None:
    limit = settings.group_consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        raise GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {limit} members.")


def take_over(draft: Draft[ConsumerGroup], old: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member came back under another member id: it gets what its former self has and should have."""
    group_id = draft.group.group_id
    new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
    target = draft.group.targets.get(old.member_id, NOTHING)
    draft.write(
        *member_tombstones(group_id, old.member_id),
        member_record(group_id, new),
        target_record(group_id, member_id, target),
        current_record(group_id, new),
    )
    return new


def write_member_fields(draft: Draft[ConsumerGroup], before: ConsumerMember, after: ConsumerMember) -> Changes:
    """Write the member's subscription and settings if this request changed them."""
    if after != before or before.member_id not in draft.group.members:
        draft.write(member_record(draft.group.group_id, after))
    return Changes(before.topics != after.topics, update_regex(draft, before, after))


def update_group(
    draft: Draft[ConsumerGroup], changes: Changes, environment: Environment, live: ConsumerGroup | None
) -> None:
    """Move the group epoch if what the group reads has changed, here or in the cluster."""
    group = draft.group
    # A group is never at epoch 0: a member could not tell that from not having joined.
    must_move = changes.what_is_read or group.epoch == 0
    if not must_move and group.is_metadata_checked:
        return
    move_epoch(draft, environment, must_move=must_move)
    if live is not None:
        live.checked_epoch = draft.group.epoch
    if draft.group.has_partition_metadata:
        draft.write(partition_metadata_tombstone(group.group_id))


def move_epoch(draft: Draft[ConsumerGroup], environment: Environment, *, must_move: bool) -> None:
    group = draft.group
    found = metadata_hash(environment.cluster, group.subscribed_topics())
    if must_move or found != group.metadata_hash:
        draft.write(epoch_record(group.group_id, group.next_epoch, found))


def step(
    draft: Draft[ConsumerGroup],
    member: ConsumerMember,
    owned: Target | None,
    environment: Environment,
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """Let the member take a step towards its target."""
    group = draft.group
    if not subscription_changed and member.is_reconciled_to(group.assignment_epoch):
        return member
    goal = Goal(
        epoch=group.assignment_epoch,
        target=group.targets.get(member.member_id, NOTHING),
        subscribed=topic_ids(environment.cluster, group.topics_of(member)),
        is_free=group.is_free,
        exists=lambda topic_id: environment.cluster.topic_name(topic_id) is not None,
    )
    reconciled = reconcile(member, goal, owned, subscription_changed=subscription_changed)
    if reconciled != member:
        draft.write(current_record(group.group_id, reconciled))
    return reconciled


def session_timer(group: ConsumerGroup, member: ConsumerMember, environment: Environment) -> SetTimer:
    if member.classic is not None:
        session_ms = member.classic.session_timeout_ms
    else:
        session_ms = environment.times_of(group.group_id).session_timeout_ms
    return SetTimer(SessionTimer(group.group_id, member.member_id), environment.now_ms + session_ms)


def revocation_timer(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, environment: Environment
) -> list[Effect]:
    """A member has its rebalance time-out to give up what it must; members of the classic protocol have others.

    It is never cancelled: when it fires it is asked whether there is still something to give up, and until then a
    member that could not be written as reconciled is still watched.
    """
    if after.state is not UNREVOKED or after.speaks_classic:
        return []
    if (before.state, before.epoch, before.revoking) == (after.state, after.epoch, after.revoking):
        return []
    return [SetTimer(RevocationTimer(group.group_id, after.member_id), environment.now_ms + after.rebalance_timeout_ms)]


def remove_members(draft: Draft[ConsumerGroup], members: Iterable[ConsumerMember], environment: Environment) -> None:
    """Put members out: their records go, expressions that only they had, and the group moves on.

    Their timers run on: they find nobody, or, if this cannot be written, the member that is still there.
    """
    group_id = draft.group.group_id
    for member in members:
        draft.write(*member_tombstones(group_id, member.member_id))
    for regex in sorted(draft.group.regexes.keys() - draft.group.regex_members.keys()):
        draft.write(regex_tombstone(group_id, regex))
    move_epoch(draft, environment, must_move=True)
