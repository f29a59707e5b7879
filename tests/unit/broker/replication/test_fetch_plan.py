"""A follower's half of a fetch session, against the leader's half."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.fetch.sessions import FetchKey, FetchPosition, FetchSessions
from ottla.broker.replication.fetch_plan import FetchSettings, FollowerSession, Position
from ottla.errors import BrokerError, FetchSessionIdNotFound
from ottla.values import TopicPartition

SETTINGS = FetchSettings(7, 500, 1, 10_000, 1_000, 1_000, 17)
NAMES = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
IDS = {"a": b"a" * 16, "b": b"b" * 16}


def at(name, offset=0, topic_id=None):
    return Position(topic_id or IDS[name.topic], 1, offset, 1, 0)


def named(request):
    return [(topic.topic, each.partition) for topic in request.topics for each in topic.partitions]


def test_a_request_is_whole_until_there_is_a_session_and_then_only_what_changed():
    session = FollowerSession(SETTINGS)
    wanted = {name: at(name) for name in NAMES}
    first = session.request(wanted, 3)
    assert (first.session_id, first.session_epoch, len(named(first))) == (0, 0, 3)
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch, first.replica_id) == (7, 3, -1)
    session.answered(9, 0)
    second = session.request({**wanted, NAMES[1]: at(NAMES[1], 5)}, 3)
    assert (second.session_id, second.session_epoch, named(second)) == (9, 1, [("a", 1)])
    session.answered(9, 0)
    del wanted[NAMES[2]]
    third = session.request({NAMES[0]: at(NAMES[0]), NAMES[1]: at(NAMES[1], 5)}, 3)
    assert (third.session_epoch, named(third)) == (2, [])
    assert [(each.topic, each.partitions) for each in third.forgotten_topics_data] == [("b", [0])]


@pytest.mark.parametrize("answer", [(0, FetchSessionIdNotFound.code), (0, 0), (8, 0)])
def test_whatever_goes_wrong_makes_the_next_request_whole(answer):
    session = FollowerSession(SETTINGS)
    session.request({NAMES[0]: at(NAMES[0])}, 3)
    session.answered(9, 0)
    session.request({NAMES[0]: at(NAMES[0])}, 3)
    session.answered(*answer)
    again = session.request({NAMES[0]: at(NAMES[0])}, 3)
    assert (again.session_epoch, named(again)) == (0, [("a", 0)])


def test_an_old_leader_is_told_who_we_are_where_it_looks_for_it():
    request = FollowerSession(SETTINGS._replace(version=11)).request({NAMES[0]: at(NAMES[0])}, 3)
    assert (request.replica_id, request.replica_state.replica_id) == (7, -1)


def test_a_topic_that_was_made_anew_is_forgotten_under_its_old_id():
    session = FollowerSession(SETTINGS)
    session.request({NAMES[0]: at(NAMES[0])}, 3)
    session.answered(9, 0)
    request = session.request({NAMES[0]: at(NAMES[0], topic_id=b"c" * 16)}, 3)
    assert [each.topic_id for each in request.topics] == [b"c" * 16]
    assert [each.topic_id for each in request.forgotten_topics_data] == [IDS["a"]]


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)), st.sampled_from(["answered", "lost", "dropped"])
        )
    )
)
def test_the_leader_always_knows_what_we_want(steps):
    sessions = FetchSessions(iter(range(1, 999)).__next__)
    session = FollowerSession(SETTINGS)
    for offsets, fate in steps:
        wanted = {name: at(name, offset) for name, offset in offsets.items()}
        request = session.request(wanted, 3)
        if fate == "lost":
            session.failed()
            continue
        asked = [
            (FetchKey(topic.topic_id, topic.topic, each.partition), FetchPosition(each.fetch_offset, 1))
            for topic in request.topics
            for each in topic.partitions
        ]
        gone = [
            FetchKey(topic.topic_id, topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        try:
            plan = sessions.plan(
                request.session_id,
                request.session_epoch,
                asked,
                gone,
                uses_topic_ids=True,
                is_follower=True,
                now_ms=0,
            )
        except BrokerError as error:
            session.answered(0, error.code)
            continue
        known = {TopicPartition(key.topic, key.partition): each.fetch_offset for key, each in plan.wanted}
        assert known == offsets
        if fate == "dropped":
            session.failed()
        else:
            session.answered(plan.session_id, 0)
