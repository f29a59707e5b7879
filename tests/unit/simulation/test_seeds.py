"""Three hundred short histories: real brokers and clients, faults of all kinds, and nothing that must not be."""

from __future__ import annotations

import pytest

from ottla.simulation.plan import Plan
from ottla.simulation.run import run_plan

SEEDS = 300
TOGETHER = 10


@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_seeds_have_no_anomaly(first):
    bad = []
    for seed in range(first, first + TOGETHER):
        result = run_plan(Plan.short(seed))
        if result.anomalies:
            bad.append(f"Plan.short({seed}): {[str(each) for each in result.anomalies[:5]]}")
    assert bad == []
