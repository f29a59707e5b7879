"""How much a batch reads: fair shares, delays, pace."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.source.limits import FIRST_SHARE, Delay, Pace, share_bytes, share_offsets, smallest
from ottla.values import TopicPartition

PARTITIONS = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 40))
WAITING = st.dictionaries(PARTITIONS, st.integers(-3, 10**6), max_size=20)


def tp(index: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, index)


# --- offsets ---------------------------------------------------------------------------------------------------------


@given(WAITING, st.integers(1, 10**6))
def test_a_limit_is_used_up_exactly(waiting: dict[TopicPartition, int], limit: int) -> None:
    shares = share_offsets(waiting, limit)
    there = {each: count for each, count in waiting.items() if count > 0}
    assert shares.keys() == there.keys()
    assert sum(shares.values()) == min(sum(there.values()), max(limit, len(there)))
    assert all(1 <= shares[each] <= there[each] for each in there)


@given(WAITING, st.integers(1, 10**6))
def test_shares_are_by_volume(waiting: dict[TopicPartition, int], limit: int) -> None:
    shares = share_offsets(waiting, limit)
    in_order = sorted(shares, key=lambda each: waiting[each])
    # Who has more waiting never gets less, but for the one that rounding may give.
    assert all(shares[more] >= shares[less] - 1 for less, more in pairwise(in_order))


def test_a_small_partition_beside_a_large_one_is_not_starved() -> None:
    assert share_offsets({tp(0): 1_000_000, tp(1): 3}, 10) == {tp(0): 9, tp(1): 1}


def test_a_limit_below_the_number_of_partitions_gives_each_one() -> None:
    assert share_offsets({tp(0): 5, tp(1): 5, tp(2): 5}, 1) == {tp(0): 1, tp(1): 1, tp(2): 1}


def test_partitions_come_to_their_ends_together() -> None:
    waiting = {tp(0): 1000, tp(1): 100, tp(2): 10}
    rounds = []
    while any(waiting.values()):
        shares = share_offsets(waiting, 100)
        waiting = {each: count - shares.get(each, 0) for each, count in waiting.items()}
        rounds.append(sum(shares.values()))
    assert rounds == [100] * 11 + [10]


# --- bytes -----------------------------------------------------------------------------------------------------------


def test_bytes_are_shared_by_what_waits() -> None:
    waiting = {tp(0): 1000, tp(1): 500, tp(0, "u"): 100}
    assert share_bytes(waiting, {"t": 10.0, "u": 100.0}, 2500) == {tp(0): 100, tp(1): 50, tp(0, "u"): 10}


@given(WAITING, st.integers(1, 10**9), st.floats(1, 10**6), st.floats(1, 10**6))
def test_bytes_are_kept_but_for_one_record_of_each(
    waiting: dict[TopicPartition, int], limit: int, a: float, b: float
) -> None:
    means = {"a": a, "b": b}
    shares = share_bytes(waiting, means, limit)
    assert all(1 <= count <= waiting[each] for each, count in shares.items())
    beyond_the_first = sum((count - 1) * means[each.topic] for each, count in shares.items())
    assert beyond_the_first <= limit


def test_the_smallest_of_two_limits_counts_in_each_partition() -> None:
    assert smallest({tp(0): 5, tp(1): 9}, {tp(0): 7, tp(1): 2}) == {tp(0): 5, tp(1): 2}


# --- waiting for more ------------------------------------------------------------------------------------------------


def test_a_batch_waits_for_enough_but_not_for_ever() -> None:
    delay = Delay(least=100, max_delay_ms=1000)
    assert not delay.holds_back(5, now_ms=0)  # the first of a run
    assert delay.holds_back(99, now_ms=10)
    assert not delay.holds_back(100, now_ms=20)
    assert delay.holds_back(99, now_ms=1019)
    assert not delay.holds_back(99, now_ms=1020)
    assert delay.holds_back(99, now_ms=1021)


# --- pace ------------------------------------------------------------------------------------------------------------


def run(
    pace: Pace, batches: int, *, fixed_ms: float, per_second: float, interval_ms: float = 0
) -> list[tuple[int, float]]:
    """A query that never lacks records: offsets and milliseconds of each batch."""
    now_ms, seen = 0.0, []
    for _ in range(batches):
        pace.asked(now_ms)
        offsets = pace.allowed
        pace.planned(offsets, now_ms)
        took_ms = fixed_ms + offsets / per_second * 1000
        seen.append((offsets, took_ms))
        now_ms += max(took_ms, interval_ms)
    return seen


@pytest.mark.parametrize("per_second", [500.0, 20_000.0, 1_000_000.0])
def test_batches_soon_take_as_long_as_allowed(per_second: float) -> None:
    seen = run(Pace(5_000), 20, fixed_ms=200, per_second=per_second)
    assert seen[0][0] == FIRST_SHARE
    for _, took_ms in seen[8:]:
        assert 2_500 <= took_ms <= 6_000


def test_a_query_that_becomes_slow_gets_less() -> None:
    pace = Pace(5_000)
    run(pace, 10, fixed_ms=200, per_second=100_000)
    before = pace.allowed
    run(pace, 6, fixed_ms=200, per_second=1_000)
    assert pace.allowed < before / 20


def test_a_trigger_interval_longer_than_the_limit_does_not_starve_a_query() -> None:
    seen = run(Pace(1_000), 60, fixed_ms=100, per_second=50_000, interval_ms=10_000)
    assert all(5_000 <= took_ms <= 21_000 for _, took_ms in seen[20:])


def test_a_small_batch_says_nothing_against_a_large_one() -> None:
    pace = Pace(1_000)
    pace.planned(10, 0)
    pace.asked(900)
    assert pace.allowed == FIRST_SHARE


def test_an_empty_batch_teaches_nothing() -> None:
    pace = Pace(1_000)
    pace.planned(0, 0)
    pace.asked(90_000)
    assert pace.allowed == FIRST_SHARE


def test_a_trigger_that_waits_longer_than_the_limit_says_nothing_about_the_time_of_a_batch():
    """Every hour: Spark asks at whole hours. The first batch is small, the next one may have all that waits."""
    pace, hour_ms = Pace(300_000), 3_600_000
    pace.planned(FIRST_SHARE, 0)
    pace.asked(hour_ms / 2, 5 * hour_ms + 30)
    assert pace.allowed > 10**12
    pace.planned(10**8, 0)
    pace.asked(700_000, 5 * hour_ms + 33_333)  # so long it really took
    assert pace.allowed == 10**8 * 3 // 7
