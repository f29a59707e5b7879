"""Short histories: real brokers and clients, faults of all kinds, and nothing that must not be."""

from __future__ import annotations

import pytest

from ottla.simulation.plan import Plan
from ottla.simulation.run import run_plan

SEEDS = 300
SAMPLE = 40  # of them in `make test`; raise it to all when a whole run of them was seen in less than a minute
TOGETHER = 10


def check(first: int) -> None:
    bad = []
    for seed in range(first, first + TOGETHER):
        result = run_plan(Plan.short(seed))
        if result.anomalies:
            bad.append(f"Plan.short({seed}): {[str(each) for each in result.anomalies[:5]]}")
    assert bad == []


@pytest.mark.parametrize("first", range(0, SAMPLE, TOGETHER))
def test_seeds_have_no_anomaly(first):
    check(first)


@pytest.mark.long
@pytest.mark.parametrize("first", range(SAMPLE, SEEDS, TOGETHER))
def test_more_seeds_have_no_anomaly(first):
    check(first)
