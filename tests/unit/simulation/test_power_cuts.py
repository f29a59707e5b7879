"""Whole brokers lose power in the middle of what they do to their disks; what was acknowledged is there."""

from __future__ import annotations

import pytest

from ottla.simulation.power_cuts import count_cuts, main, power_cut_plan, run_cuts


def check(cuts: int, **how) -> None:
    seen = 0
    for result in run_cuts(cuts, **how):
        assert result.anomalies == [], f"seed {result.plan.seed}, {result.plan.brokers} broker(s)"
        assert result.acknowledged > 0
        seen += count_cuts(result)
    assert seen >= cuts


def test_fifty_power_cuts_lose_nothing_that_was_acknowledged():
    check(50)


def test_fifty_power_cuts_of_a_quorum_lose_nothing_that_was_acknowledged():
    check(50, brokers=(3,), is_quorum=True)


@pytest.mark.long
def test_a_thousand_power_cuts_of_a_quorum_lose_nothing_that_was_acknowledged():
    check(1_000, brokers=(1, 3, 3, 3), is_quorum=True)


@pytest.mark.long
def test_a_thousand_power_cuts_lose_nothing_that_was_acknowledged():
    check(1_000)


def test_a_seed_draws_its_cuts():
    assert power_cut_plan(3, 3) == power_cut_plan(3, 3) != power_cut_plan(4, 3)


def test_the_command_counts_cuts(capsys):
    assert main(["--cuts", "1", "--first-seed", "9"]) == 0
    assert "0 runs with anomalies" in capsys.readouterr().out
