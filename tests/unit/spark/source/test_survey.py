"""What is asked before a batch, and what it means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from ottla.spark.source.bounds import Begin
from ottla.spark.source.data_loss import Kind, Loss
from ottla.spark.source.offsets import StreamOffset
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.survey import ATTEMPTS_MAX, Frozen, begin_with, freeze, survey, within
from ottla.spark.source.topic_positions import Listed, NothingToRead, TopicPositions, TopicsChanged
from ottla.values import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
OPTIONS = SourceOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t"}, streaming=True)


class Cluster:
    """Partitions with a first offset, an end that is shown, and a true end."""

    def __init__(self, logs: Mapping[TopicPartition, tuple[int, int, int]], topic_id: str = "one") -> None:
        self.logs = dict(logs)
        self.topic_id = topic_id
        self.calls: list[str] = []
        self.missing: list[frozenset[str]] = []
        self.changes = 0

    def listed(self) -> Listed:
        self.calls.append("listed")
        missing = self.missing.pop(0) if self.missing else frozenset()
        return Listed({each.topic: self.topic_id for each in self.logs}, frozenset(self.logs), missing)

    def wait_to_ask_again(self) -> None:
        self.calls.append("wait")

    def _answer(self, name: str, index: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if self.changes and name == "latest":
            self.changes -= 1
            self.logs.pop(B, None)
            raise TopicsChanged
        found = {each: self.logs[each][index] for each in partitions}
        if found:
            self.calls.append(f"{name} {', '.join(sorted(map(str, found)))}")
        return found

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._answer("earliest", 0, partitions)

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._answer("latest", 1, partitions)

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._answer("ends", 2, partitions)

    @property
    def asked(self) -> TopicPositions:
        return cast(TopicPositions, self)


def start(topic_id: str = "one", **positions: int) -> StreamOffset:
    return StreamOffset({{"a": A, "b": B}[name]: offset for name, offset in positions.items()}, {"t": topic_id})


def test_nothing_new_is_two_questions() -> None:
    cluster = Cluster({A: (0, 10, 10), B: (0, 20, 20)})
    found = survey(start(a=10, b=20), cluster.asked)
    assert found.waiting == {A: 0, B: 0}
    assert cluster.calls == ["listed", "latest t-0, t-1"]


def test_only_what_moved_is_looked_at_closer() -> None:
    cluster = Cluster({A: (0, 10, 10), B: (0, 25, 25)})
    found = survey(start(a=10, b=20), cluster.asked)
    assert found.waiting == {A: 0, B: 5}
    assert found.losses == ()
    assert cluster.calls[2:] == ["earliest t-1"]


def test_a_new_partition_is_read_from_its_first_record() -> None:
    found = survey(start(a=10), Cluster({A: (0, 10, 10), B: (0, 25, 25)}).asked)
    assert found.begins == {A: 10, B: 0}
    assert found.waiting == {A: 0, B: 25}


def test_records_that_were_deleted_are_a_loss() -> None:
    found = survey(start(a=10), Cluster({A: (15, 25, 25)}).asked)
    assert found.losses == (Loss(Kind.CUT_OFF, A, 10, 15),)
    assert found.waiting == {A: 10}


def test_everything_that_was_deleted_after_the_end_was_asked_for_is_nothing_to_read() -> None:
    assert survey(start(a=10), Cluster({A: (30, 25, 25)}).asked).waiting == {A: 0}


def test_what_read_committed_does_not_show_yet_is_not_lost() -> None:
    cluster = Cluster({A: (0, 10, 40)})
    found = survey(start(a=30), cluster.asked)
    assert (found.losses, found.waiting) == ((), {A: 0})
    assert cluster.calls[2:] == ["ends t-0"]


def test_a_log_that_ends_before_our_position_is_a_loss() -> None:
    found = survey(start(a=30), Cluster({A: (0, 10, 10)}).asked)
    assert found.losses == (Loss(Kind.TRUNCATED, A, 30, 10),)
    assert found.waiting == {A: 0}


def test_a_topic_that_was_made_anew_is_noticed_even_when_its_end_is_where_we_are() -> None:
    found = survey(start("zero", a=10), Cluster({A: (0, 10, 10)}).asked)
    assert found.losses == (Loss(Kind.TOPIC_RECREATED, A, 10, 0),)
    assert found.waiting == {A: 10}
    assert found.topic_ids == {"t": "one"}


def test_a_topic_that_is_gone_is_not_asked_about() -> None:
    found = survey(start(a=10), Cluster({}).asked)
    assert [each.kind for each in found.losses] == [Kind.TOPIC_GONE]
    assert found.begins == {}


def test_a_topic_that_goes_between_two_questions_is_looked_at_again() -> None:
    cluster = Cluster({A: (0, 12, 12), B: (0, 25, 25)})
    cluster.changes = 1
    found = survey(start(a=10, b=20), cluster.asked)
    assert found.waiting == {A: 2}
    assert [each.kind for each in found.losses] == [Kind.PARTITION_GONE]
    cluster.changes = 1
    assert freeze(cluster.asked).latest == {A: 12}


def test_topics_that_never_stand_still_are_told() -> None:
    cluster = Cluster({A: (0, 12, 12)})
    cluster.changes = 99
    with pytest.raises(TopicsChanged):
        survey(start(a=10), cluster.asked)
    assert cluster.calls.count("listed") == ATTEMPTS_MAX


# --- a run that ends with what there was -----------------------------------------------------------------------------


def test_a_frozen_run_does_not_see_what_came_later() -> None:
    cluster = Cluster({A: (0, 10, 10)})
    frozen = freeze(cluster.asked)
    cluster.logs = {A: (0, 50, 50), B: (0, 7, 7)}
    found = survey(start(a=4), cluster.asked, frozen)
    assert found.waiting == {A: 6}
    assert survey(start(a=10), cluster.asked, frozen).waiting == {A: 0}


def test_a_frozen_run_ends_when_its_topic_is_made_anew() -> None:
    cluster = Cluster({A: (0, 10, 10)})
    frozen = freeze(cluster.asked)
    cluster.logs, cluster.topic_id = {A: (0, 50, 50)}, "two"
    found = survey(start(a=4), cluster.asked, frozen)
    assert [each.kind for each in found.losses] == [Kind.TOPIC_RECREATED]
    assert found.waiting == {A: 0}


def test_a_position_after_the_frozen_end_stays() -> None:
    frozen = Frozen({"t": "one"}, {A: 10})
    found = survey(start(a=20), Cluster({A: (0, 50, 50)}).asked, frozen)
    assert (found.losses, found.begins, found.waiting) == ((), {A: 20}, {A: 0})


def test_a_known_partition_that_a_frozen_run_did_not_see_stays_where_it_is() -> None:
    found = survey(start(a=4, b=3), Cluster({A: (0, 10, 10), B: (0, 9, 9)}).asked, Frozen({"t": "one"}, {A: 10}))
    assert found.losses == ()
    assert found.waiting == {A: 6, B: 0}


# --- a new query -----------------------------------------------------------------------------------------------------


def test_a_topic_that_is_missing_for_a_moment_is_waited_for() -> None:
    cluster = Cluster({A: (0, 1, 1)})
    cluster.missing = [frozenset({"u"}), frozenset({"u"})]
    assert begin_with(OPTIONS, cluster.asked).partitions == {A}
    assert cluster.calls == ["listed", "wait", "listed", "wait", "listed"]


def test_a_topic_that_stays_missing_is_told() -> None:
    cluster = Cluster({A: (0, 1, 1)})
    cluster.missing = [frozenset({"u"})] * 9
    with pytest.raises(NothingToRead, match="u does not exist"):
        begin_with(OPTIONS, cluster.asked)


def test_an_assigned_partition_must_be_there() -> None:
    given: dict[str, Any] = {"kafka.bootstrap.servers": "h:1", "assign": '{"t": [0, 9]}'}
    with pytest.raises(NothingToRead, match="no partition t-9"):
        begin_with(SourceOptions.parse(given, streaming=True), Cluster({A: (0, 1, 1)}).asked)


def test_a_batch_that_asks_for_what_is_not_there_is_a_loss_at_both_ends() -> None:
    cluster = Cluster({A: (5, 10, 10), B: (0, 10, 10)})
    begin = Begin({A: 1, B: 2}, frozenset({A, B}))
    begins, ends, losses = within(begin, {"t": "one"}, {A: 10, B: 30}, cluster.asked)
    assert begins == {A: 5, B: 2}
    assert ends == {A: 10, B: 10}
    assert losses == [Loss(Kind.CUT_OFF, A, 1, 5), Loss(Kind.TRUNCATED, B, 30, 10)]


def test_who_asked_for_the_first_record_gets_the_one_that_is_first_now() -> None:
    begins, _, losses = within(Begin({A: 1}, frozenset()), {"t": "one"}, {A: 10}, Cluster({A: (5, 10, 10)}).asked)
    assert (begins, losses) == ({A: 5}, [])
