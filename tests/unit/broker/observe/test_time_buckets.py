"""Times in buckets: close to the truth, bounded, and of the recent past."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.observe.time_buckets import BOUNDS, QUANTILES, WINDOW_MS, Spread, Times, added


def quantiles(spread, now_ms=0.0):
    return {reading.quantile: reading.value for reading in spread.readings(now_ms) if reading.quantile}


@given(st.lists(st.floats(0.001, 1_000_000), min_size=1, max_size=200))
def test_quantiles_are_within_a_sixteenth_of_the_truth(values):
    times = Times()
    for each in values:
        times.record(each)
    found = list(quantiles(Spread(lambda: [times])).values())
    ordered = sorted(values)
    for share, value in zip(QUANTILES, found, strict=True):
        assert value == pytest.approx(ordered[math.ceil(share * len(ordered)) - 1], rel=1 / 16)


@pytest.mark.parametrize("value", [0.0, -1.0, 0.0005, math.nan])
def test_what_took_no_time_is_nothing(value):
    times = Times()
    times.record(value)
    if not math.isnan(value):
        assert quantiles(Spread(lambda: [times]))["0.50"] == 0
    assert times.count == 1


def test_what_took_longer_than_all_bounds_is_the_last_of_them():
    times = Times()
    times.record(1e12)
    assert quantiles(Spread(lambda: [times]))["0.99"] == BOUNDS[-1]


def test_several_are_added_and_zeros_with_them():
    one, other = Times(), Times()
    one.record(1.0, 2)
    other.record(4.0)
    together = added([one, other], zeros=7)
    assert (together.count, together.total_ms, together.counts[0]) == (10, 6.0, 7)
    assert one.count == 2


def test_without_times_there_are_no_quantiles():
    found = quantiles(Spread(lambda: [Times()]))
    assert all(math.isnan(value) for value in found.values())


def test_a_second_reader_does_not_shorten_the_window_of_the_first():
    times = Times()
    spread = Spread(lambda: [times])
    times.record(1_000.0)
    quantiles(spread, 0.0)
    for now_ms in range(0, int(WINDOW_MS), 1_000):
        assert quantiles(spread, float(now_ms))["0.999"] > 900
