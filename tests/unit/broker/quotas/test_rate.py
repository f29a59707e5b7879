"""Rates in sampled windows, held against a plain model of what Kafka's Rate does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.quotas.rate import SampledRate


class PlainRate:
    """Every sample looked at every time; no memory of totals."""

    def __init__(self, samples, window_ms):
        self.samples, self.window_ms = samples, window_ms
        self.kept = []  # [start, last, value], in the order of their places
        self.current = 0

    def record(self, value, now):
        if not self.kept:
            self.kept.append([now, now, 0])
        if now - self.kept[self.current][0] >= self.window_ms:
            self.current = (self.current + 1) % (self.samples + 1)
            if self.current == len(self.kept):
                self.kept.append(None)
            self.kept[self.current] = [now, now, 0]
        self.kept[self.current][1] = now
        self.kept[self.current][2] += value

    def measure(self, now):
        """The sum, and the time it is for."""
        if not self.kept:
            self.kept.append([now, now, 0])
        for sample in self.kept:
            if now - sample[1] >= self.samples * self.window_ms:
                sample[:] = [now, now, 0]
        elapsed = now - min(start for start, _, _ in self.kept)
        missing = self.samples - 1 - elapsed // self.window_ms
        return sum(value for _, _, value in self.kept), max(elapsed + max(0, missing) * self.window_ms, 1)


steps = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 300), st.integers(0, 20_000), st.sampled_from([999, 1000, 1001, 10_999, 11_000])),
        st.integers(-1_000, 1_000_000),
        st.booleans(),
    ),
    max_size=120,
)


@given(samples=st.integers(1, 12), window_ms=st.sampled_from([1, 100, 1000]), steps=steps)
def test_a_rate_is_what_the_plain_model_says(samples, window_ms, steps):
    rate, plain, now = SampledRate(samples=samples, window_ms=window_ms), PlainRate(samples, window_ms), 5_000
    for passed, value, is_only_read in steps:
        now += passed
        if not is_only_read:
            rate.record(value, now)
            plain.record(value, now)
        total, elapsed = plain.measure(now)
        assert rate.elapsed_ms(now) == elapsed
        assert rate.per_second(now) == pytest.approx(total * 1000 / elapsed)


@given(steps=steps, limit=st.integers(1, 2_000_000))
def test_who_waits_as_long_as_it_says_is_at_the_limit(steps, limit):
    rate, plain, now = SampledRate(samples=11, window_ms=1000), PlainRate(11, 1000), 0
    for passed, value, _ in steps:
        now += passed
        rate.record(value, now)
        plain.record(value, now)
        total, elapsed = plain.measure(now)
        wait_ms = rate.wait_ms(limit, now)
        if total * 1000 / elapsed <= limit:
            assert wait_ms == 0
        else:
            assert total * 1000 / (elapsed + wait_ms) == pytest.approx(limit)


def test_the_first_burst_is_divided_by_all_windows_but_one():
    rate = SampledRate(samples=11, window_ms=1000)
    rate.record(10_000_000, 0)
    assert rate.wait_ms(1_000_000, 0) == 0
    rate.record(500_000, 0)
    assert rate.wait_ms(1_000_000, 0) == pytest.approx(500)


def test_what_is_taken_back_was_never_there():
    rate = SampledRate(samples=11, window_ms=1000)
    rate.record(70, 0)
    rate.record(900, 10)
    rate.record(-900, 10)
    assert rate.per_second(10) == pytest.approx(70 / 10.01)


def test_a_sample_leaves_when_its_last_value_is_old():
    rate = SampledRate(samples=3, window_ms=1000)
    rate.record(100, 0)
    rate.record(200, 900)
    assert rate.total == 300
    assert rate.per_second(3899) == pytest.approx(300 / 3.899)
    assert rate.per_second(3900) == 0
