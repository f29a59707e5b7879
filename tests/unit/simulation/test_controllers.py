"""Brokers under controllers in the simulation: whole runs, and the log that the controllers share."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ottla.cluster.changes import SetFeature
from ottla.simulation.__main__ import main
from ottla.simulation.controllers.truth import NOBODY, Quorum
from ottla.simulation.fault import CONTROLLER_KINDS, KINDS
from ottla.simulation.faults import EFFECTS
from ottla.simulation.loop import new_loop
from ottla.simulation.plan import Plan
from ottla.simulation.run import run_plan


def check(result):
    assert result.anomalies == [], f"{result.summary()}\n{result.repeat_command}"
    assert result.acknowledged > 0


@pytest.mark.parametrize("seed", range(1, 7))
def test_brokers_under_controllers_keep_what_they_acknowledged(seed):
    check(run_plan(Plan.short(seed).under_controllers()))


@pytest.mark.parametrize("kinds", [*((each,) for each in CONTROLLER_KINDS), ("power", "controller-kill", "stop")])
def test_controllers_that_come_and_go_cost_nothing_that_was_acknowledged(kinds):
    check(run_plan(replace(Plan.short(3, 3).under_controllers(3), kinds=kinds, fault_pause_s=0.2)))


def test_a_run_under_controllers_is_the_same_twice_and_says_how_it_is_repeated(capsys):
    plan = Plan.short(5).under_controllers()
    first, second = run_plan(plan), run_plan(plan)
    assert first.digest == second.digest
    words = first.repeat_command.split()
    assert words[:2] == ["ottla", "simulate"]
    assert main(words[2:]) == 0
    assert f"{first.digest:08x}" in capsys.readouterr().out


def test_a_broker_whose_disk_fails_under_the_metadata_log_at_its_start_ends_and_is_started_again():
    check(run_plan(Plan.short(1142, 1).under_controllers(1)))


def test_kinds_of_faults_of_controllers_are_drawn_for_clusters_that_have_them():
    assert not set(CONTROLLER_KINDS) & set(KINDS)
    assert set(EFFECTS) >= {*KINDS, *CONTROLLER_KINDS}
    drawn = [Plan.short(seed).under_controllers() for seed in range(100)]
    assert {each.controllers for each in drawn} == {1, 3}
    assert {each.brokers for each in drawn} == {1, 3}
    assert {kind for each in drawn for kind in each.kinds} >= set(CONTROLLER_KINDS)
    assert all(each.durability == "durable" for each in drawn if each.brokers == 1)


# --- the log of the controllers ---------------------------------------------------------------------------------------


def quorum(work):
    """What `work` gives, run on a quorum that node 100 leads."""
    loop = new_loop(Random(1))
    found = Quorum(loop, Random(2), "5L6g3nShT-eMCtK--X86sw")
    found.elect(100)
    try:
        return loop.run(work(found), limit_s=100.0)
    finally:
        loop.close()


def test_what_is_appended_is_there_at_once_and_committed_a_moment_later():
    async def work(log):
        end = log.append([SetFeature("metadata.version", 30)])
        assert log.image.feature("metadata.version") == 30
        assert log.log.high_watermark < end == log.log.end_offset
        assert await log.committed(end)
        assert log.log.high_watermark == end

    quorum(work)


def test_what_was_not_committed_may_be_lost_when_another_node_leads_and_nobody_is_told_that_it_holds():
    async def work(log):
        assert await log.committed(log.append([SetFeature("metadata.version", 30)]))
        left = set()
        for level in range(7, 30):
            end = log.append([SetFeature("metadata.version", level)])
            waiting = log.loop.create_task(log.committed(end))
            grown = log.grown()
            log.depose()
            assert log.leader == NOBODY
            assert not await waiting
            assert grown.done()
            log.elect(101)
            left.add(log.image.feature("metadata.version") == level)
            assert log.log.last_epoch == log.epoch
            await log.committed(log.log.end_offset)
        assert left == {True, False}

    quorum(work)


def test_a_snapshot_takes_the_place_of_the_log_before_it():
    async def work(log):
        log._snapshot_bytes = 1
        for level in range(7, 30):
            assert await log.committed(log.append([SetFeature("metadata.version", level)]))
        newest = log.log.newest_snapshot
        assert newest is not None
        assert newest.end_offset == log.log.start_offset == log.log.end_offset
        log.depose()
        log.elect(101)
        assert log.image.feature("metadata.version") == 29, "it is read again from there"

    quorum(work)
