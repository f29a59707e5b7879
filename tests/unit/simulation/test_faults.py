"""Faults are plain values: drawn up front, written as text, left out one by one."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from types import SimpleNamespace

import pytest

from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.fault import KINDS, LEADER, TAKES_AWAY, Fault, draw_faults, read_fault
from ottla.simulation.history import History
from ottla.simulation.loop import new_loop
from ottla.simulation.plan import Plan
from ottla.simulation.run import run_plan
from ottla.simulation.timeline import Timeline
from ottla.simulation.workloads.zombies import AMID, CLIENT_KINDS, ClientFaults, draw_client_faults


def drawn(seed=1, kinds=KINDS):
    return draw_faults(Random(seed), kinds=kinds, brokers=3, work_s=100.0, pause_s=0.5)


def test_a_seed_draws_its_faults_in_order_and_within_the_time():
    faults = drawn()
    assert faults == drawn() != drawn(2)
    assert [each.at_s for each in faults] == sorted(each.at_s for each in faults)
    assert 100 < len(faults) < 400
    assert faults[-1].at_s < 100.0
    assert {each.kind for each in faults} == set(KINDS)
    assert {each.broker for each in faults} == {0, 1, 2}


def test_without_kinds_there_are_no_faults():
    assert drawn(kinds=()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_is_its_text(kind):
    fault = drawn(kinds=(kind,))[0]
    assert fault.kind == kind
    assert read_fault(fault.line()) == fault
    assert str(fault.broker) in str(fault)


def test_a_run_makes_the_faults_of_a_list_and_no_others():
    plan = Plan(3, 3, 1, "durable", kinds=KINDS, work_s=6.0, fault_pause_s=0.5, send_pause_s=0.3)
    result = run_plan(plan, [Fault(2.0, "pause", 1, 0.5), Fault(1.0, "kill", 0, 1.0)])
    assert result.anomalies == []
    assert [event.action for event in result.history.events if event.client == "faults" and event.kind == "invoke"] == [
        "kill",
        "pause",
        "healed",
    ]
    kinds = [moment.kind for moment in result.timeline.of("broker 0")]
    assert kinds == ["started", "ready", "fault", "killed", "started", "undone", "ready"]
    assert [moment.kind for moment in result.timeline.of("broker 1")] == ["started", "ready", "fault", "undone"]


def test_a_timeline_is_bounded(monkeypatch):
    monkeypatch.setattr("ottla.simulation.timeline.MOMENTS_LIMIT", 2)
    timeline = Timeline(lambda: 1.5)
    for number in range(5):
        timeline.add("broker 0", "step", str(number))
    assert [each.text for each in timeline.moments] == ["0", "1"]
    assert timeline.dropped == 3
    assert "1.500000  broker 0" in timeline.text()


def chained(**changes):
    values = {"kinds": KINDS, "brokers": 3, "work_s": 200.0, "pause_s": 2.0, "chains": 1.0, "session_s": 2.0}
    return draw_faults(Random(1), **{**values, **changes})


def test_in_a_chain_brokers_go_away_one_after_the_other():
    faults = chained()
    assert {each.kind for each in faults} == set(TAKES_AWAY)
    assert [each.at_s for each in faults] == sorted(each.at_s for each in faults)
    assert all(0.4 <= each.duration_s <= 10.0 for each in faults)
    followed = [one.broker != next_one.broker for one, next_one in pairwise(faults)]
    assert sum(followed) > len(followed) * 0.8


@pytest.mark.parametrize("changes", [{"brokers": 1}, {"kinds": ("reset",)}, {"chains": 0.0}])
def test_without_others_or_ways_there_are_no_chains(changes):
    plain = {**changes, "chains": 0.0}
    assert len(chained(**changes)) == pytest.approx(len(chained(**plain)), rel=0.3)


def test_a_fault_may_be_aimed_at_who_leads():
    faults = draw_faults(Random(1), kinds=("kill",), brokers=3, work_s=100.0, pause_s=0.5, aim=0.5)
    aimed = [each for each in faults if LEADER in each.named]
    assert 0.3 < len(aimed) / len(faults) < 0.7
    assert all(0 <= each.number(LEADER) < 1 for each in aimed)
    assert read_fault(aimed[0].line()) == aimed[0]


def test_an_aimed_fault_hits_a_broker_that_leads(monkeypatch):
    plan = Plan(3, 3, 1, "durable", kinds=KINDS, work_s=2.0, fault_pause_s=0.5, send_pause_s=0.3)
    led, leaders = [], SimulatedCluster.leaders

    def noted(cluster):
        led.append(leaders(cluster))
        return led[-1]

    monkeypatch.setattr(SimulatedCluster, "leaders", noted)
    result = run_plan(plan, [Fault(1.0, "restart", 0, 0.0, ((LEADER, 0.999),))])
    assert result.anomalies == []
    (happened,) = [each for each in result.history.events if each.action == "restart" and each.kind == "invoke"]
    assert happened.facts["broker"] == led[0][-1]


def test_some_faults_of_clients_are_for_who_is_in_the_middle_of_something():
    def drawn_for_clients(aim):
        return draw_client_faults(Random(3), CLIENT_KINDS, 1_000.0, aim=aim, member_s=2.0)

    assert not any(AMID in each.named for each in drawn_for_clients(0.0))
    aimed = drawn_for_clients(1.0)
    assert all(each.named[AMID] == 2.0 and 1.0 <= each.duration_s <= 6.0 for each in aimed)
    assert all(read_fault(each.line()) == each for each in aimed)


@pytest.mark.parametrize(("busy", "hit"), [("one", "one"), (None, "zero")])
def test_an_aimed_fault_waits_for_who_is_in_the_middle_of_something(busy, hit):
    """And takes anybody when nobody is."""
    fault = Fault(0.0, "client-kill", -1, 0.0, ((AMID, 1.0), ("client", 0.1)))
    crashed = []

    class Load(SimpleNamespace):
        def crash(self):
            crashed.append(self.name)

        def restart(self):
            pass

    async def story():
        loads = [Load(name=name, is_amid=False, task=object()) for name in ("zero", "one")]
        faults = asyncio.ensure_future(ClientFaults(loads, History(loop.time), [fault]).run())
        await asyncio.sleep(0.5)
        assert crashed == []
        for load in loads:
            load.is_amid = load.name == busy
        await faults

    loop = new_loop(Random(1))
    loop.run(story(), limit_s=10.0)
    loop.close()
    assert crashed == [hit]
