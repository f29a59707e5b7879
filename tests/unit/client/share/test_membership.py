"""A member of a share group: when it sends heartbeats, what they say, and what answers make of it."""

from __future__ import annotations

import pytest

from ottla.client.consumer.membership.decisions import Ask, Fail, ForgetCoordinator, LearnTopics, WakeAt, Warn
from ottla.client.share.membership import MemberState, ShareMemberSettings, ShareMembership
from ottla.errors import (
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    NotCoordinator,
    UnknownMemberId,
    UnsupportedVersion,
)
from ottla.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.values import TopicPartition

ID = b"t" * 16


def member(**settings):
    made = ShareMembership(ShareMemberSettings("g", **settings), "m")
    made.topics_known({ID: "t"})
    made.subscribed(frozenset({"t"}))
    return made


def asked(decisions):
    (found,) = [each for each in decisions if isinstance(each, Ask)]
    return found


def answer(epoch=1, partitions=None, error_code=0, interval_ms=5000):
    assignment = None
    if partitions is not None:
        assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=ID, partitions=partitions)])
    return ShareGroupHeartbeatResponse(
        error_code=error_code, member_epoch=epoch, heartbeat_interval_ms=interval_ms, assignment=assignment
    )


def joined(**settings):
    made = member(**settings)
    made.polled(0.0)
    made.answered(asked(made.plan(0.0)), answer(1, [0, 1]), 0.0)
    return made


def test_it_joins_at_the_first_poll_and_says_what_it_reads():
    made = member()
    assert [type(each) for each in made.plan(0.0)] == [WakeAt]
    made.polled(1.0)
    request = asked(made.plan(1.0)).request
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m", 0)
    assert request.subscribed_topic_names == ["t"]


def test_the_answer_is_the_assignment_and_the_next_heartbeat_comes_at_its_interval():
    made = joined()
    assert made.assignment == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert made.plan(100.0) == [WakeAt(5000.0)]
    request = asked(made.plan(5000.0)).request
    assert (request.member_epoch, request.subscribed_topic_names) == (1, None)


def test_an_answer_without_assignment_changes_nothing():
    made = joined()
    made.answered(asked(made.plan(5000.0)), answer(2), 5000.0)
    assert made.epoch == 2
    assert len(made.assignment) == 2


def test_another_subscription_is_told_at_once():
    made = joined()
    made.subscribed(frozenset({"t", "u"}))
    assert asked(made.plan(100.0)).request.subscribed_topic_names == ["t", "u"]


def test_a_topic_without_a_name_is_asked_for_and_taken_when_it_is_known():
    made = ShareMembership(ShareMemberSettings("g"), "m")
    made.subscribed(frozenset({"t"}))
    made.polled(0.0)
    made.answered(asked(made.plan(0.0)), answer(1, [0]), 0.0)
    assert made.assignment == frozenset()
    assert LearnTopics(ids=frozenset({ID})) in made.plan(1.0)
    made.topics_known({ID: "t"})
    assert made.assignment == {TopicPartition("t", 0)}


@pytest.mark.parametrize("error", [FencedMemberEpoch, UnknownMemberId])
def test_a_member_that_the_group_forgot_joins_again(error):
    made = joined()
    made.answered(asked(made.plan(5000.0)), answer(error_code=error.code), 5000.0)
    assert made.assignment == frozenset()
    assert made.state is MemberState.FENCED
    assert any(isinstance(each, Warn) for each in made.plan(5000.0))
    request = asked(made.plan(5100.0)).request
    assert (request.member_epoch, request.subscribed_topic_names) == (0, ["t"])


def test_a_coordinator_that_moved_is_looked_for():
    made = joined()
    made.answered(asked(made.plan(5000.0)), answer(error_code=NotCoordinator.code), 5000.0)
    assert any(isinstance(each, ForgetCoordinator) for each in made.plan(5000.0))
    assert asked(made.plan(5100.0)).request.subscribed_topic_names == ["t"], "nobody knows what it remembers"
    assert len(made.assignment) == 2


def test_what_cannot_be_mended_is_told_and_ends_it():
    made = joined()
    made.answered(asked(made.plan(5000.0)), answer(error_code=GroupAuthorizationFailed.code), 5000.0)
    (failed,) = [each for each in made.plan(5000.0) if isinstance(each, Fail)]
    assert isinstance(failed.error, GroupAuthorizationFailed)
    assert [type(each) for each in made.plan(99_000.0)] == [WakeAt]


def test_brokers_without_share_groups_are_explained():
    made = member()
    made.polled(0.0)
    made.failed(asked(made.plan(0.0)), UnsupportedVersion(), 0.0)
    (failed,) = [each for each in made.plan(0.0) if isinstance(each, Fail)]
    assert "share.version" in str(failed.error)


def test_an_application_that_does_not_poll_leaves_and_comes_back():
    made = joined(max_poll_interval_ms=1000)
    decisions = made.plan(1000.0)
    assert asked(decisions).request.member_epoch == -1
    assert any(isinstance(each, Warn) for each in decisions)
    assert made.assignment == frozenset()
    made.polled(1500.0)
    assert asked(made.plan(1500.0)).request.member_epoch == 0


def test_it_leaves_and_can_come_back():
    made = joined()
    made.leave()
    goodbye = asked(made.plan(10.0))
    assert goodbye.request.member_epoch == -1
    made.answered(goodbye, answer(-1), 11.0)
    assert made.has_left
    made.subscribed(frozenset({"t"}))
    made.polled(12.0)
    assert asked(made.plan(12.0)).request.member_epoch == 0


def test_who_never_joined_leaves_without_a_request():
    made = member()
    made.leave()
    assert made.has_left
    assert [type(each) for each in made.plan(0.0)] == [WakeAt]
