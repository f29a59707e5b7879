"""Numbers of generations: none is given out twice, however much of its log a coordinator has lost."""

from __future__ import annotations

import pytest

from ottla.broker.coordinators.groups.classic_group import LAST_GENERATION, ClassicGroup, generations_before
from ottla.broker.coordinators.groups.state import PREPARING_REBALANCE

OF_EPOCH_3 = 3 << 16


def stable(world, member_id: str = "") -> tuple[str, int]:
    """A group with one member that has its assignment: its id, and the generation."""
    member_id = member_id or world.new_id()
    token = world.join(member_id)
    world.advance(6_000)
    generation = world.answer(token).generation_id
    world.sync(member_id, generation, {member_id: b"all"})
    return member_id, generation


def test_the_first_leader_counts_from_one_as_kafka_does(world):
    assert stable(world)[1] == 1


def test_a_group_that_its_coordinator_has_lost_begins_where_no_earlier_leader_was(world):
    _, before = stable(world)
    world.log.clear()
    world.leader_epoch = 3
    world.restart()
    assert stable(world)[1] == OF_EPOCH_3 + 1 > before


def test_a_group_whose_last_generations_were_lost_does_not_give_them_out_again(world):
    member_id, first = stable(world)
    kept = len(world.log)
    lost = world.answer(world.join(member_id, protocols={"range": b"other"})).generation_id
    assert lost == first + 1
    del world.log[kept:]
    world.leader_epoch = 3
    world.restart()
    assert world.heartbeat(member_id, first) == 0, "who was a member is one, in the generation that is known"
    assert world.answer(world.join(member_id, protocols={"range": b"more"})).generation_id == OF_EPOCH_3 + 1


def test_a_group_of_offsets_alone_may_have_lost_its_members_too(world):
    world.commit({("t", 0): 7})
    world.leader_epoch = 3
    world.restart()
    assert stable(world)[1] == OF_EPOCH_3 + 1


@pytest.mark.parametrize("leader_epoch", [-1, 0, 1, 32_767, 32_768, 2**31 - 1])
def test_a_generation_is_a_positive_number_of_32_bits(leader_epoch):
    group = ClassicGroup("g")
    group.generations_before = generations_before(leader_epoch)
    for generation in (0, OF_EPOCH_3, LAST_GENERATION - 1, LAST_GENERATION):
        group.state.begin(group.state.current, 0)
        group.generation = generation
        group.state.move_to(PREPARING_REBALANCE, 0)
        group.begin_generation(0)
        assert 0 < group.generation <= 2**31 - 1
