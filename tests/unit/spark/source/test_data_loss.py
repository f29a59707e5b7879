"""The table of losses, row by row."""

from __future__ import annotations

import logging

import pytest

from ottla.client.consumer.ranges import DataLost
from ottla.spark.source.data_loss import Kind, Loss, Seen, report_losses, resolve_start
from ottla.spark.source.offsets import StreamOffset
from ottla.values import TopicPartition

A = TopicPartition("t", 0)
B = TopicPartition("t", 1)
START = StreamOffset({A: 50}, {"t": "one"})


def seen(*partitions: TopicPartition, topic_id: str | None = "one", first: int = 0, end: int = 100) -> Seen:
    return Seen(
        {"t": topic_id}, frozenset(partitions), dict.fromkeys(partitions, first), dict.fromkeys(partitions, end)
    )


def test_what_is_there_is_read_from_where_we_are() -> None:
    assert resolve_start(START, seen(A)) == ({A: 50}, [])


def test_a_position_at_either_edge_is_no_loss() -> None:
    assert resolve_start(START, seen(A, first=50, end=50)) == ({A: 50}, [])


def test_a_topic_that_was_deleted_has_nothing_to_go_on_with() -> None:
    assert resolve_start(START, Seen({}, frozenset())) == ({}, [Loss(Kind.TOPIC_GONE, A, 50, None)])


def test_a_topic_that_was_made_anew_goes_on_with_its_first_record() -> None:
    found = resolve_start(START, seen(A, topic_id="two", first=3, end=7))
    assert found == ({A: 3}, [Loss(Kind.TOPIC_RECREATED, A, 50, 3)])


@pytest.mark.parametrize("known", [StreamOffset({A: 50}), StreamOffset({A: 50}, {"u": "x"})])
def test_without_an_id_nothing_is_said_about_another_topic(known: StreamOffset) -> None:
    assert resolve_start(known, seen(A, topic_id="two")) == ({A: 50}, [])
    assert resolve_start(START, seen(A, topic_id=None)) == ({A: 50}, [])


def test_a_partition_that_vanished_has_nothing_to_go_on_with() -> None:
    start = StreamOffset({A: 50, B: 7}, {"t": "one"})
    assert resolve_start(start, seen(A)) == ({A: 50}, [Loss(Kind.PARTITION_GONE, B, 7, None)])


def test_records_that_retention_took_are_skipped() -> None:
    assert resolve_start(START, seen(A, first=51)) == ({A: 51}, [Loss(Kind.CUT_OFF, A, 50, 51)])


def test_a_log_that_was_cut_off_is_read_from_its_end() -> None:
    assert resolve_start(START, seen(A, end=49)) == ({A: 49}, [Loss(Kind.TRUNCATED, A, 50, 49)])


def test_a_new_partition_begins_with_its_first_record() -> None:
    assert resolve_start(START, seen(A, B)) == ({A: 50, B: 0}, [])


def test_a_new_partition_that_lost_records_already_is_a_loss() -> None:
    found = resolve_start(START, Seen({"t": "one"}, frozenset({A, B}), {A: 0, B: 9}))
    assert found == ({A: 50, B: 9}, [Loss(Kind.BEGAN_LATE, B, 0, 9)])


def test_a_loss_fails_the_query_with_everything_one_needs_to_know() -> None:
    losses = [Loss(Kind.CUT_OFF, A, 50, 51), Loss(Kind.TOPIC_GONE, B, 7, None)]
    with pytest.raises(DataLost) as caught:
        report_losses(losses, fails=True)
    text = str(caught.value)
    assert "t-0 at offset 50: records before its first one were deleted" in text
    assert "it can go on at offset 51" in text
    assert "t-1 at offset 7: its topic was deleted; there is nothing to go on with" in text
    assert "failOnDataLoss=false" in text


def test_a_loss_that_is_allowed_is_one_warning_for_each(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        report_losses([Loss(Kind.CUT_OFF, A, 50, 51), Loss(Kind.TOPIC_GONE, B, 7, None)], fails=False)
    assert len(caplog.records) == 2
    assert "t-0 at offset 50" in caplog.text


def test_no_loss_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    report_losses([], fails=True)
    report_losses([], fails=False)
    assert not caplog.records


def test_of_many_losses_some_are_named() -> None:
    losses = [Loss(Kind.TOPIC_GONE, TopicPartition("t", index), 1, None) for index in range(50)]
    with pytest.raises(DataLost, match="and 45 more partitions"):
        report_losses(losses, fails=True)
