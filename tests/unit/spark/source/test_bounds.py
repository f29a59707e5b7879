"""From options to an offset for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from ottla.spark.option_table import InvalidOption
from ottla.spark.source.bounds import ending_positions, starting_positions
from ottla.spark.source.options import SourceOptions
from ottla.values import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH = frozenset({A, B})


class Cluster:
    """Partitions from 10 to 100; records up to time 1000, ten for each offset."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 100)

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {each: max(10, moment // 10) if moment < 1000 else None for each, moment in times_ms.items()}

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {A: 77} if group_id == "g" else {}


def begin(streaming: bool = True, **options: str) -> dict[TopicPartition, int]:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options}
    return starting_positions(SourceOptions.parse(given, streaming=streaming), BOTH, Cluster()).positions


def end(**options: str) -> dict[TopicPartition, int]:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options}
    return ending_positions(SourceOptions.parse(given, streaming=False), BOTH, Cluster())


def test_places_have_names() -> None:
    assert begin() == {A: 100, B: 100}
    assert begin(startingOffsets="earliest") == {A: 10, B: 10}
    assert begin(streaming=False) == {A: 10, B: 10}
    assert end() == {A: 100, B: 100}


def test_offsets_one_by_one_may_be_names_too() -> None:
    assert begin(startingOffsets='{"t": {"0": -1, "1": -2}}') == {A: 100, B: 10}
    assert end(endingOffsets='{"t": {"0": 55, "1": -1}}') == {A: 55, B: 100}


@pytest.mark.parametrize("option", ["startingOffsets", "startingOffsetsByTimestamp"])
def test_every_partition_must_be_named(option: str) -> None:
    with pytest.raises(InvalidOption, match=f"{option} must name every partition, and t-1 is missing"):
        begin(**{option: '{"t": {"0": 5}}'})


@pytest.mark.parametrize("option", ["startingOffsets", "startingOffsetsByTimestamp"])
def test_no_other_partition_may_be_named(option: str) -> None:
    with pytest.raises(InvalidOption, match=f"{option} names t-2"):
        begin(**{option: '{"t": {"0": 5, "1": 5, "2": 5}}'})


def test_times_become_offsets() -> None:
    assert begin(startingTimestamp="500") == {A: 50, B: 50}
    assert begin(startingOffsetsByTimestamp='{"t": {"0": 500, "1": 700}}') == {A: 50, B: 70}
    assert end(endingTimestamp="500") == {A: 50, B: 50}
    assert end(endingOffsetsByTimestamp='{"t": {"0": 500, "1": 5000}}') == {A: 50, B: 100}


def test_a_starting_time_that_no_record_has_reached_is_an_error_unless_latest_is_chosen() -> None:
    with pytest.raises(InvalidOption, match="no record is as late as the starting time in t-0, t-1"):
        begin(startingTimestamp="5000")
    assert begin(startingTimestamp="5000", startingOffsetsByTimestampStrategy="latest") == {A: 100, B: 100}


def test_an_ending_time_that_no_record_has_reached_is_the_end() -> None:
    assert end(endingTimestamp="5000") == {A: 100, B: 100}


def test_what_a_group_committed_wins_and_the_rest_begins_as_told() -> None:
    assert begin(startingGroupId="g", startingOffsets="earliest") == {A: 77, B: 10}
    assert begin(startingGroupId="g", startingTimestamp="500") == {A: 77, B: 50}
    assert begin(startingGroupId="new") == {A: 100, B: 100}


@pytest.mark.parametrize(
    ("options", "exact"),
    [
        ({"startingOffsets": "earliest"}, set()),
        ({"startingTimestamp": "500"}, set()),
        ({"startingOffsets": '{"t": {"0": 5, "1": -2}}'}, {A}),
        ({"startingGroupId": "g"}, {A}),
        ({"startingGroupId": "g", "startingOffsets": '{"t": {"0": -2, "1": 5}}'}, {A, B}),
    ],
)
def test_offsets_that_somebody_chose_are_exact(options: dict[str, str], exact: set[TopicPartition]) -> None:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options}
    assert starting_positions(SourceOptions.parse(given, streaming=True), BOTH, Cluster()).exact == exact
