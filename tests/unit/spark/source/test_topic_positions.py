"""The driver's questions: what is asked again, what is believed, what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.plans import PartlyFailed
from ottla.client.admin.topics import PartitionDescription, TopicDescription, TopicListing
from ottla.errors import (
    LeaderNotAvailable,
    OttlaError,
    RequestTimedOut,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.topic_positions import TopicPositions, TopicsChanged
from ottla.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition, uuid_to_text

ID = bytes(range(16))
A, B = TopicPartition("a", 0), TopicPartition("a", 1)


class Cluster:
    """An admin client of a made-up cluster; `errors` are raised before it answers."""

    def __init__(self, topics: Mapping[str, int], errors: list[OttlaError] | None = None) -> None:
        self.topics = dict(topics)
        self.errors = errors or []
        self.calls: list[tuple[Any, ...]] = []
        self.is_closed = False

    def _called(self, *call: Any) -> None:
        self.calls.append(call)
        if self.errors:
            raise self.errors.pop(0)

    def list_topics(self) -> dict[str, TopicListing]:
        self._called("list")
        return {name: TopicListing(name, ID, False) for name in self.topics}

    def describe_topics(self, names: list[str]) -> dict[str, TopicDescription]:
        self._called("describe", *names)
        failed: dict[str, OttlaError] = {
            name: UnknownTopicOrPartition(name) for name in names if name not in self.topics
        }
        found = {name: self._described(name) for name in names if name in self.topics}
        if failed and len(names) == 1:
            raise next(iter(failed.values()))
        if failed:
            raise PartlyFailed(found, failed)
        return found

    def _described(self, name: str) -> TopicDescription:
        parts = tuple(PartitionDescription(index, 1, 0, (1,), (1,)) for index in range(self.topics[name]))
        return TopicDescription(name, ID, False, parts)

    def list_offsets(self, places: Mapping[TopicPartition, Any], isolation_level: str) -> dict[Any, Any]:
        self._called("offsets", isolation_level, *places.values())
        return {each: OffsetAndTimestamp(-1 if place == 99 else 5, -1) for each, place in places.items()}

    def list_consumer_group_offsets(self, group_id: str, partitions: list[TopicPartition]) -> dict[Any, Any]:
        self._called("committed", group_id)
        return {partitions[0]: OffsetAndMetadata(7), partitions[1]: None}

    def alter_consumer_group_offsets(self, group_id: str, offsets: Mapping[Any, Any], timeout: float) -> None:
        self._called("commit", group_id, dict(offsets), timeout)

    def close(self) -> None:
        self.is_closed = True


class Time:
    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def asking(cluster: Cluster, time: Time | None = None, **options: str) -> TopicPositions:
    given = {"kafka.bootstrap.servers": "h:1", "fetchOffset.retryIntervalMs": "20", **options}
    if not {"assign", "subscribePattern"} & options.keys():
        given.setdefault("subscribe", "a")
    time = time or Time()
    parsed = SourceOptions.parse(given, streaming=True)
    return TopicPositions(parsed, make_admin=lambda settings: cluster, sleep=time.sleep, monotonic=time.monotonic)


# --- partitions ------------------------------------------------------------------------------------------------------


def test_all_partitions_of_a_topic_are_read_with_its_id() -> None:
    found = asking(Cluster({"a": 2, "b": 1})).listed()
    assert found.partitions == {A, B}
    assert found.known_ids() == {"a": uuid_to_text(ID)}


def test_a_pattern_finds_topics_by_their_whole_name() -> None:
    found = asking(Cluster({"a": 2, "ab": 1, "ba": 1}), subscribePattern="a.?").listed()
    assert {each.topic for each in found.partitions} == {"a", "ab"}


def test_a_pattern_that_finds_nothing_reads_nothing() -> None:
    assert asking(Cluster({"a": 2}), subscribePattern="x.*").listed().partitions == frozenset()


def test_assigned_partitions_that_are_not_there_are_left_out() -> None:
    found = asking(Cluster({"a": 2}), assign='{"a": [1, 5]}').listed()
    assert found.partitions == {B}


@pytest.mark.parametrize("names", ["gone", "gone,away"])
def test_topics_that_are_not_there_are_named(names: str) -> None:
    found = asking(Cluster({"a": 2}), subscribe=names).listed()
    assert found.missing == set(names.split(","))
    assert not found.partitions
    found = asking(Cluster({"a": 2}), subscribe=f"a,{names}").listed()
    assert found.missing == set(names.split(","))
    assert found.partitions == {A, B}


def test_a_list_is_asked_for_every_time_unless_it_may_be_older() -> None:
    cluster, time = Cluster({"a": 1}), Time()
    positions = asking(cluster, time)
    positions.listed()
    positions.listed()
    assert len(cluster.calls) == 2
    cluster = Cluster({"a": 1})
    kept = asking(cluster, time, **{"partition.metadata.cache.ttl.ms": "1000"})
    kept.listed()
    time.now += 0.9
    kept.listed()
    assert len(cluster.calls) == 1
    time.now += 0.2
    kept.listed()
    assert len(cluster.calls) == 2


# --- offsets ---------------------------------------------------------------------------------------------------------


def test_the_end_is_what_the_isolation_level_shows_unless_the_true_end_is_asked_for() -> None:
    cluster = Cluster({"a": 1})
    positions = asking(cluster, isolationLevel="read_committed")
    assert positions.latest([A]) == {A: 5}
    positions.ends([A])
    positions.earliest([A])
    assert cluster.calls == [
        ("offsets", "read_committed", OffsetSpec.LATEST),
        ("offsets", "read_uncommitted", OffsetSpec.LATEST),
        ("offsets", "read_committed", OffsetSpec.EARLIEST),
    ]


def test_no_partition_is_no_question() -> None:
    cluster = Cluster({"a": 1})
    assert asking(cluster).latest([]) == {}
    assert cluster.calls == []


def test_a_time_that_no_record_has_reached_has_no_offset() -> None:
    assert asking(Cluster({"a": 2})).at_times({A: 10, B: 99}) == {A: 5, B: None}


def test_a_group_has_committed_or_not() -> None:
    assert asking(Cluster({"a": 2})).committed("g", [A, B]) == {A: 7}


def test_a_commit_is_tried_once_for_so_long() -> None:
    cluster = Cluster({"a": 2}, [LeaderNotAvailable()])
    with pytest.raises(LeaderNotAvailable):
        asking(cluster).commit("g", {A: 3}, "spark batch=1", 10.0)
    assert cluster.calls == [("commit", "g", {A: OffsetAndMetadata(3, "spark batch=1")}, 10.0)]


# --- asking again ----------------------------------------------------------------------------------------------------


def test_what_fails_for_a_moment_is_asked_again_after_a_while() -> None:
    cluster, time = Cluster({"a": 2}, [LeaderNotAvailable(), PartlyFailed({}, {A: LeaderNotAvailable()})]), Time()
    assert asking(cluster, time).latest([A]) == {A: 5}
    assert time.slept == [0.02, 0.02]


def test_after_so_many_times_it_is_told() -> None:
    cluster = Cluster({"a": 2}, [LeaderNotAvailable()] * 9)
    with pytest.raises(LeaderNotAvailable):
        asking(cluster, **{"fetchOffset.numRetries": "2"}).latest([A])
    assert len(cluster.calls) == 3


@pytest.mark.parametrize(
    "error", [TopicAuthorizationFailed(), RequestTimedOut(), PartlyFailed({}, {A: TopicAuthorizationFailed()})]
)
def test_what_will_not_pass_is_told_at_once(error: OttlaError) -> None:
    cluster = Cluster({"a": 2}, [error])
    with pytest.raises(type(error)):
        asking(cluster).latest([A])
    assert len(cluster.calls) == 1


@pytest.mark.parametrize("error", [UnknownTopicOrPartition(), PartlyFailed({}, {A: UnknownTopicOrPartition()})])
def test_a_partition_that_went_meanwhile_is_not_asked_about_again(error: OttlaError) -> None:
    cluster = Cluster({"a": 2}, [error])
    with pytest.raises(TopicsChanged):
        asking(cluster).latest([A])
    assert len(cluster.calls) == 1


def test_closing_ends_the_connection() -> None:
    cluster = Cluster({"a": 2})
    positions = asking(cluster)
    positions.close()
    positions.latest([A])
    positions.close()
    assert cluster.is_closed
