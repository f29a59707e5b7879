"""Whole runs: real brokers and clients under faults from a seed, and the same history every time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from ottla.simulation.__main__ import main
from ottla.simulation.faults import KINDS
from ottla.simulation.plan import Plan
from ottla.simulation.run import run_plan, run_seed
from ottla.simulation.workloads.names import LOADS
from ottla.simulation.workloads.zombies import CLIENT_KINDS
from ottla.testing.files import MemoryFile

CLIENTS = {"copy": "copier", "cut": "cutter"}  # what those of a workload are called, when not like it
QUICK = {
    "work_s": 5.0,
    "fault_pause_s": 1.5,
    "send_pause_s": 0.2,
    "loads": ("numbers", "follow", "group-eager"),
    "client_kinds": (),
}


def quick(seed, brokers, **changes):
    return replace(Plan.drawn(seed, brokers), **{**QUICK, **changes})


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


@pytest.mark.parametrize("load", LOADS[2:])
def test_every_workload_keeps_its_promises_while_brokers_and_clients_are_killed(load):
    faults = {"kinds": ("kill", "reset"), "client_kinds": CLIENT_KINDS}
    result = run_plan(quick(300 + LOADS.index(load), 3, loads=("numbers", "follow", load), work_s=10.0, **faults))
    check(result)
    assert any(
        event.kind == "ok" and event.client.startswith(CLIENTS.get(load, load)) for event in result.history.events
    )


@pytest.mark.parametrize(("seed", "brokers"), [(118, 3), (127, 3), (164, 1)])
def test_seeds_that_had_an_anomaly_have_none(seed, brokers):
    """118: retention deleted what the last read had not come to. 127: a failing disk was told with a trace. 164: sends
    that the broker had already were acknowledged without an offset."""
    check(run_seed(seed, brokers))


def test_all_workloads_together_keep_their_promises():
    check(run_plan(quick(7, 3, loads=LOADS, kinds=("kill",))))


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


def test_a_seed_draws_its_plan():
    assert Plan.drawn(7) == Plan.drawn(7)
    assert len({Plan.drawn(seed) for seed in range(50)}) == 50
