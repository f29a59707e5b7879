"""Waits between tries."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.net.retries import JITTER, Backoff


class Middle:
    def random(self) -> float:
        return 0.5


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(100, 1000, Middle())
    assert [backoff.delay_ms(attempt) for attempt in range(6)] == [100, 200, 400, 800, 1000, 1000]


def test_a_longest_wait_below_the_first_rules() -> None:
    assert Backoff(100, 30, Middle()).delay_ms(0) == 30


@given(st.integers(0, 10_000), st.integers(0, 2**32))
def test_waits_are_spread_by_a_fifth_and_never_without_bound(attempt: int, seed: int) -> None:
    delay_ms = Backoff(100, 1000, Random(seed)).delay_ms(attempt)
    assert 100 * (1 - JITTER) <= delay_ms <= 1000 * (1 + JITTER)


def test_attempts_are_counted_from_zero() -> None:
    with pytest.raises(ValueError, match="from 0"):
        Backoff(1, 2, Middle()).delay_ms(-1)
