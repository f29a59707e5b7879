"""Who leads: properties of the choice, for any partition and any brokers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.controller import leaders
from ottla.cluster.model import NO_LEADER, Partition

IDS = list(range(1, 6))


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    replicas = tuple(draw(st.permutations(IDS))[: draw(st.integers(1, 5))])
    isr = tuple(draw(st.lists(st.sampled_from(replicas), unique=True, min_size=1)))
    others = [each for each in replicas if each not in isr]
    elr = tuple(each for each in others if draw(st.booleans()))
    leader = draw(st.sampled_from([NO_LEADER, *isr]))
    return Partition(replicas, isr, leader, draw(st.integers(0, 9)), draw(st.integers(0, 9)), elr=elr)


sets = st.sets(st.sampled_from(IDS))


@given(partitions(), sets, sets, st.booleans(), st.integers(1, 3))
def test_a_settled_partition_is_led_by_somebody_alive_and_in_sync(
    partition: Partition, alive: set[int], leaving: set[int], unclean: bool, min_insync: int
) -> None:
    may_lead = alive - leaving
    after = leaders.elected_if_needed(
        partition, alive.__contains__, may_lead.__contains__, unclean=unclean, min_insync=min_insync
    )
    assert set(after.isr) <= set(partition.replicas)
    assert after.isr
    if after.leader != NO_LEADER:
        assert after.leader in after.isr
        assert after.leader in alive
        assert after.leader == partition.leader or after.leader in may_lead
    else:
        assert after.isr == partition.isr, "those who have what was acknowledged stay on record"
        clean = may_lead & {*partition.isr, *partition.elr} & set(partition.replicas)
        assert not clean
        assert not (unclean and may_lead & set(partition.replicas))


@given(partitions(), sets, st.booleans(), st.integers(1, 3))
def test_settling_twice_changes_nothing_more_and_one_change_is_one_epoch(
    partition: Partition, alive: set[int], unclean: bool, min_insync: int
) -> None:
    def elected_if_needed(each: Partition) -> Partition:
        return leaders.elected_if_needed(
            each, alive.__contains__, alive.__contains__, unclean=unclean, min_insync=min_insync
        )

    once = elected_if_needed(partition)
    assert elected_if_needed(once) is once
    if once is not partition:
        assert once.leader_epoch == partition.leader_epoch + 1
        assert once.partition_epoch == partition.partition_epoch + 1


@given(partitions(), sets, st.integers(1, 3))
def test_without_an_unclean_election_only_trusted_replicas_lead(
    partition: Partition, alive: set[int], min_insync: int
) -> None:
    after = leaders.elected_if_needed(
        partition, alive.__contains__, alive.__contains__, unclean=False, min_insync=min_insync
    )
    assert after.leader in (NO_LEADER, *partition.isr, *partition.elr)
    assert after.recovering is partition.recovering
    if after.leader in partition.elr:
        assert not alive & set(partition.isr)


@given(partitions(), st.lists(st.sampled_from(IDS), unique=True, min_size=1), st.integers(1, 3))
def test_who_leaves_a_small_set_stays_eligible(partition: Partition, isr: list[int], min_insync: int) -> None:
    in_sync = [each for each in isr if each in partition.replicas]
    after = leaders.with_isr(partition, in_sync, min_insync)
    assert not set(after.elr) & set(after.isr)
    if len(in_sync) >= min(min_insync, len(partition.replicas)):
        assert after.elr == ()
    else:
        assert set(after.elr) == ({*partition.isr, *partition.elr}) - set(in_sync)


@given(partitions(), st.sampled_from(IDS), sets, st.integers(1, 3))
def test_a_hand_over_leaves_the_leaving_one_out_or_is_not_possible(
    partition: Partition, leaving: int, staying: set[int], min_insync: int
) -> None:
    may_lead = staying - {leaving}
    after = leaders.handed_over(partition, leaving, may_lead.__contains__, min_insync=min_insync)
    if after is None:
        assert partition.leader == leaving
        assert not may_lead & set(partition.isr)
    else:
        assert after.leader != leaving or leaving not in partition.isr
        assert leaving not in after.isr or after.isr == (leaving,)
        assert after.leader in (NO_LEADER, *after.isr)


@given(partitions(), st.sampled_from(IDS))
def test_trust_is_lost_only_where_another_can_be_trusted(partition: Partition, broker_id: int) -> None:
    after = leaders.distrusted(partition, broker_id)
    known = {*partition.isr, *partition.elr}
    if broker_id not in known or known == {broker_id}:
        assert after is partition
    else:
        assert broker_id not in {*after.isr, *after.elr}
        assert {*after.isr, *after.elr} == known - {broker_id}


def test_preferred_is_the_first_replica_if_it_can() -> None:
    partition = Partition((1, 2), (2, 1), 2)
    assert leaders.preferred(partition, {1, 2}.__contains__) == replace(
        partition, leader=1, leader_epoch=1, partition_epoch=1
    )
    assert leaders.preferred(partition, {2}.__contains__) is None
    assert leaders.preferred(replace(partition, isr=(2,)), {1, 2}.__contains__) is None
    assert leaders.preferred(replace(partition, leader=1), {1, 2}.__contains__) is None


def test_a_partition_that_nobody_ever_led_begins_with_all_that_are_there() -> None:
    new = Partition((3, 1, 2), (), NO_LEADER, leader_epoch=-1, partition_epoch=-1)
    led = leaders.first_led(new, {1, 2}.__contains__)
    assert (led.leader, led.isr, led.leader_epoch, led.partition_epoch) == (1, (1, 2), 0, 0)
    assert leaders.first_led(new, set().__contains__) is new
