"""Campaigns: many seeds on several processes, one report, and what happens when they are stopped."""

from __future__ import annotations

import io
import json

import pytest

from ottla.cli.main import main
from ottla.simulation import campaign as module
from ottla.simulation.campaign import Campaign, run_campaign
from ottla.simulation.tally import FAILURES_LIMIT, Ranges, Tally, read_tally
from ottla.simulation.workers import Workers, broken

ASKED = {"seeds": "1-9", "is_short": True}


def outcome(seed, anomalies=(), brokers=1):
    return {
        **broken(seed, "", ""),
        "brokers": brokers,
        "loads": ["numbers"],
        "kinds": {"kill": 2},
        "virtual_s": 5.0,
        "cpu_s": 0.5,
        "anomalies": [list(each) for each in anomalies],
    }


class Interrupted:
    """Workers that are stopped by Ctrl-C after two outcomes."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, seeds, asked):
        yield outcome(next(seeds))
        yield outcome(next(seeds), [("lost-write", "17 is gone")])
        raise KeyboardInterrupt


def test_ranges_grow_together_whatever_the_order():
    ranges = Ranges()
    for number in (5, 1, 3, 2, 9, 4, 4):
        ranges.add(number)
    assert ranges.pairs() == [(1, 5), (9, 9)]
    assert 3 in ranges
    assert 7 not in ranges


def test_a_tally_is_read_back_and_counts_on(tmp_path):
    tally = Tally(ASKED)
    tally.add(outcome(1))
    tally.add(outcome(2, [("lost-write", "17 is gone")], brokers=3))
    tally.save(tmp_path / "report.json")
    again = read_tally(tmp_path / "report.json", ASKED)
    assert again.plain() == tally.plain()
    again.add(outcome(3))
    assert (again.runs, again.failed, again.done.pairs()) == (3, 1, [(1, 3)])
    assert "3 seeds, 15 s of virtual time in 1.5 s of CPU (10 times real time)" in "\n".join(again.lines())
    assert "1 with anomalies (lost-write): 2" in "\n".join(again.lines())


def test_the_digest_of_a_tally_does_not_depend_on_the_order():
    one, other = Tally({}), Tally({})
    for seed in (1, 2):
        one.add(outcome(seed))
        other.add(outcome(3 - seed))
    assert one.digest == other.digest != 0


def test_a_tally_stays_small():
    tally = Tally({})
    for seed in range(FAILURES_LIMIT + 5):
        tally.add(outcome(seed, [("unseen", "")]))
    assert (tally.failed, len(tally.failures)) == (FAILURES_LIMIT + 5, FAILURES_LIMIT)
    assert len(tally.plain()["done"]) == 1


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"asked": {"seeds": "1-3"}}'])
def test_a_file_that_is_no_report_of_this_campaign_is_refused(tmp_path, text):
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(SystemExit, match="is no report"):
        read_tally(path, ASKED)
    Tally({"seeds": "1-3"}).save(path)
    with pytest.raises(SystemExit, match="another campaign"):
        read_tally(path, ASKED)


def test_seeds_run_on_several_processes_and_what_is_done_is_not_done_again(tmp_path, capsys, monkeypatch):
    report = tmp_path / "report.json"
    command = ["simulate", "--short", "--brokers", "1", "--jobs", "2", "--report", str(report)]
    assert main([*command, "--seeds", "1-3"]) == 0
    assert "3 seeds, " in capsys.readouterr().out
    values = json.loads(report.read_text())
    assert values["done"] == [[1, 3]]
    assert values["brokers"]["1"]["runs"] == 3
    assert values["sums"]["acknowledged"] > 0
    monkeypatch.setattr(module, "Workers", Interrupted)  # which would fail: there is no seed left
    monkeypatch.setattr(Interrupted, "run", lambda self, seeds, asked: [outcome(seed) for seed in seeds])
    assert main([*command, "--seeds", "1-3"]) == 0
    assert json.loads(report.read_text())["runs"] == 3


def test_a_process_that_dies_is_an_anomaly_of_its_seed_and_is_replaced():
    with Workers(1) as workers:
        found = list(workers.run(iter([1, 2]), {"is_short": True, "brokers": "few"}))  # which is no number: it raises
    assert [(each["seed"], each["anomalies"][0][0]) for each in found] == [(1, "died"), (2, "died")]
    assert found[0]["repeat"] == "ottla simulate --short --seed 1 --brokers few"


def test_ctrl_c_leaves_a_report(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "Workers", Interrupted)
    output, report = io.StringIO(), tmp_path / "report.json"
    assert run_campaign(range(1, 10), ASKED, jobs=2, report=report, total=9, output=output) == 130
    assert json.loads(report.read_text())["done"] == [[1, 2]]
    assert "seed 2, 1 broker(s), numbers:\n  lost-write: 17 is gone\n  repeat with: " in output.getvalue()
    assert "2 seeds, " in output.getvalue()


def test_progress_says_how_much_is_left():
    campaign = Campaign(ASKED, jobs=1, report=None, total=9, output=io.StringIO())
    for seed in (1, 2, 3):
        campaign.tally.add(outcome(seed))
    campaign.tally.elapsed_s = 30.0
    assert campaign.progress() == "3 of 9 seeds, 0.1/s, 0 with anomalies, 0:01:00 left"


@pytest.mark.parametrize("options", [["--jobs", "2", "--story"], ["--report", "x", "--json"], ["--jobs", "0"]])
def test_options_that_do_not_go_together_are_refused(options):
    with pytest.raises(SystemExit, match="--jobs"):
        main(["simulate", "--seeds", "1-2", *options])
