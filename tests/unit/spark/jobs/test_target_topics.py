"""What a copy needs at its target."""

from __future__ import annotations

import pytest

from ottla.spark.jobs.target_topics import (
    PartitionsDiffer,
    TargetPlan,
    TooFewPartitions,
    mirror_target,
    replay_target,
)


def test_a_replay_makes_what_is_missing_with_as_many_partitions() -> None:
    assert replay_target({"a": 3, "b": 2}, {"b": 2}, "auto") == TargetPlan({"a": 3})


def test_a_replay_asks_what_is_meant_when_the_numbers_differ() -> None:
    with pytest.raises(PartitionsDiffer, match="'a' has 4 partitions at the target and 3 at the source"):
        replay_target({"a": 3}, {"a": 4}, "auto")


def test_partitions_can_be_kept_when_the_target_has_more_but_not_when_it_has_fewer() -> None:
    assert replay_target({"a": 3}, {"a": 4}, "keep").keeps_partitions
    with pytest.raises(TooFewPartitions):
        replay_target({"a": 3}, {"a": 2}, "keep")


def test_keys_may_decide_whatever_the_numbers_are() -> None:
    assert replay_target({"a": 3, "b": 1}, {"a": 2}, "by-key") == TargetPlan({"b": 1}, keeps_partitions=False)


def test_a_mirror_makes_and_grows_but_never_shrinks() -> None:
    found = mirror_target({"a": 3, "b": 3, "c": 3}, {"b": 2, "c": 5})
    assert found == TargetPlan({"a": 3}, {"b": 3})
