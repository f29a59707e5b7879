"""Whole runs: real brokers and clients under faults from a seed, and the same history every time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from ottla.broker.sharing.persister import Persister
from ottla.client.admin.async_admin import AsyncAdmin
from ottla.errors import InvalidReplicationFactor
from ottla.simulation.__main__ import main
from ottla.simulation.faults import KINDS
from ottla.simulation.plan import Plan
from ottla.simulation.run import run_plan
from ottla.simulation.swarm import values_without_pace
from ottla.simulation.workloads.churn import TOPIC
from ottla.simulation.workloads.names import ALL_LOADS
from ottla.simulation.workloads.zombies import CLIENT_KINDS
from ottla.spark.sink.coordinator_calls import CoordinatorCalls
from ottla.spark.sink.markers import Marker
from ottla.testing.files import MemoryFile

CLIENTS = {
    "copy": "copier",
    "cut": "cutter",
    "spark-sink": "spark sink",
}  # what those of a workload are called, when not like it
QUICK = {
    "work_s": 5.0,
    "fault_pause_s": 1.5,
    "send_pause_s": 0.2,
    "loads": ("numbers", "follow", "group-eager"),
    "client_kinds": (),
}


def quick(seed, brokers, **changes):
    return replace(without_pace(seed, brokers), **{**QUICK, **changes})


def without_pace(seed, brokers):
    """What the seed drew before there was a pace."""
    return Plan(**values_without_pace(seed, brokers))


def check(result):
    assert result.anomalies == [], f"{result.summary()}\n{result.repeat_command}"
    assert result.acknowledged > 0


@pytest.mark.parametrize("seed", range(2))
def test_one_broker_keeps_what_it_acknowledged_through_power_cuts(seed):
    check(run_plan(quick(seed, 1, kinds=("power", "kill"))))


def test_a_disk_that_pretends_to_sync_records_is_found_out(monkeypatch):
    """The checker and the power cut are worth something: what is acknowledged is not there."""
    sync = MemoryFile.sync

    def pretend(file, *, metadata=False):
        if file.path.suffix != ".log" or not file.path.parent.name.startswith("t-"):
            sync(file, metadata=metadata)

    monkeypatch.setattr(MemoryFile, "sync", pretend)
    found = {anomaly.name for anomaly in run_plan(quick(0, 1, kinds=("power",))).anomalies}
    assert found & {"lost-write", "inconsistent-offsets"}


@pytest.mark.parametrize("kind", KINDS)
def test_three_brokers_keep_what_they_acknowledged_through_one_kind_of_fault(kind):
    check(run_plan(quick(KINDS.index(kind), 3, kinds=(kind,))))


@pytest.mark.parametrize("seed", range(100, 102))
def test_three_brokers_keep_what_they_acknowledged_through_all_faults(seed):
    check(run_plan(quick(seed, 3, kinds=KINDS)))


@pytest.mark.parametrize("load", ALL_LOADS[2:])
def test_every_workload_keeps_its_promises_while_brokers_and_clients_are_killed(load):
    faults = {"kinds": ("kill", "reset"), "client_kinds": CLIENT_KINDS}
    result = run_plan(quick(300 + ALL_LOADS.index(load), 3, loads=("numbers", "follow", load), work_s=10.0, **faults))
    check(result)
    assert any(
        event.kind == "ok" and event.client.startswith(CLIENTS.get(load, load)) for event in result.history.events
    )


def test_a_sink_that_forgets_which_batches_it_wrote_is_found(monkeypatch):
    async def forget(calls, tasks, is_final):
        return {task: Marker() for task in tasks}

    monkeypatch.setattr(CoordinatorCalls, "read_markers", forget)
    loads = ("numbers", "follow", "spark-sink")
    result = run_plan(quick(6, 1, loads=loads, kinds=("kill",)))
    assert "consume-count" in {anomaly.name for anomaly in result.anomalies}


def test_a_leader_of_a_share_group_that_keeps_nothing_is_found(monkeypatch):
    async def pretend(persister, key, state_epoch, leader_epoch, state):
        return

    monkeypatch.setattr(Persister, "write", pretend)
    loads = ("numbers", "follow", "share-group")
    result = run_plan(quick(0, 1, loads=loads, kinds=("kill",)))
    assert "share-redelivered" in {anomaly.name for anomaly in result.anomalies}


def test_power_cuts_of_one_machine_after_the_other_lose_nothing():
    """Every machine lost power once and was in sync again since. When the one that led and was the controller went
    down, the next controller trusted nobody but it, and it led again without what it had lost."""
    check(run_plan(without_pace(118, 3)))


@pytest.mark.parametrize(("seed", "brokers"), [(104, 3), (127, 3), (164, 1)])
def test_seeds_that_had_an_anomaly_have_none(seed, brokers):
    """Retention deleted what the last read had not come to; a failing disk was told with a trace; sends that the broker
    had already were acknowledged without an offset. (What these numbers draw has changed since.)"""
    check(run_plan(without_pace(seed, brokers)))


@pytest.mark.parametrize(
    ("seed", "brokers"),
    [
        (1695, 1),
        (1894, 3),
        (2548, 1),
        (3281, 3),
        (4764, 1),
        (6711, 3),
        (12303, 1),
        (20869, 3),
        (22303, 1),
        (23421, 3),
        (25838, 1),
        (33250, 3),
        (36677, 3),
        (60005, 3),
        (61099, 3),
    ],
)
def test_short_seeds_that_had_an_anomaly_have_none(seed, brokers):
    """A topic that was made while the disk was full had no leader until the next start; a request that waited to hear
    whose address it came from failed when its broker stopped; Spark's sink tried forever to send to a broker whose
    clock was an hour late (clocks are set right now when all is healed); who came back to a full disk never followed;
    nobody started a broker again whose disk had failed under its metadata; a topic was never gone that was deleted
    while a disk was full; records that were deleted were back after a crash; a batch that was there was refused when it
    was sent again, because the broker's clock was late; orders of the controller waited behind markers that waited for
    those orders; nobody could join the copies of a leader that had another session since it leads.
    """
    check(run_plan(Plan.short(seed, brokers)))


def test_a_topic_that_was_refused_is_made_later(monkeypatch):
    """It is refused while only two of three brokers live. The workload sent to it all the same, and the run was blamed
    for it when all was healed."""
    create, refused = AsyncAdmin.create_topics, []

    async def refuse_once(admin, topics, **options):
        if topics[0].name == TOPIC and not refused:
            refused.append(topics)
            raise InvalidReplicationFactor("two brokers are alive")
        return await create(admin, topics, **options)

    monkeypatch.setattr(AsyncAdmin, "create_topics", refuse_once)
    result = run_plan(quick(8, 3, loads=("numbers", "churn"), kinds=()))
    check(result)
    made = [event.kind for event in result.history.events if event.action == "create-topic" and event.kind != "invoke"]
    assert made[:2] == ["info", "ok"]


def test_all_workloads_together_keep_their_promises():
    check(run_plan(quick(7, 3, loads=ALL_LOADS, kinds=("kill",))))


def test_the_same_seed_gives_the_same_history_byte_for_byte():
    first, second = (run_plan(quick(5, 3, kinds=("kill", "reset"))) for _ in range(2))
    assert first.history.text() == second.history.text()
    assert (first.steps, first.digest, first.virtual_s) == (second.steps, second.digest, second.virtual_s)


def test_the_same_seed_gives_the_same_history_in_processes_with_other_hashes():
    """The order of sets of texts is another one in every process."""
    loads = ",".join(("numbers", "follow", "group-eager", "transfers"))
    command = [sys.executable, "-m", "ottla.simulation", "--seed", "3", "--brokers", "3", "--loads", loads, "--history"]
    texts = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
        )
        texts.add(done.stdout.partition("\n")[2])
    assert len(texts) == 1
    assert '"send"' in texts.pop()


def test_several_seeds_have_a_total(capsys):
    assert main(["--seeds", "14:16", "--brokers", "1"]) == 0
    assert "2 seeds" in capsys.readouterr().out


def test_a_pace_stretches_all_times_alike():
    paced = next(plan for seed in range(50) if (plan := Plan.drawn(seed, 3)).pace == 10)
    plain = without_pace(paced.seed, 3)
    assert (paced.work_s, paced.session_s, paced.loads) == (plain.work_s * 10, plain.session_s * 10, plain.loads)
    assert [fault.kind for fault in paced.faults()] == [fault.kind for fault in plain.faults()]


def test_a_seed_draws_its_plan():
    assert Plan.drawn(7) == Plan.drawn(7)
    assert len({Plan.drawn(seed) for seed in range(50)}) == 50
