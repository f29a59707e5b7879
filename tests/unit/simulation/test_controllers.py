"""Whole clusters on a metadata log in the simulation: brokers under controllers, and brokers that are controllers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.simulation.__main__ import main
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.fault import CONTROLLER_KINDS, KINDS
from ottla.simulation.faults import EFFECTS
from ottla.simulation.loop import new_loop
from ottla.simulation.plan import Plan
from ottla.simulation.run import run_plan
from ottla.simulation.workloads.names import UPGRADE
from ottla.simulation.workloads.upgrade import Upgrade

COMBINED = replace(Plan.short(3, 3), controllers=3, combined=True)


def check(result):
    assert result.anomalies == [], f"{result.summary()}\n{result.repeat_command}"
    assert result.acknowledged > 0


@pytest.mark.parametrize("seed", range(1, 9))
def test_brokers_on_a_quorum_keep_what_they_acknowledged(seed):
    check(run_plan(Plan.short(seed).under_controllers()))


@pytest.mark.parametrize("seed", [1069, 1262, 1378, 1895, 2069, 7514, 11243, 12561, 13812, 17565, 19024])
def test_seeds_that_found_something_find_nothing_any_more(seed):
    """A follower that had to truncate never heard of the high watermark; a broker whose logs were lost with the
    machine's memory was trusted; a controller whose disk failed went on; a consumer read a part of a batch twice; a
    group that its coordinator had lost gave the numbers of its generations out again, in both protocols; a broker that
    was back was waited for behind a connection that was left open; a timestamp that rotted ended all appends. Two found
    the simulation at fault: two copies lost what was not synced, a compacted file was taken for a rotten one."""
    check(run_plan(Plan.short(seed).under_controllers()))


@pytest.mark.parametrize("kinds", [*((each,) for each in CONTROLLER_KINDS), ("power", "controller-kill", "stop")])
@pytest.mark.parametrize("combined", [True, False])
def test_controllers_that_come_and_go_cost_nothing_that_was_acknowledged(kinds, combined):
    check(run_plan(replace(COMBINED, combined=combined, kinds=kinds, fault_pause_s=0.2)))


@pytest.mark.parametrize("kinds", [(), ("kill", "controller-kill"), ("power", "voter-apart")])
@pytest.mark.parametrize("combined", [True, False])
def test_a_cluster_is_upgraded_node_by_node_under_load(kinds, combined):
    loads = ("numbers", "follow", UPGRADE)
    result = run_plan(replace(COMBINED, combined=combined, kinds=kinds, loads=loads, fault_pause_s=0.2))
    check(result)
    assert any(event.action == "raise" and event.kind == "ok" for event in result.history.events)


def test_a_cluster_that_stays_behind_its_nodes_is_an_anomaly(monkeypatch):
    async def nobody_raises(self, admin):
        return True

    monkeypatch.setattr(Upgrade, "_raise", nobody_raises)
    result = run_plan(replace(COMBINED, kinds=(), loads=("numbers", "follow", UPGRADE)))
    assert {each.name for each in result.anomalies} == {"not-upgraded"}


def test_a_run_on_a_quorum_is_the_same_twice_and_says_how_it_is_repeated(capsys):
    plan = Plan.short(5).under_controllers()
    first, second = run_plan(plan), run_plan(plan)
    assert first.digest == second.digest
    words = first.repeat_command.split()
    assert words[:2] == ["ottla", "simulate"]
    assert main(words[2:]) == 0
    assert f"{first.digest:08x}" in capsys.readouterr().out


def test_kinds_of_faults_of_controllers_are_drawn_for_clusters_that_have_them():
    assert not set(CONTROLLER_KINDS) & set(KINDS)
    assert set(EFFECTS) >= {*KINDS, *CONTROLLER_KINDS}
    drawn = [Plan.short(seed).under_controllers() for seed in range(100)]
    shapes = {(each.brokers, each.controllers, each.combined) for each in drawn}
    assert shapes >= {(1, 1, True), (3, 3, True), (3, 1, True), (1, 3, False), (3, 3, False), (1, 1, False)}
    assert {kind for each in drawn for kind in each.kinds} >= set(CONTROLLER_KINDS)
    assert all(each.durability == "durable" for each in drawn if each.brokers == 1)


@pytest.mark.parametrize("combined", [True, False])
def test_another_controller_is_active_when_one_is_killed(combined):
    loop = new_loop(Random(1))
    cluster = SimulatedCluster(loop, Random(2), brokers=3, controllers=3, combined=combined, session_s=1.5)

    async def story():
        cluster.start()
        await cluster.ready()
        killed = cluster.active_controller
        assert killed in cluster.voters
        cluster.kill(killed)
        assert cluster.active_controller != killed
        began_s = loop.time()
        while cluster.active_controller is None:
            await loop.create_task(sleep(loop, 0.01))
        assert loop.time() - began_s < 5
        cluster.restart(killed)
        await cluster.ready()

    try:
        loop.run(story(), limit_s=60.0)
    finally:
        loop.close()


async def sleep(loop, seconds):
    woken = loop.create_future()
    loop.call_later(seconds, woken.set_result, None)
    await woken


def test_nodes_that_read_another_truth_from_the_same_log_are_an_anomaly(monkeypatch):
    steps = MetadataLoader.steps

    def forgets(self, batch):
        yield from steps(self, batch)
        if self.image.topics_by_name:
            self.image = replace(self.image, features=self.image.features.put("made.up", id(self)))

    monkeypatch.setattr(MetadataLoader, "steps", forgets)
    result = run_plan(replace(COMBINED, kinds=()))
    assert "metadata-differs" in {each.name for each in result.anomalies}
