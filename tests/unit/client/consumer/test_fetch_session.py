"""Our half of fetch sessions: against the rules, and against the broker's own half."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.fetch.sessions import FetchKey, FetchPosition, FetchSessions
from ottla.client.consumer.fetch_session import FetchSession, RequestedPartition
from ottla.errors import BrokerError
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.values import ZERO_UUID, TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
ID_A, ID_B, ID_A2 = b"a" * 16, b"b" * 16, b"c" * 16


def asked(topic_id=ID_A, offset=0):
    return RequestedPartition(topic_id, offset, 100)


def answer(*partitions, session_id=7, error_code=0, throttle_ms=0):
    topics = [
        FetchableTopicResponse(
            topic_id=topic_id,
            partitions=[
                PartitionData(
                    partition_index=name.partition,
                    error_code=0,
                    high_watermark=1,
                    aborted_transactions=None,
                    records=b"",
                )
            ],
        )
        for name, topic_id in partitions
    ]
    return FetchResponse(responses=topics, session_id=session_id, error_code=error_code, throttle_time_ms=throttle_ms)


def opened():
    session = FetchSession()
    session.build({A: asked(), B: asked(ID_B)})
    assert session.answered(answer((A, ID_A), (B, ID_B)))
    return session


def test_the_first_request_names_everything_and_later_ones_only_what_changed():
    session = FetchSession()
    first = session.build({A: asked(), B: asked(ID_B)})
    assert (first.session_id, first.epoch) == (0, 0)
    assert [topic.topic_id for topic in first.topics] == [ID_A, ID_B]
    assert session.answered(answer((A, ID_A), (B, ID_B)))
    second = session.build({A: asked(offset=5), B: asked(ID_B)})
    assert (second.session_id, second.epoch) == (7, 1)
    assert [topic.topic_id for topic in second.topics] == [ID_A]
    assert session.answered(answer())
    assert session.build({A: asked(offset=5), B: asked(ID_B)}).epoch == 2


def test_partitions_that_are_not_wanted_any_more_are_forgotten():
    request = opened().build({B: asked(ID_B)})
    assert [(topic.topic_id, topic.partitions) for topic in request.forgotten] == [(ID_A, [0])]
    assert request.topics == []


def test_a_topic_that_was_made_again_is_forgotten_and_added():
    request = opened().build({A: asked(ID_A2), B: asked(ID_B)})
    assert [topic.topic_id for topic in request.forgotten] == [ID_A]
    assert [topic.topic_id for topic in request.topics] == [ID_A2]


def test_a_session_that_the_broker_forgot_begins_anew():
    session = opened()
    session.build({A: asked()})
    assert not session.answered(answer(error_code=70, session_id=0))
    request = session.build({A: asked()})
    assert (request.session_id, request.epoch, len(request.topics)) == (0, 0, 1)


def test_a_session_whose_epoch_is_wrong_is_replaced():
    session = opened()
    session.build({A: asked()})
    assert not session.answered(answer(error_code=71, session_id=0))
    request = session.build({A: asked()})
    assert (request.session_id, request.epoch) == (7, 0)


def test_without_an_answer_the_next_request_replaces_the_session():
    session = opened()
    session.build({A: asked()})
    session.failed()
    assert (session.build({A: asked()}).session_id, session.epoch) == (7, 0)


def test_an_answer_that_does_not_fit_is_not_used():
    session = FetchSession()
    session.build({A: asked(), B: asked(ID_B)})
    assert not session.answered(answer((A, ID_A)))
    assert session.is_full
    session = opened()
    session.build({A: asked()})
    assert not session.answered(answer((B, ID_B)))
    session = opened()
    session.build({A: asked()})
    assert not session.answered(answer((A, ID_A2)))


def test_a_broker_without_sessions_gets_full_requests():
    session = FetchSession()
    session.build({A: asked()})
    assert session.answered(answer((A, ID_A), session_id=0))
    assert (session.build({A: asked()}).session_id, session.epoch) == (0, 0)


def test_a_throttled_broker_answers_with_nothing_and_that_is_no_damage():
    session = FetchSession()
    session.build({A: asked()})
    assert not session.answered(answer(session_id=0, throttle_ms=100))
    assert session.is_full
    session = opened()
    session.build({A: asked()})
    assert session.answered(answer(throttle_ms=100))
    assert session.epoch == 2


def test_topics_without_id_make_a_session_by_name():
    session = FetchSession()
    request = session.build({A: asked(ZERO_UUID), B: asked(ID_B)})
    assert not request.by_id
    assert not session.by_id


def test_epochs_begin_again_at_one():
    session = opened()
    session.epoch = 2**31 - 1
    session.build({A: asked()})
    session.answered(answer())
    assert session.epoch == 1


def test_a_goodbye_ends_the_session_once():
    session = opened()
    goodbye = session.close()
    assert (goodbye.session_id, goodbye.epoch) == (7, -1)
    assert session.close() is None


NAMES = [TopicPartition(topic, index) for topic in "xyz" for index in range(2)]
steps = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3), min_size=1),
        st.sampled_from(["answered", "answered", "answered", "lost", "evicted"]),
        st.integers(0, 1),
    ),
    max_size=15,
)


@given(steps)
def test_the_broker_always_reads_exactly_what_is_wanted(history):
    """Whatever is lost on the way, a request that the broker accepts makes it fetch exactly what we want."""
    ids = itertools.count(1)
    broker = FetchSessions(lambda: next(ids), slots=2)
    session = FetchSession()
    for now_ms, (positions, fate, generation) in enumerate(history):
        wanted = {
            name: RequestedPartition(topic_id_of(name, generation), offset, 100) for name, offset in positions.items()
        }
        if fate == "evicted":
            broker.close(session.session_id)
        request = session.build(wanted)
        try:
            plan = broker.plan(
                request.session_id,
                request.epoch,
                [
                    (
                        FetchKey(topic.topic_id, topic.topic, each.partition),
                        FetchPosition(each.fetch_offset, each.partition_max_bytes),
                    )
                    for topic in request.topics
                    for each in topic.partitions
                ],
                [
                    FetchKey(topic.topic_id, topic.topic, each)
                    for topic in request.forgotten
                    for each in topic.partitions
                ],
                uses_topic_ids=request.by_id,
                is_follower=False,
                now_ms=now_ms,
            )
        except BrokerError as error:
            session.answered(FetchResponse(responses=[], error_code=error.code))
            continue
        found = {(key.topic_id, key.partition): each.fetch_offset for key, each in plan.wanted}
        assert found == {(each.topic_id, name.partition): each.fetch_offset for name, each in wanted.items()}
        if fate == "lost":
            session.failed()
        else:
            named = [(name, each.topic_id) for name, each in wanted.items()] if plan.is_full else []
            assert session.answered(answer(*named, session_id=plan.session_id))


def topic_id_of(name, generation):
    return (name.topic.encode() + str(generation).encode()).ljust(16, b"-")
