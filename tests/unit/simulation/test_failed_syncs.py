"""A sync of a whole broker fails, the broker comes back by itself, and the power goes: nothing acknowledged is lost."""

from __future__ import annotations

import pytest

from ottla.simulation.fault import Fault
from ottla.simulation.plan import Plan
from ottla.simulation.run import run_plan

METADATA = "__cluster_metadata-0/00000000000000000000.log"
FAILURES = [("sync", "/t-0/00000000000000000000.log"), ("sync_directory", "/t-0"), ("sync_directory", "/data")]


def plan(seed: int) -> Plan:
    return Plan(
        seed,
        brokers=1,
        partitions=1,
        durability="durable",
        kinds=("disk-fail", "power"),
        work_s=3.5,
        fault_pause_s=1.0,
        send_pause_s=0.1,
        after_s=0.5,
    )


@pytest.mark.parametrize(("operation", "ending"), [*FAILURES, ("sync", METADATA)])
@pytest.mark.parametrize("seed", range(2))
def test_what_is_acknowledged_after_a_failed_sync_survives_a_power_cut(seed, operation, ending):
    at_s = 0.4 if operation == "sync" else 0.0  # names are only made at the beginning
    failure = Fault(at_s, "disk-fail", 0, 1.0, (("ending", ending), ("operation", operation)))
    result = run_plan(plan(seed), [failure, Fault(2.4, "power", 0, 0.2)])
    assert result.anomalies == []
    ended = [moment for moment in result.timeline.moments if moment.kind == "ended"]
    assert len(ended) == 1 or ending == METADATA  # metadata is only written when something changes
    assert result.acknowledged > 10
