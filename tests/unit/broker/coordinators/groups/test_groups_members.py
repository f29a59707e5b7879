"""SyncGroup, Heartbeat, LeaveGroup, static members, sessions, and appends that fail."""

import pytest

from ottla.broker.coordinators.groups.state import MOVES, ClassicState, GroupState
from ottla.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    IllegalMove,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSetting,
    KafkaStorageError,
    NotCoordinator,
    NotEnoughReplicas,
    RebalanceInProgress,
    RecordListTooLarge,
    UnknownMemberId,
    UnknownServerError,
)
from ottla.protocol.stored.classic_groups import GroupMetadataValue, MemberMetadata


@pytest.fixture
def pair(world):
    """A stable group of a leader and a follower at generation 1."""
    a, b = world.new_id(), world.new_id()
    world.settle(a, b)
    return a, b


@pytest.fixture
def static(world):
    """The same with static members i (leader) and j."""
    first, second = world.until(world.join(instance="i"), world.join(instance="j"))
    a, b = first.member_id, second.member_id
    world.sync(b, 1, instance="j")
    world.sync(a, 1, {a: b"x", b: b"y"}, instance="i")
    return a, b


# -- states -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", GroupState)
@pytest.mark.parametrize("end", GroupState)
def test_a_group_moves_only_as_the_table_says(start, end):
    state = ClassicState(0)
    state.begin(start, 0)
    if end in MOVES[start]:
        state.move_to(end, 5)
        assert (state.current, state.previous, state.since_ms) == (end, start, 5)
    else:
        with pytest.raises(IllegalMove, match=f"began {start.value}"):
            state.move_to(end, 5)


def test_no_session_would_be_allowed_is_said_at_the_start(make_world):
    with pytest.raises(InvalidSetting, match=r"group\.min\.session"):
        make_world(group_min_session_timeout_ms=10, group_max_session_timeout_ms=5)


# -- sync -------------------------------------------------------------------------------------------------------------


def test_the_assignment_is_one_record_at_the_version_kafka_writes(world):
    a = world.new_id(client_id="app")
    world.until(world.join(a, session_ms=20_000))
    entered_ms = world.now_ms
    before = len(world.log)
    token = world.sync(a, 1, {a: b"all"})
    (stored,) = world.log[before:]
    assert stored.value[:2] == b"\x00\x03"
    assert world.group().stored == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=a,
        current_state_timestamp=entered_ms,
        members=[
            MemberMetadata(
                member_id=a,
                group_instance_id=None,
                client_id="c",
                client_host="/127.0.0.1",
                rebalance_timeout=60_000,
                session_timeout=20_000,
                subscription=b"r",
                assignment=b"all",
            )
        ],
    )
    answer = world.answer(token)
    assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (b"all", "consumer", "range")


def test_nobody_hears_an_assignment_before_it_is_committed(world):
    a, b, c = world.new_id(), world.new_id(), world.new_id()
    world.until(world.join(a), world.join(b), world.join(c))
    world.commits_at_once = False
    early, leader = world.sync(b, 1), world.sync(a, 1, {a: b"x", b: b"y", c: b"z"})
    late = world.sync(c, 1)
    assert all(world.is_waiting(token) for token in (early, leader, late))
    world.commit_log()
    assert [world.answer(token).assignment for token in (leader, early, late)] == [b"x", b"y", b"z"]


def test_whom_the_leader_forgot_gets_nothing_to_do(world):
    a, b = world.new_id(), world.new_id()
    world.until(world.join(a), world.join(b))
    waiting = world.sync(b, 1)
    world.sync(a, 1, {a: b"x", "stranger": b"?"})
    assert (world.answer(waiting).error_code, world.answer(waiting).assignment) == (0, b"")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotEnoughReplicas(), CoordinatorNotAvailable),
        (KafkaStorageError(), NotCoordinator),
        (RecordListTooLarge(), UnknownServerError),
    ],
)
def test_an_assignment_that_cannot_be_written_is_asked_for_again(world, error, told):
    a, b = world.new_id(), world.new_id()
    world.until(world.join(a), world.join(b))
    waiting = world.sync(b, 1)
    world.append_error = error
    leader = world.sync(a, 1, {a: b"x", b: b"y"})
    assert [world.answer(token).error_code for token in (waiting, leader)] == [told.code] * 2
    assert world.group().state.current is GroupState.COMPLETING_REBALANCE
    assert world.group().pending_sync == {a, b}
    world.append_error = None
    assert world.answer(world.join(a)).generation_id == 1
    again = world.sync(b, 1)
    world.sync(a, 1, {a: b"x2", b: b"y2"})
    assert world.answer(again).assignment == b"y2"
    world.check_replay()


def test_sync_checks_who_asks_and_at_which_generation(world, pair):
    a, _ = pair
    code = lambda *args, **how: world.answer(world.sync(*args, **how)).error_code  # noqa: E731
    assert code(a, 1, group="") == InvalidGroupId.code
    assert code(a, 1, group="nowhere") == UnknownMemberId.code
    assert code("x", 1) == UnknownMemberId.code
    assert code(a, 2) == IllegalGeneration.code
    assert code(a, 1, instance="i") == UnknownMemberId.code
    assert code(a, 1, protocol="sticky") == InconsistentGroupProtocol.code
    assert code(a, 1, protocol_type="connect") == InconsistentGroupProtocol.code
    assert code(a, 1, protocol=None) == InconsistentGroupProtocol.code
    assert code(a, 1, protocol=None, protocol_type=None, version=4) == 0


def test_sync_while_members_are_called_says_so(world, pair):
    a, b = pair
    world.join(a)
    assert world.answer(world.sync(b, 1)).error_code == RebalanceInProgress.code


def test_a_sync_that_is_repeated_ends_the_one_before(world):
    a, b = world.new_id(), world.new_id()
    world.until(world.join(a), world.join(b))
    first, second = world.sync(b, 1), world.sync(b, 1)
    assert world.answer(first).error_code == RebalanceInProgress.code
    world.sync(a, 1, {b: b"y"})
    assert world.answer(second).assignment == b"y"


# -- heartbeat --------------------------------------------------------------------------------------------------------


def test_heartbeat_checks_who_asks_and_at_which_generation(world, pair):
    a, _ = pair
    assert world.heartbeat(a, 1) == 0
    assert world.heartbeat(a, 1, group="") == InvalidGroupId.code
    assert world.heartbeat(a, 1, group="nowhere") == UnknownMemberId.code
    assert world.heartbeat("x", 1) == UnknownMemberId.code
    assert world.heartbeat(a, 0) == IllegalGeneration.code


def test_a_heartbeat_keeps_a_member_alive(world, pair):
    for _ in range(10):
        world.advance(9_000)
        assert [world.heartbeat(each, 1) for each in pair] == [0, 0]
    world.advance(10_000)
    assert world.group().members == {}


def test_a_commit_keeps_a_member_alive_too(world, pair):
    a, b = pair
    for _ in range(5):
        world.advance(9_000)
        world.heartbeat(a, 1)
        assert world.commit_codes({("t", 0): 1}, member_id=b, generation=1) == [0]
    assert set(world.group().members) == {a, b}


def test_a_member_that_waits_needs_no_heartbeat(world):
    a, b = world.new_id(), world.new_id()
    world.until(world.join(a, rebalance_ms=300_000), world.join(b, rebalance_ms=300_000))
    waiting = world.sync(b, 1)
    for _ in range(10):
        world.advance(9_000)
        world.heartbeat(a, 1)
    assert world.is_waiting(waiting)
    world.sync(a, 1, {b: b"y"})
    assert world.answer(waiting).assignment == b"y"
    world.advance(9_999)
    assert b in world.group().members


# -- leave ------------------------------------------------------------------------------------------------------------


def test_leave_answers_each_member(world, static):
    a, b = static
    pending = world.new_id()
    answer = world.leave(("", "i"), (pending, None), ("x", None), (b, "i"), ("", "nobody"), ("", None), (b, "j"))
    assert [each.error_code for each in answer.members] == [
        0,
        0,
        UnknownMemberId.code,
        UnknownMemberId.code,
        UnknownMemberId.code,
        UnknownMemberId.code,
        0,
    ]
    assert world.group().state_name == "Empty"
    assert a not in world.group().members
    world.check_replay()


def test_a_member_with_another_members_instance_id_is_fenced(world, static):
    _, b = static
    assert world.leave((b, "i")).members[0].error_code == FencedInstanceId.code
    assert world.heartbeat(b, 1, instance="i") == FencedInstanceId.code


@pytest.mark.parametrize("version", range(6))
def test_leave_in_every_version(make_world, version):
    world = make_world()
    a = world.new_id()
    world.settle(a)
    wrong = world.leave("x", version=version)
    right = world.leave(a, version=version)
    if version < 3:
        assert (wrong.error_code, right.error_code) == (UnknownMemberId.code, 0)
    else:
        assert (wrong.members[0].error_code, right.members[0].error_code) == (UnknownMemberId.code, 0)
        assert (wrong.error_code, right.error_code) == (0, 0)
    assert world.leave(a, group="nowhere", version=3).members[0].error_code == UnknownMemberId.code
    assert world.leave(a, group="", version=3).error_code == InvalidGroupId.code


def test_a_member_that_leaves_while_it_waits_is_answered(world):
    a, b, c = world.new_id(), world.new_id(), world.new_id()
    joining = world.join(c)
    world.leave(c)
    assert world.answer(joining).error_code == UnknownMemberId.code
    world.until(world.join(a), world.join(b))
    syncing = world.sync(b, 1)
    world.leave(b)
    assert world.answer(syncing).error_code == UnknownMemberId.code
    assert world.heartbeat(a, 1) == RebalanceInProgress.code


def test_that_a_group_is_empty_may_fail_to_be_written(world):
    a = world.new_id()
    world.settle(a)
    world.append_error = NotEnoughReplicas()
    assert world.leave(a).members[0].error_code == 0
    assert world.group().state_name == "Empty"
    world.append_error = None
    world.restart()
    assert world.group().state_name == "Stable"
    world.advance(10_000)
    assert world.group().state_name == "Empty"
    world.check_replay()


# -- static members ---------------------------------------------------------------------------------------------------


def test_the_old_process_of_a_static_member_is_fenced(world, static):
    _, b = static
    assert world.answer(world.join(instance="j")).error_code == 0
    assert world.heartbeat(b, 1, instance="j") == FencedInstanceId.code
    assert world.answer(world.join(b, instance="j")).error_code == FencedInstanceId.code
    assert world.answer(world.sync(b, 1, instance="j")).error_code == FencedInstanceId.code
    assert world.commit_codes({("t", 0): 1}, member_id=b, generation=1, instance="j") == [FencedInstanceId.code]
    world.check_replay()


def test_the_new_id_of_a_static_member_survives_a_restart_of_the_broker(world, static):
    new = world.answer(world.join(instance="j")).member_id
    world.restart()
    assert world.heartbeat(new, 1, instance="j") == 0
    assert world.answer(world.sync(new, 1, instance="j")).assignment == b"y"


def test_when_the_new_id_cannot_be_written_the_old_one_stays(world, static):
    a, b = static
    world.append_error = NotEnoughReplicas()
    answer = world.answer(world.join(instance="i"))
    assert (answer.error_code, answer.member_id, answer.leader) == (CoordinatorNotAvailable.code, "", a)
    assert world.heartbeat(a, 1, instance="i") == 0
    assert world.group().replacement is None
    world.append_error = None
    for _ in range(2):
        world.advance(9_000)
        world.heartbeat(b, 1, instance="j")
    assert set(world.group().members) == {b}
    world.check_replay()


def test_before_version_9_a_restarted_leader_is_told_that_its_old_self_leads(world, static):
    a, _ = static
    answer = world.answer(world.join(instance="i", version=8))
    assert (answer.leader, answer.members) == (a, [])
    assert world.group().leader == answer.member_id


def test_a_static_member_that_comes_back_with_another_protocol_starts_a_rebalance(world):
    both = {"range": b"1", "sticky": b"2"}
    a = world.until(world.join(instance="i", protocols=both))[0].member_id
    world.sync(a, 1, {a: b"x"}, instance="i")
    waiting = world.join(instance="i", protocols={"sticky": b"3"})
    answer = world.answer(waiting)
    assert (answer.generation_id, answer.protocol_name) == (2, "sticky")


def test_a_static_leader_that_restarts_during_a_rebalance_still_leads(world):
    first, second = world.join(instance="i"), world.join(instance="j")
    again = world.join(instance="i")
    world.until(again, second)
    assert world.answer(first).error_code == FencedInstanceId.code
    assert world.answer(again).leader == world.answer(again).member_id == world.answer(second).leader


def test_a_static_member_that_restarts_while_it_waits_fences_itself(world):
    a = world.new_id()
    leader = world.join(a)
    waiting = world.join(instance="i")
    again = world.join(instance="i")
    assert world.answer(waiting).error_code == FencedInstanceId.code
    world.until(leader, again)
    syncing = world.sync(world.answer(again).member_id, 1, instance="i")
    third = world.join(instance="i")
    assert world.answer(syncing).error_code == FencedInstanceId.code
    assert world.is_waiting(third)
    assert world.heartbeat(a, 1) == RebalanceInProgress.code


def test_a_static_member_that_does_not_join_again_keeps_its_place_until_its_session_ends(world):
    first, second = world.until(world.join(instance="i", rebalance_ms=7_000), world.join(instance="j"))
    a, b = first.member_id, second.member_id
    world.sync(b, 1, instance="j")
    world.sync(a, 1, {a: b"x", b: b"y"}, instance="i")
    waiting = world.join(a, instance="i", rebalance_ms=7_000)
    for _ in range(8):
        world.advance(8_000)
        world.heartbeat(b, 1, instance="j")
    answer = world.answer(waiting)
    assert {each.member_id for each in answer.members} == {a, b}
    assert answer.generation_id == 2


def test_a_static_leader_that_stays_away_does_not_lead(world, static):
    a, b = static
    waiting = world.join(b, instance="j", protocols={"range": b"news"})
    for _ in range(8):
        world.advance(8_000)
        world.heartbeat(a, 1, instance="i")
    assert world.answer(waiting).leader == b
    assert len(world.answer(waiting).members) == 2


def test_a_pending_id_cannot_become_static(world):
    pending = world.new_id()
    assert world.answer(world.join(pending, instance="i")).error_code == UnknownServerError.code
