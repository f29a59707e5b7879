"""ConsumerGroupHeartbeat from one side: what is refused, who may join, what is told when, who is put out."""

from __future__ import annotations

import pytest

from ottla.broker.coordinators.groups.consumer.state import STABLE, UNRELEASED, UNREVOKED
from ottla.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    NonEmptyGroup,
    NotEnoughReplicas,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)


def all_of(*topics, count=4):
    return {(topic, index) for topic in topics for index in range(count)}


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [
        {"group": ""},
        {"member_id": ""},
        {"member_id": "", "epoch": 1, "version": 0},
        {"member_id": "", "epoch": -1, "version": 0},
        {"instance": ""},
        {"rack": ""},
        {"rebalance_ms": -1},
        {"owned": [("t", 0)]},
        {"topics": None},
        {"epoch": -2},
        {"epoch": -3},
    ],
)
def test_a_request_that_makes_no_sense_is_invalid(consumers, how):
    answer = consumers.beat(**{"member_id": "m", **how})
    assert answer.error_code == InvalidRequest.code
    assert answer.error_message


def test_an_assignor_that_is_not_offered_is_refused(make_consumers):
    consumers = make_consumers(group_consumer_assignors=["range"])
    assert consumers.beat(assignor="uniform").error_code == UnsupportedAssignor.code
    assert consumers.beat(assignor="range").error_code == 0


def test_a_group_that_does_not_exist_is_only_made_by_joining(consumers):
    assert consumers.beat("m", 3).error_code == GroupIdNotFound.code
    assert consumers.leave_consumer("m").error_code == GroupIdNotFound.code
    assert not consumers.shard.groups


def test_an_unknown_member_must_join(consumers):
    consumers.beat("a")
    assert consumers.beat("b", 1).error_code == UnknownMemberId.code
    assert consumers.leave_consumer("b").error_code == UnknownMemberId.code


def test_a_full_group_takes_nobody_else(make_consumers):
    consumers = make_consumers(group_consumer_max_size=1)
    assert consumers.beat("a").error_code == 0
    assert consumers.beat("b").error_code == GroupMaxSizeReached.code
    assert consumers.beat("a").error_code == 0


def test_a_wrong_epoch_is_fenced(consumers):
    consumers.beat("a")
    assert consumers.beat("a", 2).error_code == FencedMemberEpoch.code
    consumers.beat("a", 1, topics=["t", "u"], owned=[])
    assert consumers.consumer_group().members["a"].epoch == 2
    consumers.beat("a", 2, topics=["t"], owned=[])
    assert consumers.consumer_group().members["a"].epoch == 3
    assert consumers.beat("a", 1, owned=[]).error_code == FencedMemberEpoch.code


def test_a_lost_answer_is_given_again(consumers):
    consumers.beat("a")
    consumers.beat("a", 1, topics=["t", "u"], owned=all_of("t"))
    again = consumers.beat("a", 1, topics=["t", "u"], owned=all_of("t"), rebalance_ms=60_000)
    assert (again.error_code, again.member_epoch) == (0, 2)
    assert consumers.named(again.assignment.topic_partitions) == all_of("t", "u")


def test_a_member_behind_that_claims_too_much_is_fenced(consumers):
    consumers.beat("a", topics=["t", "u"])
    consumers.beat("a", 1, topics=["u"], owned=[])
    assert consumers.beat("a", 1, owned=[("t", 0)]).error_code == FencedMemberEpoch.code
    assert consumers.beat("a", 1, owned=[("u", 0)]).error_code == 0
    assert consumers.beat("a", 1, owned=None, topics=None).error_code == FencedMemberEpoch.code


# -- joining and staying ---------------------------------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once(consumers):
    answer = consumers.beat("a", topics=["t", "u"])
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 1)
    assert answer.heartbeat_interval_ms == 5_000
    assert consumers.named(answer.assignment.topic_partitions) == all_of("t", "u")
    assert consumers.consumer_group().state_name == "Stable"
    consumers.check_replay()


def test_version_0_clients_get_an_id_from_us(consumers):
    answer = consumers.beat("", version=0)
    assert answer.error_code == 0
    assert answer.member_id
    assert list(consumers.consumer_group().members) == [answer.member_id]


def test_a_heartbeat_without_news_writes_nothing_and_tells_no_partitions(consumers):
    consumers.beat("a")
    length = len(consumers.log)
    answer = consumers.beat("a", 1, topics=None, owned=all_of("t"))
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 1, None)
    assert len(consumers.log) == length


def test_topics_are_compared_once_and_not_with_every_heartbeat(consumers):
    a = consumers.client("a")
    a.beat()
    a.beat()
    assert consumers.consumer_group().is_metadata_checked
    consumers.grow_topic("t", 5)
    assert not consumers.consumer_group().is_metadata_checked
    consumers.append_error = NotEnoughReplicas()
    a.beat()
    assert not consumers.consumer_group().is_metadata_checked
    consumers.append_error = None
    a.beat()
    assert consumers.consumer_group().is_metadata_checked


def test_who_tells_everything_is_told_everything(consumers):
    consumers.beat("a")
    answer = consumers.beat("a", 1, owned=all_of("t"), rebalance_ms=60_000)
    assert consumers.named(answer.assignment.topic_partitions) == all_of("t")


def test_a_member_that_joins_again_keeps_its_place(consumers):
    consumers.beat("a")
    answer = consumers.beat("a")
    assert (answer.member_epoch, consumers.consumer_group().epoch) == (1, 1)
    assert consumers.named(answer.assignment.topic_partitions) == all_of("t")


def test_partitions_are_given_up_before_another_gets_them(consumers):
    a, b = consumers.client("a"), consumers.client("b")
    a.beat()
    b.beat()
    assert (b.epoch, b.owned) == (2, set())
    assert consumers.consumer_group().members["b"].state is UNRELEASED
    a.beat()  # hears what to give up, stays in its epoch
    assert (a.epoch, len(a.owned)) == (1, 2)
    assert consumers.consumer_group().members["a"].state is UNREVOKED
    b.beat()
    assert b.owned == set()
    a.beat()  # says that it has
    assert a.epoch == 2
    b.beat()
    assert a.owned | b.owned == all_of("t")
    assert len(b.owned) == 2
    assert {each.state for each in consumers.consumer_group().members.values()} == {STABLE}
    assert consumers.consumer_group().state_name == "Stable"
    consumers.check_replay()


def test_a_member_that_says_nothing_has_given_up_nothing(consumers):
    a, b = consumers.client("a"), consumers.client("b")
    a.beat()
    b.beat()
    for _ in range(3):
        consumers.beat("a", 1, topics=None, owned=None)
    assert consumers.consumer_group().members["a"].state is UNREVOKED
    b.beat()
    assert b.owned == set()


def test_what_is_no_longer_wanted_is_given_up_before_the_next_assignment(make_consumers):
    consumers = make_consumers(group_consumer_assignment_interval_ms=10_000)
    a = consumers.client("a", topics=["t", "u"])
    a.beat()
    a.subscribe("u")
    a.beat()
    assert a.owned == all_of("u")
    assert consumers.consumer_group().state_name == "Assigning"
    a.beat()
    consumers.advance(10_000)
    a.beat()
    assert (a.epoch, a.owned) == (2, all_of("u"))
    assert consumers.consumer_group().state_name == "Stable"


def test_a_new_assignment_waits_for_its_interval(make_consumers):
    consumers = make_consumers(group_consumer_assignment_interval_ms=1_000)
    a, b = consumers.client("a"), consumers.client("b")
    a.beat()
    b.beat()
    assert (b.epoch, consumers.consumer_group().epoch) == (1, 2)
    consumers.advance(999)
    b.beat()
    assert consumers.consumer_group().assignment_epoch == 1
    consumers.advance(1)
    b.beat()
    assert consumers.consumer_group().assignment_epoch == 2


def test_the_assignor_that_most_want_is_used(consumers):
    a = consumers.client("a", topics=["t", "other"], assignor="range")
    b = consumers.client("b", topics=["t", "other"], assignor="range")
    c = consumers.client("c", topics=["t", "other"], assignor="uniform")
    consumers.settle_beating(a, b, c)
    assert consumers.consumer_described().assignor_name == "range"
    assert a.owned == {("t", 0), ("t", 1), ("other", 0)}


def test_when_it_cannot_be_written_nothing_has_happened(consumers):
    consumers.append_error = NotEnoughReplicas()
    assert consumers.beat("a").error_code == 15
    assert not consumers.shard.groups
    consumers.append_error = None
    assert consumers.beat("a").error_code == 0
    consumers.append_error = NotEnoughReplicas()
    assert consumers.beat("b").error_code == 15
    consumers.append_error = None
    a, b = consumers.client("a"), consumers.client("b")
    consumers.settle_beating(a, b)
    assert a.owned | b.owned == all_of("t")


def test_an_answer_waits_until_its_records_are_committed(consumers):
    consumers.commits_at_once = False
    token = consumers.beat_token("a")
    second = consumers.beat_token("a", 1, topics=None)
    assert consumers.is_waiting(token)
    assert consumers.is_waiting(second)
    consumers.commit_log()
    assert consumers.answer(token).member_epoch == 1


# -- leaving and time-outs -------------------------------------------------------------------------------------------


def test_who_leaves_makes_room_for_the_others(consumers):
    a, b = consumers.client("a"), consumers.client("b")
    consumers.settle_beating(a, b)
    answer = consumers.leave_consumer("a")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", -1)
    consumers.settle_beating(b)
    assert b.owned == all_of("t")
    consumers.leave_consumer("b")
    assert consumers.consumer_group().state_name == "Empty"
    consumers.check_replay()


def test_a_silent_member_is_put_out(consumers):
    a, b = consumers.client("a"), consumers.client("b")
    consumers.settle_beating(a, b)
    for _ in range(3):
        consumers.advance(20_000)
        b.beat()
    consumers.settle_beating(b)
    assert b.owned == all_of("t")
    assert consumers.beat("a", a.epoch, topics=None).error_code == UnknownMemberId.code


def test_a_member_that_gives_nothing_up_is_put_out(consumers):
    a, b = consumers.client("a"), consumers.client("b")
    a.beat()
    b.beat()
    for _ in range(7):
        consumers.beat("a", 1, topics=None, owned=all_of("t"))
        b.beat()
        consumers.advance(10_000)
    consumers.settle_beating(b)
    assert b.owned == all_of("t")
    assert list(consumers.consumer_group().members) == ["b"]


def test_a_group_with_times_of_its_own_lives_by_them(consumers):
    own = {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000"}
    consumers.own_settings["slow"] = own
    assert consumers.beat("a").heartbeat_interval_ms == 5000
    assert consumers.beat("b", group="slow").heartbeat_interval_ms == 15_000
    consumers.advance(59_000)
    assert not consumers.consumer_group().members
    assert list(consumers.consumer_group("slow").members) == ["b"]
    consumers.advance(1000)
    assert not consumers.consumer_group("slow").members


def test_a_group_may_have_time_between_its_assignments(consumers):
    consumers.own_settings["g"] = {"consumer.assignment.interval.ms": "10000"}
    a, b = consumers.client("a"), consumers.client("b")
    a.beat()
    consumers.advance(1)
    b.beat()
    assert consumers.consumer_group().assignment_epoch == 1
    consumers.advance(10_000)
    b.beat()
    assert consumers.consumer_group().assignment_epoch == 2


def test_put_out_is_tried_again_when_it_could_not_be_written(consumers):
    consumers.beat("a")
    consumers.append_error = NotEnoughReplicas()
    consumers.advance(45_000)
    assert "a" in consumers.consumer_group().members
    consumers.append_error = None
    consumers.advance(45_000)
    assert not consumers.consumer_group().members


def test_after_a_restart_members_have_their_session_again(consumers):
    a, b = consumers.client("a"), consumers.client("b")
    a.beat()
    b.beat()
    a.beat()
    consumers.restart()
    assert consumers.consumer_group().members["a"].state is UNREVOKED
    a.beat()
    b.beat()
    assert a.owned | b.owned == all_of("t")
    consumers.advance(45_000)
    assert not consumers.consumer_group().members


# -- static members --------------------------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_gets_what_it_had(consumers):
    a = consumers.client("a", instance="i")
    b = consumers.client("b")
    consumers.settle_beating(a, b)
    left = consumers.leave_consumer("a", -2, instance="i")
    assert (left.error_code, left.member_epoch) == (0, -2)
    epoch = consumers.consumer_group().epoch
    back = consumers.client("a2", instance="i")
    back.beat()
    assert (back.owned, back.epoch) == (a.owned, epoch)
    assert consumers.consumer_group().epoch == epoch
    b.beat()
    assert b.owned | back.owned == all_of("t")
    consumers.check_replay()


def test_an_instance_id_that_is_in_use_is_not_released(consumers):
    consumers.beat("a", instance="i")
    assert consumers.beat("b", instance="i").error_code == UnreleasedInstanceId.code


def test_the_former_self_of_a_static_member_is_fenced(consumers):
    consumers.beat("a", instance="i")
    consumers.leave_consumer("a", -2, instance="i")
    consumers.beat("b", instance="i")
    assert consumers.beat("a", 1, instance="i", topics=None).error_code == FencedInstanceId.code
    assert consumers.leave_consumer("a", -1, instance="i").error_code == FencedInstanceId.code
    assert consumers.leave_consumer("x", -1, instance="unknown").error_code == UnknownMemberId.code


def test_a_static_member_that_does_not_come_back_loses_its_place(consumers):
    consumers.beat("a", instance="i")
    consumers.leave_consumer("a", -2, instance="i")
    consumers.advance(45_000)
    assert not consumers.consumer_group().members


def test_a_static_member_may_leave_for_good(consumers):
    consumers.beat("a", instance="i")
    assert consumers.leave_consumer("a", -1, instance="i").error_code == 0
    assert not consumers.consumer_group().members


# -- topics ----------------------------------------------------------------------------------------------------------


def test_new_partitions_are_shared_out(consumers):
    a = consumers.client("a")
    a.beat()
    consumers.grow_topic("t", 6)
    a.beat()
    assert (a.epoch, a.owned) == (2, all_of("t", count=6))


def test_a_topic_that_comes_later_is_shared_out(consumers):
    a = consumers.client("a", topics=["later"])
    a.beat()
    assert (a.epoch, a.owned) == (1, set())
    consumers.make_topic("later", 2)
    a.beat()
    assert (a.epoch, a.owned) == (2, all_of("later", count=2))


def test_a_member_that_begins_to_wait_for_others_is_told_once_to_come_back_soon(consumers):
    """Who releases what it waits for is about to: it said so to the coordinator, or will with its next heartbeat."""
    a, b, c = (consumers.client(name) for name in "abc")
    a.beat()
    b.beat()
    c.beat()
    answers = [consumers.beat("b", b.epoch, topics=None)]  # its target is made, and nothing is free yet
    answers += [consumers.beat("b", answers[0].member_epoch, topics=None) for _ in range(2)]
    assert [each.heartbeat_interval_ms for each in answers] == [1_000, 5_000, 5_000]
    b.listen(answers[-1])
    consumers.settle_beating(a, b, c)
    assert [each.beat().heartbeat_interval_ms for each in (a, b, c)] == [5_000] * 3


def test_a_member_that_joins_waits_as_long_as_ever(consumers):
    """Everybody else has had a heartbeat by then."""
    a, b = (consumers.client(name) for name in "ab")
    a.beat()
    assert (b.beat().heartbeat_interval_ms, b.owned) == (5_000, set())


def test_a_topic_deleted_right_after_its_assignment_is_not_waited_for(consumers):
    """A client that never learned the topic's name has nothing to give up, and may not say that it has nothing."""
    client = consumers.client("A", topics=["t", "u"])
    consumers.settle_beating(client)
    consumers.delete_topic("u")
    answer = consumers.beat("A", client.epoch, topics=None)
    assert consumers.named(answer.assignment.topic_partitions) == all_of("t")
    assert answer.member_epoch == client.epoch + 1
    consumers.make_topic("u", 2)
    answer = consumers.beat("A", answer.member_epoch, topics=None)
    assert consumers.named(answer.assignment.topic_partitions) == all_of("t") | all_of("u", count=2)
    consumers.check_replay()


def test_a_lost_answer_about_a_deleted_topic_fences_nobody(consumers):
    client = consumers.client("A", topics=["t", "u"])
    consumers.settle_beating(client)
    consumers.delete_topic("u")
    assert consumers.beat("A", client.epoch, topics=None).member_epoch == client.epoch + 1
    answer = client.beat()  # it did not hear that, and still names the partitions of the topic
    assert (answer.error_code, answer.member_epoch) == (0, client.epoch)


def test_a_deleted_topic_is_taken_away(consumers):
    a = consumers.client("a", topics=["t", "u"])
    a.beat()
    consumers.delete_topic("t")
    consumers.settle_beating(a)
    assert a.owned == all_of("u")
    assert consumers.consumer_group().state_name == "Stable"


def test_a_topic_that_nobody_reads_changes_nothing(consumers):
    a = consumers.client("a")
    a.beat()
    consumers.grow_topic("u", 9)
    consumers.shard.topics_changed(None, consumers.now_ms)
    length = len(consumers.log)
    a.beat()
    assert (a.epoch, len(consumers.log)) == (1, length)


# -- groups ----------------------------------------------------------------------------------------------------------


def test_groups_are_listed_and_described(consumers):
    a = consumers.client("a", topics=["t", "u"])
    a.beat()
    (listed,) = consumers.listed()
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "consumer",
        "Stable",
        "consumer",
    )
    assert not consumers.listed(types=["classic"])
    assert consumers.listed(states=["stable"])
    described = consumers.consumer_described()
    assert (described.error_code, described.group_state, described.group_epoch, described.assignment_epoch) == (
        0,
        "Stable",
        1,
        1,
    )
    assert described.assignor_name == "uniform"
    (member,) = described.members
    assert (member.member_id, member.member_epoch, member.member_type) == ("a", 1, 1)
    assert member.subscribed_topic_names == ["t", "u"]
    assert member.subscribed_topic_regex is None
    assert {each.topic_name: each.partitions for each in member.assignment.topic_partitions} == {
        "t": [0, 1, 2, 3],
        "u": [0, 1, 2, 3],
    }
    assert member.target_assignment == member.assignment


def test_groups_of_another_kind_are_not_described(consumers):
    assert consumers.consumer_described("nobody").error_code == GroupIdNotFound.code
    consumers.join(group="c")
    missing = consumers.consumer_described("c")
    assert (missing.error_code, missing.error_message) == (69, "Group c is not a consumer group.")
    consumers.beat("a")
    assert consumers.describe("g").error_code == GroupIdNotFound.code
    assert consumers.describe("g", version=5).group_state == "Dead"


def test_only_an_empty_group_is_deleted(consumers):
    consumers.beat("a")
    assert consumers.delete_groups("g") == {"g": NonEmptyGroup.code}
    consumers.leave_consumer("a")
    assert consumers.delete_groups("g") == {"g": 0}
    assert not consumers.shard.groups
    consumers.check_replay()


def test_offsets_need_the_current_epoch(consumers):
    a = consumers.client("a")
    a.beat()
    commit = consumers.commit_codes
    assert commit({("t", 0): 5}, member_id="a", generation=1) == [0]
    assert commit({("t", 0): 5}, member_id="a", generation=2) == [113]
    assert commit({("t", 0): 5}, member_id="b", generation=1) == [25]
    assert commit({("t", 0): 5}) == [25]
    assert commit({("t", 0): 5}, member_id="a", generation=1, version=8) == [35]
    assert consumers.txn_commit(7, {("t", 0): 5}, member_id="a", generation=2) == [22]
    consumers.leave_consumer("a")
    assert commit({("t", 0): 7}) == [0]


def test_a_member_behind_may_commit_what_it_has_had_all_the_time(consumers):
    a, b = consumers.client("a"), consumers.client("b")
    consumers.settle_beating(a, b)
    behind = a.epoch
    consumers.leave_consumer("b")
    consumers.settle_beating(a)
    had, got = sorted(a.owned - b.owned)[0], sorted(b.owned)[0]
    assert a.epoch > behind
    assert consumers.commit_codes({had: 5, got: 5}, member_id="a", generation=behind) == [0, 113]
    assert consumers.commit_codes({had: 5}, member_id="a", generation=behind - 2) == [113]
    assert consumers.txn_commit(7, {had: 5, got: 5}, member_id="a", generation=behind) == [0, 22]
    assert consumers.commit_codes({had: 5, got: 5}, member_id="a", generation=a.epoch) == [0, 0]


def test_offsets_of_read_topics_are_kept(consumers):
    a = consumers.client("a")
    a.beat()
    consumers.commit({("t", 0): 5, ("u", 0): 6}, member_id="a", generation=1)
    codes = {
        topic.name: topic.partitions[0].error_code for topic in consumers.delete_offsets([("t", 0), ("u", 0)]).topics
    }
    assert codes == {"t": 86, "u": 0}


def test_an_old_group_goes_with_its_offsets(consumers):
    consumers.beat("a")
    consumers.leave_consumer("a")
    consumers.advance(600_000)
    assert not consumers.shard.groups


# -- other kinds -----------------------------------------------------------------------------------------------------


def test_an_empty_classic_group_gives_way(consumers):
    consumers.commit({("t", 0): 5})
    consumers.beat("a")
    assert consumers.consumer_group().state_name == "Stable"
    assert consumers.fetch()[("t", 0)] == (5, 0)
    consumers.check_replay()


def test_an_empty_consumer_group_gives_way(consumers):
    consumers.beat("a")
    consumers.leave_consumer("a")
    generation = consumers.settle(consumers.new_id())
    assert generation == 1
    assert consumers.group().state_name == "Stable"
    consumers.check_replay()


# -- what its coordinator has lost -----------------------------------------------------------------------------------


def test_a_group_that_its_coordinator_has_lost_begins_where_no_earlier_leader_was(consumers):
    """Seed 19024 of clusters under controllers: two members owned a partition in epoch 1."""
    assert consumers.beat("m", topics=["t"]).member_epoch == 1
    consumers.log.clear()
    consumers.leader_epoch = 3
    consumers.restart()
    assert consumers.beat("m", 1).error_code in (GroupIdNotFound.code, UnknownMemberId.code)
    epoch = consumers.beat("n", topics=["t"]).member_epoch
    assert epoch == (3 << 16) + 1
    assert consumers.beat("o", topics=["t"]).member_epoch == epoch + 1
