"""Who may come into a classic group, and what a join means for the others."""

import pytest

from ottla.broker.coordinators.effects import Reply, SetTimer, Write
from ottla.broker.coordinators.groups.records import founding_record
from ottla.broker.coordinators.groups.timers import JoinTimer, SessionTimer
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    CoordinatorNotAvailable,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse


def asks(member_id="", **how):
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"r")]
    return JoinGroupRequest(
        **{
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": protocols,
        }
        | how
    )


def test_an_unknown_client_is_given_an_id_and_asked_to_come_again(world):
    context = RequestContext(api_version=4, client_id="app", client_host="/10.0.0.1")
    write, timer = world.shard.join_group(1, asks(), context, 500)
    assert write.records == (founding_record("g", 500),)
    assert write.replies == (
        Reply(1, JoinGroupResponse(error_code=79, protocol_name="", leader="", member_id="app-1", members=[])),
    )
    assert timer == SetTimer(SessionTimer("g", "app-1"), 10_500)


def test_a_group_exists_only_when_its_first_record_is_replayed(world):
    context = RequestContext(api_version=4, client_id="app", client_host="/10.0.0.1")
    world.shard.join_group(1, asks(), context, 500)
    assert world.shard.groups == {}


def test_an_old_client_is_taken_in_at_once_and_waits_for_the_first_rebalance(world):
    context = RequestContext(api_version=3, client_id="app", client_host="/10.0.0.1")
    effects = world.shard.join_group(1, asks(), context, 500)
    assert isinstance(effects[0], Write)
    assert effects[0].replies == ()
    assert effects[1:] == [
        SetTimer(SessionTimer("g", "app-1"), 300_500),
        *effects[2:-1],
        SetTimer(JoinTimer("g"), 3_500),
    ]


def test_a_group_that_could_not_be_founded_never_was(world):
    world.append_error = NotEnoughReplicas()
    assert world.answer(world.join()).error_code == CoordinatorNotAvailable.code
    waiting = world.join(version=3)
    assert world.answer(waiting).error_code == CoordinatorNotAvailable.code
    assert world.shard.groups == {}
    world.append_error = None
    world.advance(600_000)
    assert world.answer(world.join()).error_code == MemberIdRequired.code
    world.check_replay()


def test_an_id_from_nowhere_is_unknown(world):
    assert world.answer(world.join("x")).error_code == UnknownMemberId.code
    assert world.answer(world.join("x")).member_id == "x"
    world.new_id()
    assert world.answer(world.join("x")).error_code == UnknownMemberId.code


def test_a_refused_join_founds_no_group(world):
    assert world.answer(world.join(protocols={})).error_code == InconsistentGroupProtocol.code
    assert world.answer(world.join(protocol_type="")).error_code == InconsistentGroupProtocol.code
    assert world.listed() == []


def test_the_empty_group_id_is_no_group(world):
    assert world.answer(world.join(group="")).error_code == InvalidGroupId.code


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_outside_the_limits_is_refused(world, session_ms):
    assert world.answer(world.join(session_ms=session_ms)).error_code == InvalidSessionTimeout.code


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_a_session_at_the_limits_is_allowed(world, session_ms):
    assert world.answer(world.join(session_ms=session_ms)).error_code == MemberIdRequired.code


def test_a_pending_member_that_does_not_come_back_is_forgotten(world):
    member = world.new_id()
    world.advance(9_999)
    assert world.group().pending == {member}
    world.advance(1)
    assert world.group().pending == set()
    assert world.answer(world.join(member)).error_code == UnknownMemberId.code


def test_a_pending_member_holds_up_a_rebalance_until_its_time_is_over(world):
    first = world.new_id()
    world.settle(first)
    second = world.new_id()
    assert second in world.group().pending
    waiting = world.join(first)
    assert world.is_waiting(waiting)
    for _ in range(2):
        world.advance(5_000)
    assert world.answer(waiting).generation_id == 2


def test_pending_ids_have_a_limit(world, monkeypatch):
    monkeypatch.setattr("ottla.broker.coordinators.groups.classic_join.PENDING_MEMBERS_LIMIT", 2)
    world.new_id()
    world.new_id()
    assert world.answer(world.join()).error_code == GroupMaxSizeReached.code


def test_a_member_that_speaks_nothing_of_what_the_group_speaks_is_refused(world):
    world.settle(world.new_id())
    assert world.answer(world.join(protocols={"sticky": b""})).error_code == InconsistentGroupProtocol.code
    assert world.answer(world.join(protocol_type="connect")).error_code == InconsistentGroupProtocol.code


def test_most_votes_choose_among_what_all_can_speak(world):
    a, b, c = world.new_id(), world.new_id(), world.new_id()
    both = {"range": b"1", "sticky": b"2"}
    other = {"sticky": b"3", "range": b"4", "roundrobin": b"5"}
    tokens = [world.join(a, protocols=both), world.join(b, protocols=other), world.join(c, protocols=other)]
    world.advance(100_000)
    answers = [world.answer(token) for token in tokens]
    assert {each.protocol_name for each in answers} == {"sticky"}
    leader = next(each for each in answers if each.members)
    assert {each.member_id: each.metadata for each in leader.members} == {a: b"2", b: b"3", c: b"3"}


def test_what_one_member_cannot_speak_is_not_chosen(world):
    a, b, c = world.new_id(), world.new_id(), world.new_id()
    tokens = [
        world.join(a, protocols={"range": b"", "sticky": b""}),
        world.join(b, protocols={"range": b"", "sticky": b""}),
        world.join(c, protocols={"sticky": b""}),
    ]
    world.advance(100_000)
    assert {world.answer(token).protocol_name for token in tokens} == {"sticky"}


def test_only_the_leader_is_told_who_is_there(world):
    a, b = world.new_id(), world.new_id()
    first, second = world.join(a), world.join(b)
    world.advance(100_000)
    assert world.answer(first).leader == a == world.answer(second).leader
    assert [each.member_id for each in world.answer(first).members] == [a, b]
    assert world.answer(second).members == []


@pytest.mark.parametrize("version", range(10))
def test_every_version_gets_an_answer_in_its_shape(make_world, version):
    world = make_world()
    token = world.join(version=version)
    if version >= 4:
        token = world.join(world.answer(token).member_id, version=version)
    world.advance(10_000)
    answer = world.answer(token)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.protocol_type == "consumer"
    refused = world.answer(world.join("x", version=version))
    assert refused.protocol_name == ("" if version < 7 else None)


def test_version_0_rebalances_within_the_session(make_world):
    world = make_world()
    token = world.join(version=0, session_ms=7_000)
    world.advance(3_000)
    assert world.group().rebalance_timeout_ms == 7_000
    assert world.answer(token).error_code == 0


def test_the_first_rebalance_waits_again_for_everybody_who_comes_but_not_for_ever(world):
    tokens = [world.join(version=3, rebalance_ms=10_000)]
    for _ in range(3):
        world.advance(2_900)
        tokens.append(world.join(version=3, rebalance_ms=10_000))
    world.advance(1_200)
    assert all(world.is_waiting(token) for token in tokens)
    world.advance(200)
    assert [world.answer(token).generation_id for token in tokens] == [1, 1, 1, 1]


def test_nobody_new_ends_the_first_wait(world):
    token = world.join(version=3)
    world.advance(2_999)
    assert world.is_waiting(token)
    world.advance(1)
    assert world.answer(token).error_code == 0


def test_a_full_group_takes_nobody_else(make_world):
    world = make_world(group_max_size=2)
    a, b = world.new_id(), world.new_id()
    world.settle(a, b)
    answer = world.answer(world.join())
    assert (answer.error_code, answer.member_id) == (GroupMaxSizeReached.code, "")
    assert world.heartbeat(a, 1) == 0


def test_during_a_rebalance_the_last_to_come_are_turned_away(make_world):
    world = make_world(group_max_size=2)
    joined = [world.join(version=3) for _ in range(2)]
    assert world.answer(world.join(version=3)).error_code == GroupMaxSizeReached.code
    world.advance(100_000)
    assert [world.answer(token).error_code for token in joined] == [0, 0]


def test_a_group_above_a_lowered_limit_is_called_together_when_it_is_loaded(make_world):
    world = make_world()
    members = [world.new_id() for _ in range(3)]
    world.settle(*members)
    world.settings = world.settings.replaced(group_max_size=2)
    world.restart()
    assert [world.heartbeat(each, 1) for each in members] == [RebalanceInProgress.code] * 3
    tokens = [world.join(each) for each in members]
    assert world.answer(tokens[2]).error_code == GroupMaxSizeReached.code
    world.advance(60_000)
    assert [world.answer(token).error_code for token in tokens[:2]] == [0, 0]
    assert len(world.group().members) == 2


def test_a_new_member_that_nobody_waits_for_any_more_is_dropped(world):
    a = world.new_id()
    world.settle(a)
    waiting = world.join(version=3, rebalance_ms=1_800_000)
    for _ in range(60):
        world.heartbeat(a, 1)
        world.advance(5_000)
    answer = world.answer(waiting)
    assert (answer.error_code, answer.member_id) == (UnknownMemberId.code, "")


def test_a_join_that_is_repeated_ends_the_one_before(world):
    a = world.new_id()
    first = world.join(a)
    second = world.join(a)
    assert world.answer(first).error_code == RebalanceInProgress.code
    world.advance(10_000)
    assert world.answer(second).error_code == 0


def test_a_member_that_lost_its_answer_gets_it_again(world):
    a, b = world.new_id(), world.new_id()
    first, second = world.join(a), world.join(b)
    world.until(first, second)
    again, also = world.answer(world.join(a)), world.answer(world.join(b))
    assert (again, also) == (world.answer(first), world.answer(second))


def test_a_follower_without_news_starts_no_rebalance_and_a_changed_one_does(world):
    a, b = world.new_id(), world.new_id()
    world.settle(a, b)
    assert world.answer(world.join(b)).generation_id == 1
    waiting = world.join(b, protocols={"range": b"news"})
    assert world.is_waiting(waiting)
    assert world.heartbeat(a, 1) == RebalanceInProgress.code


def test_the_leader_may_start_a_rebalance_without_news(world):
    a, b = world.new_id(), world.new_id()
    world.settle(a, b)
    assert world.is_waiting(world.join(a))
    assert world.heartbeat(b, 1) == RebalanceInProgress.code


def test_news_before_the_assignment_starts_over(world):
    a, b = world.new_id(), world.new_id()
    world.until(world.join(a), world.join(b))
    synced = world.sync(b, 1)
    world.join(a, protocols={"range": b"news"})
    assert world.answer(synced).error_code == RebalanceInProgress.code


def test_an_append_that_another_leader_refuses_says_who_is_not_the_coordinator(world):
    world.append_error = NotLeaderOrFollower()
    assert world.answer(world.join()).error_code == NotCoordinator.code
