"""Offsets of finished batches reach the group, and a display that fails does not fail the query."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from ottla.errors import CoordinatorNotAvailable, GroupAuthorizationFailed, OttlaError, UnknownMemberId
from ottla.spark.source.group_commits import GroupCommits, GroupInUse
from ottla.spark.source.offsets import StreamOffset
from ottla.values import TopicPartition

A = TopicPartition("t", 0)


class Cluster:
    def __init__(self) -> None:
        self.commits: list[tuple[str, dict[TopicPartition, int]]] = []
        self.notes: list[str] = []
        self.error: OttlaError | None = None

    def commit(self, group_id: str, positions: Mapping[TopicPartition, int], note: str, timeout_s: float) -> None:
        self.notes.append(note)
        if self.error is not None:
            raise self.error
        self.commits.append((group_id, dict(positions)))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_every_offset_is_committed_once(cluster: Cluster) -> None:
    commits = GroupCommits("g", cluster)
    for offset in (5, 5, 7, 7):
        commits.done_before(StreamOffset({A: offset}))
    assert cluster.commits == [("g", {A: 5}), ("g", {A: 7})]


def test_with_an_offset_goes_how_many_batches_the_run_has_finished(cluster: Cluster) -> None:
    commits = GroupCommits("g", cluster)
    commits.done_before(StreamOffset({A: 5}))
    cluster.error = CoordinatorNotAvailable()
    for offset in (7, 7):
        commits.done_before(StreamOffset({A: offset}))
    cluster.error = None
    commits.done_before(StreamOffset({A: 9}))
    assert cluster.notes == ["spark batch=0", "spark batch=1", "spark batch=1", "spark batch=2"]


def test_nothing_read_is_nothing_to_commit(cluster: Cluster) -> None:
    GroupCommits("g", cluster).done_before(StreamOffset({}))
    assert cluster.commits == []


def test_a_group_with_members_is_told_at_once(cluster: Cluster) -> None:
    cluster.error = UnknownMemberId()
    with pytest.raises(GroupInUse, match="g"):
        GroupCommits("g", cluster).done_before(StreamOffset({A: 5}))


def test_a_group_that_may_not_be_used_is_told_at_once(cluster: Cluster) -> None:
    cluster.error = GroupAuthorizationFailed()
    with pytest.raises(GroupAuthorizationFailed):
        GroupCommits("g", cluster).done_before(StreamOffset({A: 5}))


def test_a_later_commit_that_fails_is_a_warning_and_is_made_up_for(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    commits = GroupCommits("g", cluster)
    commits.done_before(StreamOffset({A: 5}))
    cluster.error = UnknownMemberId()
    with caplog.at_level(logging.WARNING):
        commits.done_before(StreamOffset({A: 6}))
    assert "were not committed to group g" in caplog.text
    cluster.error = None
    commits.done_before(StreamOffset({A: 6}))
    assert cluster.commits[-1] == ("g", {A: 6})


def test_a_coordinator_that_is_away_does_not_stop_the_query(cluster: Cluster) -> None:
    cluster.error = CoordinatorNotAvailable()
    GroupCommits("g", cluster).done_before(StreamOffset({A: 5}))
