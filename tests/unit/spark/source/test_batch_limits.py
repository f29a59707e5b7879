"""All limits together: the smallest counts, and a run that is to end is never held back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ottla.spark.source.batch_limits import BatchLimits
from ottla.spark.source.limits import FIRST_SHARE
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.record_sizes import RecordSizes
from ottla.spark.source.survey import Survey
from ottla.values import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Sizes:
    """Every record has ten bytes."""

    def means(self, begins: Mapping[TopicPartition, int], waiting: Mapping[TopicPartition, int]) -> Mapping[str, float]:
        return {"t": 10.0}


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def limits(time: Time, **options: str) -> BatchLimits:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options}
    parsed = SourceOptions.parse(given, streaming=True)
    return BatchLimits(parsed, sizes=cast(RecordSizes, Sizes()), monotonic=time, wall=lambda: 1.0 + time())


def waiting(a: int, b: int = 0) -> Survey:
    return Survey({A: 100, B: 100}, {A: 100 + a, B: 100 + b}, {"t": "id"})


def test_the_smallest_limit_counts() -> None:
    both = limits(Time(), maxOffsetsPerTrigger="100", maxBytesPerTrigger="400")
    assert both.counts(waiting(1000, 1000), is_run_to_an_end=False) == {A: 20, B: 20}
    both = limits(Time(), maxOffsetsPerTrigger="10", maxBytesPerTrigger="400", maxTimePerTrigger="10s")
    assert both.counts(waiting(1000, 1000), is_run_to_an_end=False) == {A: 5, B: 5}


def test_what_does_not_wait_is_not_counted() -> None:
    assert limits(Time(), maxOffsetsPerTrigger="10").counts(waiting(0), is_run_to_an_end=False) == {}


def test_a_batch_waits_for_more_unless_the_run_is_to_end() -> None:
    time = Time()
    found = limits(time, minOffsetsPerTrigger="50", maxTriggerDelay="60s")
    assert found.counts(waiting(5), is_run_to_an_end=False) == {A: 5}
    assert found.counts(waiting(5), is_run_to_an_end=False) is None
    assert found.counts(waiting(5), is_run_to_an_end=True) == {A: 5}
    time.now = 60.0
    assert found.counts(waiting(5), is_run_to_an_end=False) == {A: 5}


def test_the_pace_is_learnt_from_batch_to_batch() -> None:
    time = Time()
    found = limits(time, maxTimePerTrigger="1s")
    assert found.counts(waiting(10**9), is_run_to_an_end=False) == {A: FIRST_SHARE}
    time.now = 10.0
    assert found.counts(waiting(10**9), is_run_to_an_end=False) == {A: FIRST_SHARE // 10}


def test_a_stream_that_nobody_limits_has_batches_of_five_minutes() -> None:
    time = Time()
    made = limits(time)
    assert made.counts(waiting(10**9), is_run_to_an_end=False) == {A: FIRST_SHARE}
    time.now += 600.5  # slow: a UDF with 167 rows a second
    assert made.counts(waiting(10**9), is_run_to_an_end=False) == {A: FIRST_SHARE * 300_000 // 600_500}
    for given in ({"maxOffsetsPerTrigger": "1000000"}, {"maxBytesPerTrigger": "9999999999"}):
        assert limits(time, **given).counts(waiting(200_000), is_run_to_an_end=False) == {A: 200_000}


def test_a_batch_that_an_earlier_run_has_planned_tells_how_fast_the_query_is() -> None:
    time = Time()
    made = limits(time)
    made.begins(4_000_000)
    time.now += 1_200.5
    assert made.counts(waiting(10**9), is_run_to_an_end=False) == {A: 4_000_000 * 300_000 // 1_200_500}
