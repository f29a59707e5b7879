"""One partition is changed: who is in sync, who leads, who may lead later. Kafka's rules, decided on values.

1. A leader stays while it is in sync and may lead. Else the first replica that is in sync and may; when nobody is in
   sync any more, the first eligible one (KIP-966). Nobody of both is there: with eligible leader replicas the last
   leader, when it comes back alone; where an unclean election is allowed, any replica that may. Both may lose records,
   so the leader recovers and is the only one in sync.
2. With eligible leader replicas an in-sync set may become empty: who leaves a set that is smaller than
   min.insync.replicas is eligible, because the high watermark does not move while the set is so small. Who lost its
   memory is neither in sync nor eligible. Without them the last in-sync set stays on record.
3. A reassignment ends with the change that has its target in sync, also when that change was made for another reason.
4. Every change is one step of the partition epoch. The leader epoch takes a step only when a leader is named: another
   one, or the same when replicas went away, or, at old levels of metadata.version, when the in-sync set shrank.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from ottla.cluster.model import NO_LEADER, Partition
from ottla.light_dataclasses import dataclass, replace
from ottla.light_tuples import NamedTuple

BrokerTest: TypeAlias = Callable[[int], bool]

SHRINKS_KEEP_THE_EPOCH_SINCE: Final = 12
"""3.6-IV0: followers do not need a new leader epoch any more to hear that somebody left the in-sync set."""


class Election(enum.Enum):
    """Whom a leader may be taken from."""

    ONLINE = "who leads, else anybody in sync"
    PREFERRED = "the first replica, else as above"
    UNCLEAN = "anybody in sync, else any replica"


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """What decides beside the partition itself. `may_lead` asks of a broker whether it is active and its directory
    works; `directory_of` where a broker puts a replica that it gets."""

    may_lead: BrokerTest
    min_insync: int
    has_elr: bool
    directory_of: Callable[[int], bytes]
    metadata_version: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the partition should be, as far as somebody asked; None is as it is. `lost` are brokers whose memory is not
    to be trusted, `directories` where single brokers have their replica."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    recovering: bool | None = None
    lost: Collection[int] = ()
    directories: Mapping[int, bytes] | None = None
    election: Election = Election.ONLINE


class _Members(NamedTuple):
    """Who has the partition, and how it moves."""

    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def changed(before: Partition, wanted: Wanted, rules: PartitionRules) -> Partition:
    """The partition after the change, in its new epochs; the same object when nothing is different."""
    members = _arrived(_members(before, wanted))
    isr, elr = members.isr, _eligible(before, members, wanted.lost, rules)
    leader, is_unclean = _leader(before, members, elr, wanted.election, rules)
    if leader in elr:
        isr, elr = (leader,), tuple(each for each in elr if each != leader)
    if is_unclean:
        isr, elr = (leader,), ()
    elif not isr and not rules.has_elr:
        isr = before.isr
    names_leader = leader != before.leader or _needs_new_epoch(before, members.replicas, isr, rules)
    recovering = before.recovering if wanted.recovering is None else wanted.recovering
    after = replace(
        before,
        replicas=members.replicas,
        isr=isr,
        leader=leader,
        adding=members.adding,
        removing=members.removing,
        directories=_directories(before, members.replicas, wanted, rules),
        elr=elr,
        last_known_elr=_last_known(before, isr, leader, rules),
        recovering=is_unclean or recovering,
    )
    if after == before and not names_leader:
        return before
    return replace(
        after,
        leader_epoch=before.leader_epoch + names_leader,
        partition_epoch=before.partition_epoch + 1,
    )


def _members(before: Partition, wanted: Wanted) -> _Members:
    def or_as_it_is(value: tuple[int, ...] | None, known: tuple[int, ...]) -> tuple[int, ...]:
        return known if value is None else value

    return _Members(
        or_as_it_is(wanted.isr, before.isr),
        or_as_it_is(wanted.replicas, before.replicas),
        or_as_it_is(wanted.adding, before.adding),
        or_as_it_is(wanted.removing, before.removing),
    )


def _arrived(members: _Members) -> _Members:
    """Without those that were to go, when all the others are in sync."""
    if not members.adding and not members.removing:
        return members
    isr = tuple(each for each in members.isr if each not in members.removing)
    replicas = tuple(each for each in members.replicas if each not in members.removing)
    if not isr or not replicas or not set(replicas) <= set(isr):
        return members
    return _Members(isr, replicas, (), ())


def _eligible(before: Partition, members: _Members, lost: Collection[int], rules: PartitionRules) -> tuple[int, ...]:
    if not rules.has_elr or len(members.isr) >= min(rules.min_insync, len(members.replicas)):
        return ()
    candidates = {*before.elr, *before.isr} - {*members.isr, *lost}
    return tuple(sorted(each for each in candidates if each in members.replicas))


def _leader(
    before: Partition, members: _Members, elr: tuple[int, ...], election: Election, rules: PartitionRules
) -> tuple[int, bool]:
    """Who leads, and whether that is an unclean election."""
    able = members.isr or elr
    order = (before.leader, *members.replicas)
    if election is Election.PREFERRED:
        order = (members.replicas[0], *order)
    for broker_id in order:
        if broker_id in able and rules.may_lead(broker_id):
            return broker_id, False
    if rules.has_elr and not able and len(before.last_known_elr) == 1 and rules.may_lead(before.last_known_elr[0]):
        return before.last_known_elr[0], True
    if election is Election.UNCLEAN:
        for broker_id in members.replicas:
            if rules.may_lead(broker_id):
                return broker_id, True
    return NO_LEADER, False


def _needs_new_epoch(before: Partition, replicas: tuple[int, ...], isr: tuple[int, ...], rules: PartitionRules) -> bool:
    """Whether the leader that stays leads in another epoch."""
    if not set(before.replicas) <= set(replicas):
        return True
    return rules.metadata_version < SHRINKS_KEEP_THE_EPOCH_SINCE and not set(before.isr) <= set(isr)


def _last_known(before: Partition, isr: tuple[int, ...], leader: int, rules: PartitionRules) -> tuple[int, ...]:
    """The last leader of a partition in which nobody is in sync any more; nobody once it has a leader."""
    if not rules.has_elr:
        return before.last_known_elr
    if leader != NO_LEADER:
        return ()
    if not isr and before.isr and before.leader != NO_LEADER:
        return (before.leader,)
    return before.last_known_elr


def _directories(
    before: Partition, replicas: tuple[int, ...], wanted: Wanted, rules: PartitionRules
) -> tuple[bytes, ...]:
    if replicas == before.replicas and not wanted.directories:
        return before.directories
    known = dict(zip(before.replicas, before.directories, strict=False))
    known.update(wanted.directories or {})
    return tuple(known[each] if each in known else rules.directory_of(each) for each in replicas)
