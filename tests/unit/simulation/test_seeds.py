"""Short histories: real brokers and clients, faults of all kinds, and nothing that must not be."""

from __future__ import annotations

import gc

import pytest

from ottla.simulation.plan import Plan
from ottla.simulation.run import run_plan

SEEDS = 300
TOGETHER = 10


@pytest.fixture(autouse=True)
def _collector_off():
    """Every run collects its own rubbish; a search among everything that pytest has costs as much as a short run."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_seeds_have_no_anomaly(first):
    bad = []
    for seed in range(first, first + TOGETHER):
        result = run_plan(Plan.short(seed))
        if result.anomalies:
            bad.append(f"{result.repeat_command}: {[str(each) for each in result.anomalies[:5]]}")
    assert bad == []
