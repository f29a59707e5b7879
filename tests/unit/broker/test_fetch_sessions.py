"""Sessions: what is remembered, what is told, what is refused."""

import itertools

import pytest

from ottla.broker.fetch.sessions import FORGET_AFTER_MS, FetchKey, FetchPosition, FetchSessions, LastSent
from ottla.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch

A, B = FetchKey(b"a" * 16, "a", 0), FetchKey(b"b" * 16, "b", 0)


def sessions(slots: int = 10) -> FetchSessions:
    numbers = itertools.count(1)
    return FetchSessions(lambda: next(numbers), slots=slots, evict_after_ms=1000)


def plan(found: FetchSessions, session_id: int, epoch: int, *wanted: tuple[FetchKey, int], **options):  # type: ignore[no-untyped-def]
    asked = [(key, FetchPosition(offset, 1000)) for key, offset in wanted]
    options = {"forgotten": (), "uses_topic_ids": True, "is_follower": False, "now_ms": 0, **options}
    return found.plan(session_id, epoch, asked, **options)


def told(high_watermark: int = 5) -> LastSent:
    return LastSent(high_watermark, 0, -1, was_refused=False)


def test_a_full_fetch_opens_a_session_and_the_next_one_names_only_changes() -> None:
    found = sessions()
    first = plan(found, 0, 0, (A, 1), (B, 2))
    assert (first.session_id, first.is_full) == (1, True)
    second = plan(found, 1, 1, (B, 7))
    assert [(key, wanted.fetch_offset) for key, wanted in second.wanted] == [(A, 1), (B, 7)]
    third = plan(found, 1, 2, forgotten=[A])
    assert [key for key, _ in third.wanted] == [B]


def test_a_fetch_with_the_final_epoch_has_no_session_and_closes_the_one_it_names() -> None:
    found = sessions()
    plan(found, 0, 0, (A, 1))
    assert plan(found, 1, -1, (A, 1)).session_id == 0
    assert len(found) == 0


def test_only_news_is_told() -> None:
    found = sessions()
    first = plan(found, 0, 0, (A, 1))
    assert first.is_news(A, told(), 0)
    second = plan(found, 1, 1)
    assert not second.is_news(A, told(), 0)
    assert second.is_news(A, told(6), 0)
    assert second.is_news(A, told(6), 100)
    assert second.is_news(A, told(6)._replace(was_refused=True), 0)


def test_where_to_read_instead_is_told_in_every_answer() -> None:
    found = sessions()
    elsewhere = told()._replace(preferred_read_replica=2)
    assert plan(found, 0, 0, (A, 1)).is_news(A, elsewhere, 0)
    assert plan(found, 1, 1).is_news(A, elsewhere, 0)


def test_a_partition_with_records_goes_to_the_end_of_the_line() -> None:
    found = sessions()
    plan(found, 0, 0, (A, 1), (B, 2)).is_news(A, told(), 100)
    assert [key for key, _ in plan(found, 1, 1).wanted] == [B, A]


def test_wrong_ids_epochs_and_kinds_are_refused() -> None:
    found = sessions()
    plan(found, 0, 0, (A, 1))
    with pytest.raises(FetchSessionIdNotFound):
        plan(found, 99, 1)
    with pytest.raises(InvalidFetchSessionEpoch, match="expects epoch 1, not 2"):
        plan(found, 1, 2)
    with pytest.raises(FetchSessionTopicIdError):
        plan(found, 1, 1, uses_topic_ids=False)


def test_the_epoch_wraps_to_one() -> None:
    found = sessions()
    plan(found, 0, 0, (A, 1)).session.epoch = (1 << 31) - 1
    plan(found, 1, (1 << 31) - 1)
    assert plan(found, 1, 1).session_id == 1


def test_a_full_cache_gives_no_session_until_one_is_idle() -> None:
    found = sessions(slots=1)
    plan(found, 0, 0, (A, 1), now_ms=0)
    assert plan(found, 0, 0, (A, 1), now_ms=500).session_id == 0
    assert plan(found, 0, 0, (A, 1), now_ms=2000).session_id == 2
    assert len(found) == 1


def test_a_follower_takes_the_place_of_a_consumer() -> None:
    found = sessions(slots=1)
    plan(found, 0, 0, (A, 1))
    assert plan(found, 0, 0, (A, 1), is_follower=True).session_id == 2
    assert plan(found, 0, 0, (A, 1)).session_id == 0


def test_an_empty_full_fetch_opens_nothing() -> None:
    found = sessions()
    assert plan(found, 0, 0).session_id == 0
    assert len(found) == 0


def test_a_topic_that_nobody_knew_when_it_was_asked_for_gets_its_name_when_it_has_one() -> None:
    """A follower may hear of a new topic before its leader, and then does not name it again."""
    found = sessions()
    unknown = A._replace(topic="")
    first = plan(found, 0, 0, (unknown, 1))
    assert first.is_news(unknown, told()._replace(was_refused=True), 0)
    assert [key for key, _ in plan(found, 1, 1).wanted] == [unknown]
    named = plan(found, 1, 2, name_of={A.topic_id: "a"}.get)
    assert [(key, wanted.fetch_offset) for key, wanted in named.wanted] == [(A, 1)]
    assert named.is_news(A, told(), 0)


def test_a_topic_is_forgotten_by_its_id_when_its_name_is_not_known_any_more() -> None:
    """It was deleted: what stays in the session would be read from a new topic of the same name."""
    found = sessions()
    plan(found, 0, 0, (A, 1), (B, 2))
    assert [key for key, _ in plan(found, 1, 1, forgotten=[A._replace(topic="")]).wanted] == [B]


def test_a_topic_that_is_asked_for_again_without_its_name_is_the_same_one() -> None:
    found = sessions()
    plan(found, 0, 0, (A, 1))
    again = plan(found, 1, 1, (A._replace(topic=""), 5))
    assert [(key, wanted.fetch_offset) for key, wanted in again.wanted] == [(A, 5)]


def test_sessions_that_were_deserted_go_when_another_one_is_opened() -> None:
    found = sessions()
    plan(found, 0, 0, (A, 1), now_ms=0)
    plan(found, 0, 0, (A, 1), now_ms=0)
    plan(found, 2, 1, now_ms=FORGET_AFTER_MS)
    plan(found, 0, 0, (B, 1), now_ms=FORGET_AFTER_MS + 1)
    assert (len(found), found.evictions) == (2, 1)
    with pytest.raises(FetchSessionIdNotFound):
        plan(found, 1, 1, now_ms=FORGET_AFTER_MS + 1)
    assert plan(found, 2, 2, now_ms=FORGET_AFTER_MS + 1).session_id == 2
