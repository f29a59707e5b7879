"""A partition on three brokers, told as it goes: replicated, failed over, cut, joined again."""

import pytest

from ottla.errors import NotEnoughReplicas, NotLeaderOrFollower


def test_a_record_is_acknowledged_when_everybody_in_sync_has_it(world):
    world.deliver()
    world.produce(0, "a")
    assert world.acknowledged == {}
    world.deliver()
    assert world.acknowledged == {0: "a"}
    assert world.bytes_of(0) == world.bytes_of(1) == world.bytes_of(2)


def test_followers_learn_what_is_committed_with_the_next_answer(world):
    world.produce(0, "a")
    world.settle()
    assert [world.values(each) for each in range(3)] == [["a"]] * 3


def test_a_new_leader_goes_on_and_the_old_one_cuts_what_nobody_else_has(world):
    world.produce(0, "a")
    world.settle()
    world.later(600)  # the fetches that waited at the leader are over, and the next ones do not arrive
    world.produce(0, "only here", acks=1)
    world.crash(0)
    world.produce(1, "b")  # the order has not come yet
    assert world.refused[-1] == ("b", NotLeaderOrFollower.code)
    world.deliver()
    world.produce(1, "b")
    world.settle()
    world.start(0)
    world.settle()
    assert world.values(0) == world.values(1) == ["a", "b"]
    assert world.bytes_of(0) == world.bytes_of(1) == world.bytes_of(2)
    assert world.truth.isr == (0, 1, 2)
    world.check()


def test_a_follower_that_says_nothing_is_dropped_and_does_not_hold_up_others(world):
    world.produce(0, "a")
    world.deliver()
    world.crash(2)
    world.deliver()
    world.produce(0, "b")
    world.settle()
    assert world.acknowledged == {0: "a", 1: "b"}
    assert world.truth.isr == (0, 1)


def test_a_follower_that_is_slow_is_dropped_after_the_lag_time_and_comes_back(make_world):
    world = make_world(replica_lag_time_max_ms=10_000)
    world.settle()
    world.produce(0, "a")
    for _ in range(30):  # broker 2 is not heard any more
        for letter in world.open_letters:
            world.lose(letter) if letter.sender == 2 else world.arrive(letter)
        world.later(1_000)
    assert set(world.truth.isr) == {0, 1}
    assert world.acknowledged == {0: "a"}
    world.settle()
    assert set(world.truth.isr) == {0, 1, 2}
    world.check()


@pytest.mark.parametrize("again", [0, 1], ids=["leader", "follower"])
def test_who_has_another_session_does_not_keep_others_from_joining(world, again):
    """Short seeds 60005 and 61099. The partition is quiet, so fetches do not name it: the registration that they come
    under is all that is new."""
    world.settle()
    world.crash(2)
    world.settle()
    world.register_again(again)
    world.settle()
    world.start(2)
    world.settle()
    assert set(world.truth.isr) == {0, 1, 2}


def test_below_the_minimum_nothing_is_committed_and_acks_all_is_refused(make_world):
    world = make_world(replica_lag_time_max_ms=1_000)
    world.settle()
    for broker_id in (1, 2):
        world.crash(broker_id)
    world.deliver()
    assert world.truth.isr == (0,)
    world.produce(0, "a")
    world.produce(0, "b", acks=1)
    assert world.refused == [("a", NotEnoughReplicas.code), ("b", 0)]
    world.settle()
    assert world.nodes[0].partition.high_watermark == 0
    world.start(1)
    world.settle()
    assert world.nodes[0].partition.high_watermark == 1
    assert world.truth.isr == (0, 1)


def test_a_leader_that_was_replaced_and_does_not_know_acknowledges_nothing(world):
    world.settle()
    world.elect(1, without=(0,))  # broker 0 lost its session, and the order to it is late
    for each in (1, 2):
        world.obey(each)
    world.produce(0, "lost")
    world.produce(1, "kept")
    for letter in world.open_letters:
        world.arrive(letter)
    world.later(100)
    world.settle()
    assert "lost" not in world.acknowledged.values()
    assert "kept" in world.acknowledged.values()
    assert world.values(0) == world.values(1) == ["kept"]
    world.check()


def test_a_follower_whose_log_was_deleted_starts_where_the_leaders_log_starts(world):
    for value in "abc":
        world.produce(0, value)
        world.deliver()
    world.settle()
    world.crash(2)
    world.nodes[2].files = type(world.nodes[2].files)(seed=9)  # a new disk
    for each in (0, 1):
        world.nodes[each].partition.log.advance_log_start(2)
    world.deliver()
    world.start(2)
    world.settle()
    log = world.nodes[2].partition.log
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert set(world.truth.isr) == {0, 1, 2}
