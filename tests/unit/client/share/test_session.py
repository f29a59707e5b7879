"""Our half of share sessions: what the requests say, and how they count."""

from __future__ import annotations

from ottla.client.share.session import EPOCH_MAX, FINAL_EPOCH, ShareSession
from ottla.values import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
ID_A, ID_B, ID_A2 = b"a" * 16, b"b" * 16, b"c" * 16


def test_the_first_fetch_names_everything_and_later_ones_what_changed():
    session = ShareSession()
    assert not session.is_open
    assert session.fetch({A: ID_A, B: ID_B}) == (0, {A: ID_A, B: ID_B}, {})
    session.answered()
    assert session.fetch({A: ID_A, B: ID_B}) == (1, {}, {})
    session.answered()
    assert session.fetch({A: ID_A}) == (2, {}, {B: ID_B})
    session.answered()
    assert session.fetch({A: ID_A, B: ID_B}) == (3, {B: ID_B}, {})


def test_fetches_and_acknowledgements_count_together():
    session = ShareSession()
    session.fetch({A: ID_A})
    session.answered()
    assert session.acknowledge() == (1, {}, {})
    session.answered()
    assert session.fetch({A: ID_A}).epoch == 2


def test_a_topic_that_was_made_again_is_forgotten_and_added():
    session = ShareSession()
    session.fetch({A: ID_A})
    session.answered()
    assert session.fetch({A: ID_A2}) == (1, {A: ID_A2}, {A: ID_A})


def test_after_the_highest_epoch_comes_one():
    session = ShareSession()
    session.fetch({A: ID_A})
    session.epoch = EPOCH_MAX
    session.answered()
    assert session.epoch == 1


def test_a_lost_session_begins_again_with_everything():
    session = ShareSession()
    session.fetch({A: ID_A})
    session.answered()
    session.fetch({A: ID_A, B: ID_B})
    session.lost()
    assert not session.is_open
    assert session.fetch({B: ID_B}) == (0, {B: ID_B}, {})


def test_a_session_is_closed_by_the_last_epoch():
    session = ShareSession()
    session.fetch({A: ID_A})
    session.answered()
    assert session.close().epoch == FINAL_EPOCH
