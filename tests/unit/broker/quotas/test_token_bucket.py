"""Tokens that flow in at a steady rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.quotas.token_bucket import TokenBucket


def test_it_begins_full_and_may_go_below_zero_once():
    bucket = TokenBucket(windows_s=100)
    assert bucket.tokens(5, 0) == 500
    bucket.spend(560, 5, 0)
    assert bucket.wait_ms(5, 0) == pytest.approx(12_000)
    assert bucket.wait_ms(5, 11_000) == pytest.approx(1_000)
    assert bucket.wait_ms(5, 12_000) == 0


@given(
    rate=st.integers(1, 50),
    windows=st.integers(1, 30),
    steps=st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 400)), max_size=50),
)
def test_tokens_are_what_flowed_in_less_what_was_spent(rate, windows, steps):
    bucket, now = TokenBucket(windows_s=windows), 0
    tokens = burst = rate * windows
    for passed, spent in steps:
        now += passed
        tokens = min(burst, tokens + rate * passed / 1000)
        assert bucket.tokens(rate, now) == pytest.approx(tokens)
        bucket.spend(spent, rate, now)
        tokens -= spent


def test_a_lower_rate_makes_the_bucket_smaller():
    bucket = TokenBucket(windows_s=10)
    assert bucket.tokens(10, 0) == 100
    assert bucket.tokens(2, 0) == 20
