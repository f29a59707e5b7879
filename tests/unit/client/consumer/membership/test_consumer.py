"""A member of a consumer group (KIP-848), driven against the broker's own coordinator."""

from __future__ import annotations

import pytest

from ottla.client.consumer.membership.consumer_states import MOVES, ConsumerState
from ottla.client.consumer.membership.decisions import LearnTopics, Leaving, Lost
from ottla.errors import (
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    InvalidRegularExpression,
    NotCoordinator,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.values import TopicPartition

ALL_OF_T = frozenset(TopicPartition("t", index) for index in range(4))


def test_every_state_has_moves():
    assert set(MOVES) == set(ConsumerState)


def test_a_single_member_gets_everything(group):
    member = group.add_consumer()
    group.settle(5_000)
    group.check_shared_out()
    assert member.machine.generation > 0
    assert member.machine.state is ConsumerState.STABLE


def test_members_share_evenly_and_take_over_from_those_who_leave(group):
    first, second = group.add_consumer(), group.add_consumer()
    group.settle(20_000)
    group.check_shared_out()
    assert [len(first.held), len(second.held)] == [2, 2]
    second.machine.leave(group.now_ms)
    group.settle(10_000)
    assert second.machine.has_left
    assert first.held == ALL_OF_T


def test_the_first_heartbeat_says_everything_and_the_next_only_what_changed(group):
    member = group.add_consumer(rack="r1", remote_assignor="uniform")
    member.plan()
    request = member.asks[0][0].request
    assert (request.member_epoch, request.rack_id, request.server_assignor) == (0, "r1", "uniform")
    assert (request.subscribed_topic_names, request.topic_partitions) == (["t"], [])
    assert request.rebalance_timeout_ms == 60_000
    group.settle(500)
    group.world.advance(10_000)
    member.plan()
    request = member.asks[0][0].request
    assert (request.rack_id, request.server_assignor, request.subscribed_topic_names) == (None, None, None)
    assert (request.topic_partitions, request.rebalance_timeout_ms) == (None, -1)


def test_after_a_lost_answer_everything_is_said_again(group):
    member = group.add_consumer()
    group.settle(5_000)
    group.world.advance(10_000)
    member.plan()
    member.lose()
    group.world.advance(1_000)
    member.plan()
    assert member.asks[0][0].request.subscribed_topic_names == ["t"]


def test_changed_partitions_are_acknowledged_at_once(group):
    member = group.add_consumer()
    member.plan()
    member.deliver()
    member.plan()
    assert member.carry_out().partitions == ALL_OF_T
    member.plan()
    [(ask, _)] = member.asks
    assert sum(len(each.partitions) for each in ask.request.topic_partitions) == 4


def test_the_coordinator_chooses_the_interval(group):
    member = group.add_consumer()
    group.settle(500)
    assert member.wake_at_ms - group.now_ms > 4_000  # group.consumer.heartbeat.interval.ms is 5 seconds


def test_heartbeats_go_on_while_the_application_gives_partitions_up(group):
    first = group.add_consumer()
    group.settle(5_000)
    second = group.add_consumer()
    first.carry_out = lambda: None
    group.settle(40_000)
    assert first.machine.is_member
    assert first.held == ALL_OF_T
    assert second.held == frozenset()
    del first.carry_out
    group.settle(20_000)
    group.check_shared_out()


def test_an_application_that_does_not_poll_makes_the_member_leave_and_says_why(group):
    first, second = group.add_consumer(), group.add_consumer()
    group.settle(20_000)
    first.polls = False
    group.settle(75_000)
    assert second.held == ALL_OF_T
    assert first.held == frozenset()
    assert "max.poll.interval.ms" in first.warnings[0]
    first.polls = True
    group.settle(20_000)
    group.check_shared_out()


@pytest.mark.parametrize("error", [FencedMemberEpoch(), UnknownMemberId()])
def test_a_fenced_member_loses_everything_and_joins_again(group, error):
    member = group.add_consumer()
    group.settle(5_000)
    group.world.advance(10_000)
    member.plan()
    ask, _ = member.asks.popleft()
    member.machine.failed(ask, error, group.now_ms)
    member.plan()
    assert isinstance(member.changes[0], Lost)
    assert not member.machine.is_member
    group.settle(10_000)
    group.check_shared_out()


def test_a_pattern_is_matched_by_the_broker(make_group):
    group = make_group(orders=2, orders_old=1, other=1)
    member = group.add_consumer("orders")
    member.subscribe(pattern="orders.*")
    group.settle(30_000)
    group.check_shared_out("orders", "orders_old")
    member.subscribe("other")
    group.settle(30_000)
    group.check_shared_out("other")


def test_a_topic_without_a_known_name_is_asked_for_and_the_others_do_not_wait(make_group):
    group = make_group(t=4, u=2)
    member = group.add_consumer("t", "u")
    member.machine.metadata_changed({"t": group.view()["t"]}, group.now_ms)
    full = group.view
    group.view = lambda *names: {"t": full()["t"]}
    group.settle(2_000)
    assert member.held == ALL_OF_T
    assert LearnTopics(ids=frozenset({full()["u"].topic_id})) in member.told
    group.view = full
    member.machine.metadata_changed(full(), group.now_ms)
    group.settle(2_000)
    group.check_shared_out("t", "u")


@pytest.mark.parametrize(("how", "epoch"), [(Leaving.DEFAULT, -2), (Leaving.LEAVE, -1), (Leaving.REMAIN, -2)])
def test_a_static_member_leaves_for_a_while_or_for_good(group, how, epoch):
    member = group.add_consumer(group_instance_id="i1")
    group.settle(5_000)
    member.machine.leave(group.now_ms, how=how)
    member.plan()
    member.carry_out()
    member.plan()
    [(ask, _)] = member.asks
    assert ask.request.member_epoch == epoch


def test_a_static_member_that_comes_back_gets_its_partitions(group):
    static, other = group.add_consumer(group_instance_id="i1"), group.add_consumer()
    group.settle(20_000)
    before = static.held
    static.machine.leave(group.now_ms)
    group.settle(5_000)
    assert other.held == ALL_OF_T - before
    again = group.add_consumer(group_instance_id="i1")
    group.settle(10_000)
    assert again.held == before


def test_a_member_that_leaves_before_its_first_answer_still_says_so(group):
    member = group.add_consumer()
    member.plan()
    member.machine.leave(group.now_ms)
    member.plan()
    assert member.asks[-1][0].request.member_epoch == -1


def test_a_member_that_never_joined_leaves_in_silence(group):
    member = group.add_consumer()
    member.machine.leave(group.now_ms)
    member.plan()
    assert not member.asks
    assert member.machine.has_left


@pytest.mark.parametrize("error", [GroupAuthorizationFailed(), InvalidRegularExpression(), UnreleasedInstanceId()])
def test_errors_nobody_can_mend_stop_the_member(group, error):
    member = group.add_consumer()
    group.settle(5_000)
    group.world.advance(10_000)
    member.plan()
    ask, _ = member.asks.popleft()
    member.machine.failed(ask, error, group.now_ms)
    group.settle(20_000)
    assert member.failures == [error]
    assert member.held == frozenset()
    assert member.machine.state is ConsumerState.FAILED
    member.machine.leave(group.now_ms)
    member.subscribe("t")
    group.settle(50_000)
    group.check_shared_out()


def test_a_forbidden_topic_is_told_and_the_member_goes_on(group):
    member = group.add_consumer()
    group.settle(5_000)
    group.world.advance(10_000)
    member.plan()
    ask, _token = member.asks.popleft()
    answer = ConsumerGroupHeartbeatResponse(error_code=29, member_epoch=-1, heartbeat_interval_ms=0)
    member.machine.answered(ask, answer, group.now_ms)
    group.settle(5_000)
    assert isinstance(member.failures[0], TopicAuthorizationFailed)
    group.check_shared_out()


def test_a_moved_coordinator_is_looked_up_and_keeps_the_member(group):
    member = group.add_consumer()
    group.settle(5_000)
    epoch = member.machine.generation
    group.world.advance(10_000)
    member.plan()
    ask, _ = member.asks.popleft()
    member.machine.failed(ask, NotCoordinator(), group.now_ms)
    group.world.restart()
    group.settle(10_000)
    assert member.told
    assert member.machine.generation == epoch
    group.check_shared_out()


def test_a_member_that_leaves_slowly_stays_alive_until_its_partitions_are_given_up(group):
    first, second = group.add_consumer(), group.add_consumer()
    group.settle(20_000)
    before = second.held
    first.carry_out = lambda: None
    first.machine.leave(group.now_ms)
    group.settle(55_000)
    assert first.machine.is_member
    assert second.held == before
    del first.carry_out
    group.settle(10_000)
    assert first.machine.has_left
    assert second.held == ALL_OF_T


def test_a_consumer_may_subscribe_again_while_it_is_leaving(group):
    member = group.add_consumer()
    group.settle(5_000)
    member.machine.leave(group.now_ms)
    member.subscribe("t")
    group.settle(20_000)
    group.check_shared_out()


def test_a_static_member_whose_first_answer_was_lost_waits_for_itself_to_be_forgotten(group):
    member = group.add_consumer(group_instance_id="i1")
    member.plan()
    member.lose()  # the coordinator has the member, the member does not know its epoch
    group.settle(30_000)
    assert member.held == frozenset()
    assert member.failures == []
    group.settle(30_000)
    group.check_shared_out()
