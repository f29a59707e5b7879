"""Subscription: what is read, how far, and what must be found out first."""

import re

import pytest

from ottla.client.consumer.offset_reset import EARLIEST, LATEST, parse_reset
from ottla.client.consumer.subscription import (
    LogTruncated,
    Mode,
    NoOffsetForPartition,
    NotAssigned,
    State,
    Subscription,
    SubscriptionConflict,
)
from ottla.values import OffsetAndMetadata, TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


@pytest.fixture
def subscription():
    made = Subscription(LATEST)
    made.assign([A, B])
    return made


def test_the_three_ways_to_say_what_is_read_exclude_each_other(subscription):
    with pytest.raises(SubscriptionConflict, match="assignment"):
        subscription.subscribe(["t"])
    with pytest.raises(SubscriptionConflict):
        subscription.subscribe_pattern(re.compile("t"))
    subscription.unsubscribe()
    assert subscription.mode is Mode.NONE
    assert subscription.assigned() == frozenset()
    subscription.subscribe(["t"])
    assert subscription.is_group_managed


def test_a_pattern_is_matched_against_the_topics_there_are():
    subscription = Subscription(LATEST)
    subscription.subscribe_pattern(re.compile("^or"))
    assert subscription.matched(["orders", "bills", "oranges"])
    assert subscription.topics == {"orders", "oranges"}
    assert not subscription.matched(["oranges", "orders", "cars"])
    assert subscription.matched(["oranges"])


def test_a_new_partition_begins_at_what_the_group_committed(subscription):
    turn = subscription.state(A).turn
    assert [state.name for state in subscription.initializing()] == [A, B]
    subscription.initialized(A, turn, OffsetAndMetadata(7, "", 3))
    assert subscription.state(A).is_fetchable
    assert subscription.state(A).fetch_offset == 7
    assert subscription.consumed() == {A: OffsetAndMetadata(7, "", 3)}
    subscription.initialized(B, subscription.state(B).turn, None)
    assert [state.name for state in subscription.awaiting(State.AWAIT_RESET, 0)] == [B]
    assert subscription.state(B).reset == LATEST


def test_without_committed_offset_and_policy_the_user_decides():
    subscription = Subscription(parse_reset("none"))
    subscription.assign([A])
    with pytest.raises(NoOffsetForPartition, match="a-0"):
        subscription.initialized(A, subscription.state(A).turn, None)
    subscription.seek(A, 3)
    assert subscription.state(A).is_fetchable


def test_answers_from_before_a_seek_are_not_taken(subscription):
    subscription.request_reset(A, EARLIEST)
    turn = subscription.state(A).turn
    subscription.seek(A, 50)
    assert not subscription.reset_to(A, turn, 0, 1)
    subscription.initialized(A, turn, OffsetAndMetadata(1))
    assert subscription.state(A).position.offset == 50


def test_a_partition_that_left_and_came_back_is_in_another_turn(subscription):
    turn = subscription.state(A).turn
    subscription.set_assignment([B])
    subscription.set_assignment([A, B])
    assert subscription.state(A).turn != turn


def test_partitions_that_stay_assigned_keep_their_positions(subscription):
    subscription.seek(A, 5)
    subscription.set_assignment([A])
    assert subscription.state(A).position.offset == 5
    with pytest.raises(NotAssigned, match=r"b-1; assigned are a-0"):
        subscription.state(B)


def test_paused_partitions_are_not_fetched(subscription):
    for name in (A, B):
        subscription.seek(name, 0)
    subscription.pause([A])
    assert [state.name for state in subscription.fetchable()] == [B]
    assert subscription.paused() == {A}
    subscription.resume([A])
    assert len(subscription.fetchable()) == 2


def test_whoever_got_records_goes_to_the_end_of_the_line(subscription):
    for name in (A, B):
        subscription.seek(name, 0)
    subscription.served(A)
    assert [state.name for state in subscription.fetchable()] == [B, A]


def test_a_new_leader_is_asked_whether_it_has_what_was_read(subscription):
    assert not subscription.leader_is(A, 4)  # a first look is no change
    subscription.seek(A, 10, offset_epoch=4)
    assert subscription.leader_is(A, 5)
    assert subscription.state(A).state is State.AWAIT_VALIDATION
    assert not subscription.state(A).is_fetchable
    assert subscription.validated(A, subscription.state(A).turn, 4, 12) is None
    assert subscription.state(A).is_fetchable
    assert subscription.state(A).position.leader_epoch == 5


def test_a_log_that_was_cut_off_is_read_from_where_it_was_cut(subscription):
    subscription.leader_is(A, 4)
    subscription.seek(A, 10, offset_epoch=4)
    subscription.leader_is(A, 5)
    assert subscription.validated(A, subscription.state(A).turn, 4, 6) is None
    assert (subscription.state(A).position.offset, subscription.state(A).fetch_offset) == (6, 6)


def test_a_log_that_was_cut_off_is_told_when_the_user_decides():
    subscription = Subscription(parse_reset("none"))
    subscription.assign([A])
    subscription.leader_is(A, 4)
    subscription.seek(A, 10, offset_epoch=4)
    subscription.leader_is(A, 5)
    truncation = subscription.validated(A, subscription.state(A).turn, 4, 6)
    assert isinstance(truncation, LogTruncated)
    assert (truncation.topic_partition, truncation.offset, truncation.diverging_offset) == (A, 10, 6)
    assert subscription.state(A).state is State.AWAIT_VALIDATION


def test_a_leader_that_knows_nothing_of_the_epoch_means_a_reset(subscription):
    subscription.leader_is(A, 4)
    subscription.seek(A, 10, offset_epoch=4)
    subscription.leader_is(A, 5)
    subscription.validated(A, subscription.state(A).turn, -1, -1)
    assert subscription.state(A).state is State.AWAIT_RESET


def test_without_the_epoch_of_the_last_record_nothing_is_checked(subscription):
    subscription.leader_is(A, 4)
    subscription.seek(A, 10)
    assert not subscription.leader_is(A, 5)
    assert subscription.state(A).is_fetchable


def test_a_position_moves_with_the_records_and_keeps_the_last_epoch(subscription):
    subscription.seek(A, 0)
    subscription.advance(A, 10, 3)
    subscription.advance(A, 12, None)
    assert subscription.consumed()[A] == OffsetAndMetadata(12, "", 3)
