"""A member of a classic group, driven against the broker's own coordinator."""

from __future__ import annotations

import pytest

from ottla.client.consumer.membership.assignors import RebalanceProtocol
from ottla.client.consumer.membership.classic_states import MOVES, MemberState
from ottla.client.consumer.membership.decisions import (
    Assigned,
    ForgetCoordinator,
    LearnTopics,
    Leaving,
    Lost,
    Revoke,
)
from ottla.errors import (
    FencedInstanceId,
    GroupAuthorizationFailed,
    IllegalGeneration,
    InvalidSetting,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.values import TopicPartition

ALL_OF_T = frozenset(TopicPartition("t", index) for index in range(4))


def test_every_state_has_moves():
    assert set(MOVES) == set(MemberState)


def test_nobody_joins_before_the_first_poll(group):
    member = group.add()
    member.machine._last_poll_ms = None
    member.plan()
    assert not member.asks


def test_a_single_member_gets_everything(group):
    member = group.add()
    group.settle()
    group.check_shared_out()
    assert member.machine.is_member
    metadata = member.machine.group_metadata()
    assert (metadata.group_id, metadata.generation_id, metadata.member_id) == ("g", 1, member.machine.member_id)


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_members_share_evenly_and_take_over_from_those_who_leave(group, assignor):
    first, second = group.add(assignors=(assignor,)), group.add(assignors=(assignor,))
    group.settle()
    group.check_shared_out()
    assert [len(first.held), len(second.held)] == [2, 2]
    second.machine.leave(group.now_ms)
    group.settle()
    assert first.held == ALL_OF_T
    assert second.machine.has_left
    assert second.held == frozenset()


def test_an_eager_member_gives_up_everything_before_it_joins_again(group):
    first = group.add()
    group.settle()
    group.add()
    for _ in range(60):
        group.world.advance(100)
        for member in group.members:
            member.poll()
            member.plan()
            member.deliver()
        if first.changes:
            break
    assert first.changes[0] == Revoke(ALL_OF_T)
    assert first.machine.state is MemberState.PREPARING
    group.settle()
    group.check_shared_out()


def test_a_cooperative_member_keeps_reading_what_stays_its_own(group):
    first = group.add(assignors=("cooperative-sticky",))
    group.settle()
    group.add(assignors=("cooperative-sticky",))
    changes = []
    carry_out = first.carry_out

    def remember():
        change = carry_out()
        if change:
            changes.append(change)
        return change

    first.carry_out = remember
    group.settle()
    revoked = [change for change in changes if isinstance(change, Revoke)]
    assert [len(change.partitions) for change in revoked] == [2]
    assert not any(change.added for change in changes if isinstance(change, Assigned))
    group.check_shared_out()


def test_heartbeats_go_on_while_the_application_gives_partitions_up(group):
    first = group.add()
    group.settle()
    group.add()
    first.carry_out = lambda: None  # the application works on its records, but polls within max.poll.interval.ms
    group.settle(30_000)
    assert first.machine.state is MemberState.PREPARING
    assert first.machine.is_member
    assert first.held == ALL_OF_T
    del first.carry_out
    group.settle()
    group.check_shared_out()


def test_an_application_that_does_not_poll_makes_the_member_leave_and_says_why(group):
    first, second = group.add(), group.add()
    group.settle()
    first.polls = False
    group.settle(61_000)
    assert second.held == ALL_OF_T
    assert first.held == frozenset()
    assert first.machine.generation == -1
    assert "max.poll.interval.ms" in first.warnings[0]
    assert "max.poll.records" in first.warnings[0]
    first.polls = True
    group.settle()
    group.check_shared_out()
    assert len(first.held) == 2


def test_a_member_the_coordinator_forgot_loses_its_partitions_and_comes_back(group):
    first, second = group.add(), group.add()
    group.settle()
    seen = []
    carry_out = first.carry_out
    first.carry_out = lambda: seen.append(carry_out()) or (seen[-1] is not None)
    group.world.leave(first.machine.member_id)
    group.settle()
    assert isinstance(seen[0], Lost)
    group.check_shared_out()
    assert len(first.held) == len(second.held) == 2


def test_a_subscription_that_changes_is_told_to_the_group(make_group):
    group = make_group(t=4, u=2)
    member = group.add("t", assignors=("cooperative-sticky",))
    group.settle()
    member.subscribe("t", "u")
    group.settle()
    group.check_shared_out("t", "u")
    member.subscribe("u")
    group.settle()
    group.check_shared_out("u")


def test_the_leader_learns_topics_that_only_others_read(make_group):
    group = make_group(t=4, u=2)
    leader = group.add("t")
    leader.machine.metadata_changed({"t": group.view()["t"]}, group.now_ms)
    group.settle()
    group.add("u")
    group.settle()
    assert LearnTopics(names=frozenset({"t", "u"})) in leader.told
    group.check_shared_out("t", "u")


def test_a_topic_that_grows_is_shared_out_anew(group):
    group.add()
    group.add()
    group.settle()
    group.grow("t", 7)
    group.settle()
    group.check_shared_out()


def test_a_static_member_keeps_its_place_when_it_closes(group):
    static = group.add(group_instance_id="i1")
    other = group.add()
    group.settle()
    before = other.held
    static.machine.leave(group.now_ms)
    group.settle(5_000)
    assert static.machine.has_left
    assert other.held == before
    again = group.add(group_instance_id="i1")
    group.settle(4_000)
    assert again.held == ALL_OF_T - before


def test_a_static_member_can_leave_for_good(group):
    static = group.add(group_instance_id="i1")
    group.settle()
    static.machine.leave(group.now_ms, how=Leaving.LEAVE)
    static.plan()
    static.carry_out()
    static.plan()
    [(ask, _)] = static.asks
    assert isinstance(ask.request, LeaveGroupRequest)
    assert ask.best_effort


def test_a_consumer_whose_instance_id_was_taken_fails(group):
    first = group.add(group_instance_id="i1")
    group.settle()
    second = group.add(group_instance_id="i1")
    group.settle()
    assert isinstance(first.failures[0], FencedInstanceId)
    assert first.held == frozenset()
    assert second.held == ALL_OF_T


def test_a_moved_coordinator_keeps_the_members(group):
    first, second = group.add(), group.add()
    group.settle()
    generation = first.machine.generation
    group.world.restart()
    first.plan()
    for member in (first, second):
        member.lose()
    group.settle()
    group.check_shared_out()
    assert first.machine.generation == generation


@pytest.mark.parametrize("error", [UnknownMemberId(), IllegalGeneration(), RebalanceInProgress()])
def test_a_commit_that_finds_out_first_starts_the_rebalance(group, error):
    member = group.add()
    group.settle()
    member.machine.commit_refused(error, group.now_ms)
    assert member.machine.is_rebalancing
    group.settle()
    group.check_shared_out()


def test_only_an_unknown_member_forgets_its_id(group):
    member = group.add()
    group.settle()
    name = member.machine.member_id
    member.machine.commit_refused(IllegalGeneration(), group.now_ms)
    assert (member.machine.member_id, member.machine.generation) == (name, -1)
    member.machine.commit_refused(UnknownMemberId(), group.now_ms)
    group.settle()
    group.check_shared_out()


def test_a_forbidden_group_is_told_and_tried_again_only_when_the_application_polls_on(group):
    member = group.add()
    member.plan()
    ask, _ = member.asks.popleft()
    member.machine.failed(ask, GroupAuthorizationFailed(), group.now_ms)
    member.plan()
    assert isinstance(member.failures[0], GroupAuthorizationFailed)
    assert not member.asks
    group.settle()
    group.check_shared_out()


def test_late_answers_change_nothing(group):
    member = group.add()
    member.plan()
    [(ask, _)] = member.asks
    assert isinstance(ask.request, JoinGroupRequest)
    member.machine.leave(group.now_ms)
    late = JoinGroupResponse(
        error_code=0, generation_id=5, protocol_name="range", leader="x", member_id="y", members=[]
    )
    member.machine.answered(ask, late, group.now_ms)
    assert member.machine.generation == -1
    assert member.machine.has_left


def test_unknown_strategies_are_refused_by_name(group):
    with pytest.raises(InvalidSetting, match="no 'best'"):
        group.add(assignors=("best",))


def test_javas_class_names_are_understood(group):
    member = group.add(assignors=("org.apache.kafka.clients.consumer.CooperativeStickyAssignor",))
    group.settle()
    assert member.held == ALL_OF_T


def test_a_group_that_moves_to_cooperative_in_two_rolling_restarts_never_reads_twice(group):
    for _ in range(2):
        group.add(assignors=("range", "cooperative-sticky"))
    group.settle()
    group.check_shared_out()
    group.add(assignors=("range", "cooperative-sticky"))
    group.settle()
    group.check_shared_out()


def test_a_member_that_leaves_slowly_stays_alive_until_its_partitions_are_given_up(group):
    first, second = group.add(), group.add()
    group.settle()
    before = second.held
    first.carry_out = lambda: None  # the application commits, and that takes longer than its session
    first.machine.leave(group.now_ms)
    group.settle(30_000)
    assert first.machine.is_member
    assert second.held == before
    del first.carry_out
    group.settle()
    assert first.machine.has_left
    assert second.held == ALL_OF_T


def test_a_consumer_may_subscribe_again_while_it_is_leaving(group):
    member = group.add()
    group.settle()
    member.machine.leave(group.now_ms)
    member.subscribe("t")
    group.settle()
    group.check_shared_out()


def test_old_news_about_the_membership_are_not_taken_for_new_ones(group):
    member = group.add()
    group.settle()
    old = member.machine.group_metadata()
    member.machine.rejoin("the test wants it", group.now_ms)
    group.settle()
    member.machine.commit_refused(IllegalGeneration(), group.now_ms, sent_as=old)
    assert not member.machine.is_rebalancing


def test_an_assignor_that_raises_is_told_and_the_group_tries_again(group):
    class Broken:
        name = "broken"
        protocols = frozenset({RebalanceProtocol.EAGER})

        def user_data(self, topics, last_assignment, last_generation):
            return None

        def assign(self, view, members):
            raise KeyError("t")

    member = group.add(assignors=("broken",), custom_assignors={"broken": Broken()})
    group.settle(10_000)
    assert "KeyError" in str(member.failures[0])
    assert len(member.failures) > 1


def test_a_dead_coordinator_is_looked_up_anew_when_the_session_is_over(group):
    member = group.add()
    group.settle()
    group.world.advance(3_000)
    member.plan()
    member.asks.clear()  # no answer, no error: the broker hangs
    group.world.advance(10_000)
    member.poll()
    member.plan()
    assert any(isinstance(each, ForgetCoordinator) for each in member.told)
