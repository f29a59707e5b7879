"""Who leads a partition, and who is in sync: decided on one partition, with two questions about brokers.

1. A leader is always in sync when it is chosen, unless an unclean election was allowed; then it is the only one in
   sync, and the partition is recovering.
2. Nobody alive in sync: no leader, and the in-sync set stays as it was, because those are the replicas that have what
   was acknowledged. The first of them to come back leads.
3. Eligible leader replicas (KIP-966): a replica that leaves a set that is then smaller than min.insync.replicas stays
   eligible, because the high watermark does not move while the set is so small. It may lead when nobody in sync can.
   A replica that lost its memory is neither in sync nor eligible any more, as long as another one is.
4. Each decision that changes anything begins one new leader epoch and one new partition epoch, however much it changes.

`alive` asks whether a broker is there and has the replica; `may_lead` whether it also stays (is not shutting down).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from ottla.cluster.model import NO_LEADER, Partition
from ottla.light_dataclasses import replace

BrokerTest: TypeAlias = Callable[[int], bool]


def in_next_epoch(before: Partition, after: Partition) -> Partition:
    """`after` in the epochs that follow `before`; the same partition when nothing is different."""
    if after == before:
        return before
    return replace(
        after, leader_epoch=max(0, before.leader_epoch + 1), partition_epoch=max(0, before.partition_epoch + 1)
    )


def with_isr(partition: Partition, isr: Iterable[int], min_insync: int) -> Partition:
    """Another in-sync set, and who stays eligible outside it; see 3. No epoch changes."""
    in_sync = tuple(isr)
    enough = min(min_insync, len(partition.replicas))
    known = {*partition.isr, *partition.elr}
    left = tuple(each for each in partition.replicas if each in known and each not in in_sync)
    last_known = () if len(in_sync) >= enough else partition.last_known_elr
    return replace(partition, isr=in_sync, elr=left if len(in_sync) < enough else (), last_known_elr=last_known)


def has_live_leader_and_isr(partition: Partition, alive: BrokerTest) -> bool:
    """Whether it has a leader and every in-sync replica is alive: the normal case, for which nothing is to be done."""
    return partition.leader in partition.isr and all(map(alive, partition.isr))


def elected_if_needed(
    partition: Partition, alive: BrokerTest, may_lead: BrokerTest, *, unclean: bool, min_insync: int
) -> Partition:
    """The partition with a leader and an in-sync set of live brokers; the same object when nothing is to be done."""
    if has_live_leader_and_isr(partition, alive):
        return partition
    in_sync = tuple(each for each in partition.isr if alive(each))
    if partition.leader in in_sync:
        return in_next_epoch(partition, with_isr(partition, in_sync, min_insync))
    return in_next_epoch(partition, _elected(partition, in_sync, may_lead, unclean=unclean, min_insync=min_insync))


def _elected(
    partition: Partition, in_sync: tuple[int, ...], may_lead: BrokerTest, *, unclean: bool, min_insync: int
) -> Partition:
    able = [each for each in partition.replicas if may_lead(each)]
    if clean := [each for each in able if each in in_sync]:
        return replace(with_isr(partition, in_sync, min_insync), leader=clean[0])
    if eligible := [each for each in able if each in partition.elr]:
        # Those that were in sync are away, but what they have beyond this one was never acknowledged.
        return replace(with_isr(partition, (eligible[0],), min_insync), leader=eligible[0])
    if unclean and able:
        return replace(partition, leader=able[0], isr=(able[0],), elr=(), last_known_elr=(), recovering=True)
    return replace(partition, leader=NO_LEADER)


def first_led(partition: Partition, may_lead: BrokerTest) -> Partition:
    """A partition that never had a leader: all brokers that are there are in sync, with an empty log; the same one when
    none is."""
    in_sync = tuple(each for each in partition.replicas if may_lead(each))
    if not in_sync:
        return partition
    return replace(partition, leader=in_sync[0], isr=in_sync, leader_epoch=0, partition_epoch=0)


def preferred(partition: Partition, may_lead: BrokerTest) -> Partition | None:
    """Led by its first replica; None when that one cannot, or does already."""
    first = partition.replicas[0]
    if first == partition.leader or first not in partition.isr or not may_lead(first):
        return None
    return in_next_epoch(partition, replace(partition, leader=first))


def handed_over(partition: Partition, leaving: int, may_lead: BrokerTest, *, min_insync: int) -> Partition | None:
    """Without a broker that shuts down, as leader and in the in-sync set; None when nobody else can lead.

    One that has the only replica keeps it until it is gone, because there is nobody to hand it to.
    """
    rest = tuple(each for each in partition.isr if each != leaving)
    if partition.leader != leaving:
        # The last in-sync replica stays on record: it has what was acknowledged.
        return (
            in_next_epoch(partition, with_isr(partition, rest, min_insync))
            if rest and rest != partition.isr
            else partition
        )
    staying = tuple(each for each in rest if may_lead(each))
    able = [each for each in partition.replicas if each in staying]
    if not able:
        return None
    return in_next_epoch(partition, replace(with_isr(partition, staying, min_insync), leader=able[0]))


def distrusted(partition: Partition, broker_id: int) -> Partition:
    """Without trust in a broker that lost its memory, unless nobody else could be trusted more; see 3."""
    others = ({*partition.isr, *partition.elr} - {broker_id}) | ({partition.leader} - {broker_id, NO_LEADER})
    if broker_id not in (*partition.isr, *partition.elr) or not others:
        return partition
    was_last = partition.isr == (broker_id,)
    return in_next_epoch(
        partition,
        replace(
            partition,
            isr=tuple(each for each in partition.isr if each != broker_id),
            elr=tuple(each for each in partition.elr if each != broker_id),
            last_known_elr=(broker_id,) if was_last else partition.last_known_elr,
            leader=NO_LEADER if partition.leader == broker_id else partition.leader,
        ),
    )


def without_eligible(partition: Partition) -> Partition:
    """With nobody eligible outside the in-sync set."""
    return in_next_epoch(partition, replace(partition, elr=(), last_known_elr=()))
