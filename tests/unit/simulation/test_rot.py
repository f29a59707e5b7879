"""Bits that rot after they were synced: drawn apart, confined to one copy, and judged by what is promised then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.broker.replication.corruption import Corruption
from ottla.simulation.checker import check
from ottla.simulation.fault import BIT_ROT, ROT_PARTS, Fault, read_fault
from ottla.simulation.history import History
from ottla.simulation.plan import Plan
from ottla.simulation.rot import Rot, Rots
from ottla.simulation.run import Simulation, run_plan
from ottla.testing.files import MemoryFiles


def rotting(seed, brokers):
    return Plan.short(seed, brokers).with_kinds((BIT_ROT,))


def rotted(result):
    return [moment.text for moment in result.timeline.moments if moment.kind == "rotted"]


@pytest.mark.parametrize("draw", [Plan.short, Plan.drawn])
def test_a_part_of_all_seeds_draws_it_and_all_else_stays_as_it_was(draw):
    plans = [draw(seed) for seed in range(240)]
    rots = [plan for plan in plans if BIT_ROT in plan.kinds]
    assert 10 <= len(rots) <= 30
    for plan in rots:
        others = [fault for fault in plan.faults() if fault.kind != BIT_ROT]
        assert others == replace(plan, kinds=tuple(kind for kind in plan.kinds if kind != BIT_ROT)).faults()


def test_a_rot_is_its_text_and_says_everything_that_can_be_drawn_before():
    faults = [fault for seed in range(40) for fault in rotting(seed, 3).faults() if fault.kind == BIT_ROT]
    assert {fault.named["part"] for fault in faults} == set(ROT_PARTS)
    assert {fault.named["down"] for fault in faults} == {"no", "stop", "kill"}
    assert all(read_fault(fault.line()) == fault for fault in faults)


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_run_with_rot_is_the_same_every_time(brokers):
    first, second = (run_plan(rotting(2, brokers)) for _ in range(2))
    assert (first.digest, rotted(first)) == (second.digest, rotted(second))
    assert first.anomalies == []
    assert rotted(first)


def test_rot_that_nobody_repairs_is_reported(monkeypatch):
    monkeypatch.setattr(Corruption, "_copies", lambda corruption, partition: [])
    rot = {"part": "records", "how": "byte", "bit": 0, "down": "no"}
    picks = {"topic": 0.99, "file": 0.0, "place": 0.0, "byte": 0.9}
    fault = Fault(1.8, BIT_ROT, 1, 0.0, tuple(sorted({**rot, **picks}.items())))
    plan = replace(rotting(16, 3), kinds=(BIT_ROT,), work_s=2.0)
    result = run_plan(plan, [fault])
    assert rotted(result)
    assert "not-repaired" in {anomaly.name for anomaly in result.anomalies}


def test_a_file_that_was_compacted_is_not_rotten_because_it_has_the_same_byte_there():
    """Seed 11243 of clusters under controllers."""
    files, path = MemoryFiles(), Path("/data/t-0/00000000000000000000.log")
    machine = SimpleNamespace(disk=SimpleNamespace(files=files))
    rots = Rots(SimpleNamespace(seats={0: SimpleNamespace(machine=machine)}))
    rots.all.append(Rot(0, "records", path, None, 4, b"x", b"?", 0, 1, (b"abcd", b"ef")))

    def left(content):
        file = files.open(path, create=True)
        file.truncate(0)
        file.write_at(0, [content])
        file.close()
        return len(rots.left("records"))

    files.make_directory(path.parent)
    assert [left(b"abcd?ef and more"), left(b"abcdxef"), left(b"anew?one")] == [1, 0, 0]


def test_one_copy_rots_at_a_time():
    plan = replace(rotting(16, 3), kinds=(BIT_ROT,), work_s=2.0, partitions=1)
    picks = {"topic": 0.99, "file": 0.0, "place": 0.0, "byte": 0.9}
    rot = {"part": "records", "how": "byte", "bit": 0, "down": "no"}
    parameters = tuple(sorted({**rot, **picks}.items()))
    simulation = Simulation(plan, [Fault(1.8, BIT_ROT, broker, 0.0, parameters) for broker in range(3)])
    result = simulation.run()
    assert result.anomalies == []
    assert len(rotted(result)) == 1


# --- what the checker forgives where there is no other copy -----------------------------------------------------------


def history():
    made = History()
    for value, offset in ((1, 0), (2, 1), (3, 2)):
        made.invoke("producer", "send", partition="t-0", value=value).ok(offset=offset)
    made.note("reader", "assign")
    made.invoke("reader", "final-poll").ok(records=[["t-0", 0, 1]])
    made.note("reader", "pass", partition="t-0", first=1, following=2)
    made.invoke("reader", "final-poll").ok(records=[["t-0", 2, 3]])
    return made.events


def test_records_that_rotted_may_be_missing():
    assert check(history(), hits={"t-0": [(1, 2)]}) == []


@pytest.mark.parametrize("hits", [{}, {"t-0": [(2, 3)]}, {"t-1": [(1, 2)]}])
def test_records_that_did_not_may_not(hits):
    found = {anomaly.name for anomaly in check(history(), hits=hits)}
    assert found == {"lost-write", "poll-skip", "unreadable"}


def test_a_repetition_of_a_batch_that_rotted_is_acknowledged_without_an_offset():
    made = History()
    made.invoke("producer", "send", partition="t-0", value=1).ok(offset=-1)
    made.note("reader", "assign")
    made.invoke("reader", "final-poll").ok(records=[])
    assert check(made.events, hits={"t-0": [(0, 1)]}) == []
    assert {anomaly.name for anomaly in check(made.events, hits={"t-1": [(0, 1)]})} == {"unseen"}


def test_a_value_that_changed_is_never_forgiven():
    made = History()
    made.invoke("producer", "send", partition="t-0", value=1).ok(offset=0)
    made.invoke("producer", "send", partition="t-0", value=2).ok(offset=0)
    assert {anomaly.name for anomaly in check(made.events, hits={"t-0": [(0, 1)]})} == {"inconsistent-offsets"}


@pytest.mark.parametrize(
    ("seed", "brokers"),
    [
        (19, 1),
        (26, 3),
        (100010, 1),
        (100046, 1),
        (100047, 1),
        (100063, 1),
        (100089, 3),
        (100120, 1),
        (100134, 1),
        (100232, 3),
        (100246, 1),
        (100282, 1),
        (100312, 1),
        (300018, 3),
    ],
)
def test_short_seeds_with_rot_that_had_an_anomaly_have_none(seed, brokers):
    """Sound records behind a rotten length went with it, and their offsets were given out again; a follower could not
    cut its log because of a rotten index; records were written and refused because an index had rotted at its end; what
    was written down of a log that is offline alone was forgotten; a full disk ended the verification; a
    magic that rotted was taken for an old format, and the log was cut."""
    result = run_plan(rotting(seed, brokers))
    assert result.anomalies == [], result.repeat_command
