"""`ottla simulate`: runs, tells, draws, shrinks, and says how to do it again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ottla.cli.main import main
from ottla.simulation.checker import Anomaly
from ottla.simulation.command import seeds_of
from ottla.simulation.fault import Fault
from ottla.simulation.page import page
from ottla.simulation.plan import Plan
from ottla.simulation.plan_text import plan_text, read_plan
from ottla.simulation.run import Result, run_plan
from ottla.simulation.shrink import shrink
from ottla.simulation.story import story

SMALL = {"work_s": 3.0, "loads": ("numbers", "follow", "transfers"), "client_kinds": (), "kinds": ("kill",)}


@pytest.fixture(scope="module")
def small():
    """A run of one broker that is killed once, watched."""
    plan = replace(Plan.drawn(5, 1), **SMALL, send_pause_s=0.2)
    return run_plan(plan, [Fault(1.0, "kill", 0, 0.5)], is_watched=True)


def lost(result):
    """The same run, as if its first value were lost."""
    sent = next(each.facts for each in result.history.events if each.action == "send")
    what = f"{sent['value']} was acknowledged at {sent['partition']}:0 and never read"
    return replace(result, anomalies=[Anomaly("lost-write", what)])


def test_a_run_that_is_watched_is_the_same_run(small):
    again = run_plan(small.plan, small.faults)
    assert again.history.text() == small.history.text()
    assert len(again.timeline.moments) < len(small.timeline.moments)


def test_the_story_tells_of_faults_elections_and_the_value_that_is_missing(small):
    told = "\n".join(story(lost(small)))
    assert "lost-write" in told
    assert "kill broker 0 for 0.5 s" in told
    assert "leads" in told
    assert " append " in told
    assert " send " in told
    whole = list(story(small, is_whole=True))
    assert len(whole) > told.count("\n")


def test_the_page_is_one_file_with_the_time_line_drawn(small):
    drawn = page(lost(small))
    assert drawn.count("<svg") == 1
    assert "broker 0</text>" in drawn
    assert "<rect" in drawn
    assert "http" not in drawn.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_a_plan_is_read_back_from_its_text():
    plan = Plan.drawn(7)
    assert read_plan(plan_text(plan, plan.faults())) == (plan, plan.faults())
    for text in ("{}", "[]", "3", '{"faults": []}'):
        with pytest.raises(ValueError, match="not the plan of a run"):
            read_plan(text)


def run_with_one_guilty_fault(plan, faults):
    """A run that fails when broker 1 of three is killed while transfers run."""
    is_bad = Fault(4.0, "kill", 1, 2.0) in faults and plan.brokers == 3 and "transfers" in plan.loads
    return Result(plan, [Anomaly("lost-write", "")] if is_bad else [], faults=list(faults))


def test_shrinking_leaves_the_fault_and_the_workload_that_matter():
    plan = replace(Plan.drawn(1, 3), loads=("numbers", "transfers", "churn"), work_s=40.0)
    faults = [Fault(float(number), "kill", number % 3, 2.0) for number in range(12)]
    smaller = shrink(run_with_one_guilty_fault(plan, faults), run=run_with_one_guilty_fault)
    assert smaller.result.faults == [Fault(4.0, "kill", 1, 2.0)]
    assert smaller.result.plan.loads == ("transfers",)
    assert (smaller.result.plan.brokers, smaller.result.plan.partitions) == (3, 1)
    assert smaller.result.plan.work_s < 10
    assert smaller.tries <= 60


def test_shrinking_has_a_bound_and_leaves_a_good_run_alone():
    plan = replace(Plan.drawn(1, 3), loads=("transfers",))
    bad = run_with_one_guilty_fault(plan, [Fault(4.0, "kill", 1, 2.0)])
    assert shrink(bad, tries=0, run=run_with_one_guilty_fault).result is bad
    good = run_with_one_guilty_fault(plan, [])
    assert shrink(good, run=run_with_one_guilty_fault).tries == 0


@pytest.mark.parametrize(("text", "seeds"), [("3-5", [3, 4, 5]), ("7", [7]), ("1:3", [1, 2]), ("9,2", [9, 2])], ids=str)
def test_seeds_are_ranges_or_lists(text, seeds):
    assert list(seeds_of(text)) == seeds


def test_the_command_says_what_it_found_and_how_to_repeat_it(capsys, monkeypatch, tmp_path):
    def damaged(plan, faults=None, *, is_watched=False):
        return Result(plan, [Anomaly("lost-write", "17 is gone")], faults=plan.faults())

    monkeypatch.setattr("ottla.simulation.run.run_plan", damaged)
    assert main(["simulate", "--seed", "9", "--save", str(tmp_path / "9.json")]) == 1
    printed = capsys.readouterr().out
    assert "lost-write: 17 is gone" in printed
    assert f"ottla simulate --seed 9 --brokers {Plan.drawn(9).brokers}" in printed
    assert read_plan((tmp_path / "9.json").read_text())[0] == Plan.drawn(9)
    assert main(["simulate", "--seeds", "1-9", "--first", "--json"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["anomalies"] == [["lost-write", "17 is gone"]]


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    assert "ottla simulate --seed 7 --story" in capsys.readouterr().out
