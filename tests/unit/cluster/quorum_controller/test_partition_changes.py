"""One partition is changed, as Kafka's controller changes it."""

from __future__ import annotations

import random
from collections.abc import Container

import pytest

from ottla.cluster.metadata_log.partition_records import change_record, merged
from ottla.cluster.model import MIGRATING_DIRECTORY, NO_LEADER, Partition
from ottla.cluster.quorum_controller.partition_changes import Election, PartitionRules, Wanted, changed
from ottla.light_dataclasses import replace


def rules(
    alive: Container[int] = (1, 2, 3, 4), *, min_insync: int = 2, has_elr: bool = True, level: int = 30
) -> PartitionRules:
    return PartitionRules(
        may_lead=lambda broker_id: broker_id in alive,
        min_insync=min_insync,
        has_elr=has_elr,
        directory_of=lambda broker_id: (1000 + broker_id).to_bytes(16) if level >= 17 else MIGRATING_DIRECTORY,
        metadata_version=level,
    )


def on(*replicas: int, isr: tuple[int, ...] | None = None, leader: int | None = None) -> Partition:
    directories = tuple((1000 + each).to_bytes(16) for each in replicas)
    isr = replicas if isr is None else isr
    leader = replicas[0] if leader is None else leader
    return Partition(replicas, isr, leader, leader_epoch=5, partition_epoch=7, directories=directories)


def test_what_is_so_already_is_the_same_object() -> None:
    before = on(1, 2, 3)
    assert changed(before, Wanted(isr=(1, 2, 3)), rules()) is before


def test_a_shrink_keeps_the_leader_and_its_epoch() -> None:
    after = changed(on(1, 2, 3), Wanted(isr=(1, 2)), rules())
    assert (after.leader, after.leader_epoch, after.partition_epoch, after.isr) == (1, 5, 8, (1, 2))


def test_a_shrink_began_a_leader_epoch_at_old_levels() -> None:
    assert changed(on(1, 2, 3), Wanted(isr=(1, 2)), rules(level=11)).leader_epoch == 6


def test_who_leaves_a_set_that_is_too_small_is_eligible() -> None:
    after = changed(on(1, 2, 3, isr=(1, 2)), Wanted(isr=(1,)), rules())
    assert (after.isr, after.elr) == ((1,), (2,))


def test_nobody_is_eligible_while_enough_are_in_sync() -> None:
    before = replace(on(1, 2, 3, isr=(1,)), elr=(3,))
    assert changed(before, Wanted(isr=(1, 2)), rules()).elr == ()


def test_the_next_replica_in_sync_leads_when_the_leader_goes() -> None:
    after = changed(on(1, 2, 3), Wanted(isr=(2, 3)), rules(alive=(2, 3)))
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (2, 6, 8)


def test_the_in_sync_set_may_become_empty_and_the_last_leader_is_remembered() -> None:
    after = changed(on(1, 2, 3, isr=(1,)), Wanted(isr=()), rules(alive=()))
    assert (after.isr, after.elr, after.leader, after.last_known_elr) == ((), (1,), NO_LEADER, (1,))


def test_without_eligible_replicas_the_last_in_sync_set_stays() -> None:
    after = changed(on(1, 2, 3, isr=(1,)), Wanted(isr=()), rules(alive=(2,), has_elr=False))
    assert (after.isr, after.elr, after.leader) == ((1,), (), NO_LEADER)


def test_an_eligible_replica_leads_when_nobody_is_in_sync() -> None:
    before = replace(on(1, 2, 3, isr=(), leader=NO_LEADER), elr=(1, 2), last_known_elr=(1,))
    after = changed(before, Wanted(), rules(alive=(2,)))
    assert (after.leader, after.isr, after.elr, after.recovering) == (2, (2,), (1,), False)
    assert after.last_known_elr == ()


def test_an_eligible_replica_does_not_lead_while_somebody_is_in_sync() -> None:
    before = replace(on(1, 2, 3, isr=(1,), leader=1), elr=(2,))
    after = changed(before, Wanted(isr=(1,)), rules(alive=(2,)))
    assert (after.leader, after.isr) == (NO_LEADER, (1,))


def test_the_last_leader_comes_back_when_nobody_is_eligible_and_recovers() -> None:
    before = replace(on(1, 2, 3, isr=(), leader=NO_LEADER), last_known_elr=(1,))
    after = changed(before, Wanted(), rules(alive=(1, 2, 3)))
    assert (after.leader, after.isr, after.recovering, after.last_known_elr) == (1, (1,), True, ())


def test_the_last_leader_must_be_there_to_come_back() -> None:
    before = replace(on(1, 2, 3, isr=(), leader=NO_LEADER), last_known_elr=(1,))
    assert changed(before, Wanted(), rules(alive=(2, 3))) is before


def test_any_replica_may_lead_after_an_unclean_election() -> None:
    before = replace(on(1, 2, 3, isr=(), leader=NO_LEADER), elr=(1,))
    after = changed(before, Wanted(election=Election.UNCLEAN), rules(alive=(3,)))
    assert (after.leader, after.isr, after.elr, after.recovering) == (3, (3,), (), True)


def test_an_unclean_election_is_clean_when_it_can_be() -> None:
    before = on(1, 2, 3, isr=(2,), leader=NO_LEADER)
    after = changed(before, Wanted(election=Election.UNCLEAN), rules(has_elr=False))
    assert (after.leader, after.isr, after.recovering) == (2, (2,), False)


def test_who_lost_its_memory_is_not_eligible() -> None:
    before = replace(on(1, 2, 3, isr=(1,)), elr=(2,))
    after = changed(before, Wanted(isr=(), lost=(1,)), rules(alive=()))
    assert (after.isr, after.elr) == ((), (2,))


@pytest.mark.parametrize(("isr", "alive", "leader"), [((1, 2), (1, 2), 1), ((2, 3), (1, 2, 3), 2), ((3,), (3,), 3)])
def test_the_preferred_leader_leads_where_it_can(isr: tuple[int, ...], alive: tuple[int, ...], leader: int) -> None:
    before = on(1, 2, 3, isr=isr, leader=2 if 2 in isr else 3)
    assert changed(before, Wanted(election=Election.PREFERRED), rules(alive)).leader == leader


def test_a_reassignment_begins_without_a_leader_epoch() -> None:
    after = changed(on(1, 2), Wanted(replicas=(3, 1, 2), adding=(3,), removing=(2,)), rules())
    assert (after.replicas, after.adding, after.removing, after.leader_epoch) == ((3, 1, 2), (3,), (2,), 5)
    assert after.directories[0] == (1003).to_bytes(16)


def test_a_reassignment_ends_with_the_change_that_has_its_target_in_sync() -> None:
    before = replace(on(3, 4, 1, 2, isr=(1, 2, 3), leader=1), adding=(3, 4), removing=(1, 2))
    after = changed(before, Wanted(isr=(1, 2, 3, 4)), rules())
    assert (after.replicas, after.isr, after.adding, after.removing) == ((3, 4), (3, 4), (), ())
    assert (after.leader, after.leader_epoch) == (3, 6)
    assert after.directories == ((1003).to_bytes(16), (1004).to_bytes(16))


def test_replicas_that_go_begin_a_leader_epoch_of_the_same_leader() -> None:
    after = changed(on(1, 2, 3), Wanted(isr=(1, 2), replicas=(1, 2)), rules())
    assert (after.leader, after.leader_epoch, after.replicas) == (1, 6, (1, 2))


def test_every_change_is_one_record() -> None:
    """What a reader makes of it is what was decided: one step of the partition epoch, at most one of the leader's."""
    for seed in range(3_000):
        chance = random.Random(seed)
        known = on(*chance.sample((1, 2, 3, 4), chance.randint(1, 4)))
        level = chance.choice((11, 23, 30))
        if level == 11:
            known = replace(known, directories=(MIGRATING_DIRECTORY,) * len(known.replicas))
        has_elr = level >= 23 and chance.random() < 0.7
        for _ in range(8):
            alive = {each for each in (1, 2, 3, 4) if chance.random() < 0.6}
            wanted = Wanted(
                isr=tuple(each for each in known.replicas if chance.random() < 0.5) if chance.random() < 0.7 else None,
                lost=[chance.randint(1, 4)] if chance.random() < 0.1 else (),
                election=chance.choice(tuple(Election)),
            )
            if chance.random() < 0.3:
                target = tuple(chance.sample((1, 2, 3, 4), chance.randint(1, 4)))
                gone = tuple(each for each in known.replicas if each not in target)
                new = tuple(each for each in target if each not in known.replicas)
                wanted = replace(wanted, replicas=(*target, *gone), adding=new, removing=gone)
            after = changed(known, wanted, rules(alive, has_elr=has_elr, level=level))
            if after is known:
                continue
            assert after.partition_epoch == known.partition_epoch + 1
            assert after.leader == NO_LEADER or after.leader in after.isr, seed
            assert not set(after.isr) & set(after.elr), seed
            record = change_record(b"i" * 16, 0, known, after, level)
            if level >= 23:
                assert merged(known, record) == after, seed
            known = after
