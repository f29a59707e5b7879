"""Processes of a service, with small programs in the place of pipelines; and what metrics say of them."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.patience import wait_until

from ottla.spark.pipelines.serving.children import Child, Served
from ottla.spark.pipelines.serving.figures import COUNTERS, GAUGES, PREFIX, Figures
from ottla.spark.pipelines.serving.supervision import Phase
from ottla.spark.pipelines.statuses import FlowStatus, RuleStatus, RunStatus
from ottla.spark.pipelines.storage import Storage

FLOW = FlowStatus(
    flow="out",
    state="running",
    rows_in=7,
    rows_out=5,
    late=1,
    batches=2,
    rows_per_s=3.5,
    behind=4,
    state_rows=6,
    state_bytes=600,
    last_batch_ms=1_000_500,
    error=None,
)


def status(pid, state="running", error=None, flow_state="running"):
    flows = (replace(FLOW, state=flow_state),)
    rules = (RuleStatus("clicks", "has_user", "dead_letter", 2, 7),)
    return RunStatus("clicks", state, pid, "here", 1_000_000, 1_001_000, error, flows, rules)


def program(code):
    def start(words):
        return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True)

    return start


@pytest.fixture
def storage(tmp_path):
    return Storage(str(tmp_path / "storage"))


def child_of(storage, code):
    return Child(Served("clicks", storage, ["clicks.yml"]), 0.0, program(code))


def turned_until(child, now_s, is_so):
    """Turn it, at this time, until the condition holds; returns what it said."""
    lines = []
    wait_until(lambda: lines.extend(child.turn(now_s)) or is_so())
    return lines


def test_a_process_that_fails_is_started_again_after_a_while(storage):
    child = child_of(storage, "raise SystemExit(1)")
    lines = turned_until(child, 0.0, lambda: child.supervision.restarts == 1)
    assert lines[-1] == "clicks: ended with code 1; it is started again in 1 s"
    assert child.turn(0.5) == []
    assert child.trouble() == "waiting"
    assert "started" in child.turn(1.0)[0]
    turned_until(child, 1.0, lambda: child.supervision.restarts == 2)


def test_a_stop_ends_it_by_sigterm(storage):
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print(flush=True); signal.pause()"
    child = child_of(storage, code)
    child.turn(0.0)
    child.supervision.stop()
    lines = turned_until(child, 1.0, lambda: child.supervision.is_over)
    assert lines == ["clicks: stopping", "clicks: stopped"]


def test_one_that_does_not_hear_is_killed(storage):
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); open({!r}, 'w').close(); time.sleep(600)"
    ready = storage.directory.parent / "ready"
    child = child_of(storage, code.format(str(ready)))
    turned_until(child, 0.0, ready.exists)
    child.supervision.stop()
    assert child.turn(1.0) == ["clicks: stopping"]
    lines = turned_until(child, 100.0, lambda: child.supervision.is_over)
    assert lines[0].startswith("clicks: killed")
    assert child.last_code == -signal.SIGKILL


def test_its_input_ends_with_the_service(storage):
    child = child_of(storage, "import sys; sys.stdin.read(); raise SystemExit(7)")
    child.turn(0.0)
    child._process.stdin.close()  # as the system does it for a service that dies
    turned_until(child, 0.0, lambda: child.last_code == 7)


def test_it_is_in_trouble_until_its_own_process_says_that_all_flows_run(storage):
    child = child_of(storage, "import sys; sys.stdin.read()")
    assert child.trouble() == "waiting"
    child.turn(0.0)
    storage.write_status(status(pid=1))
    assert child.trouble() == "starting", "that was the process before"
    storage.write_status(status(child._process.pid, flow_state="waiting"))
    assert child.trouble() == "starting"
    storage.write_status(status(child._process.pid))
    assert child.trouble() is None
    storage.write_status(status(child._process.pid, "failed", "no such topic"))
    assert child.trouble() == "failed"
    child._process.stdin.close()
    turned_until(child, 0.0, lambda: child.supervision.phase is Phase.WAITING)
    assert child.trouble() == "waiting: no such topic"


def test_metrics_have_every_figure_that_is_declared(storage):
    child = child_of(storage, "import sys; sys.stdin.read()")
    child.turn(0.0)
    storage.write_status(status(child._process.pid))
    text = "".join(Figures().pieces([child], 0.0))
    assert [name for name in (*GAUGES, *COUNTERS) if f"{PREFIX}{name}{{" not in text] == []
    assert 'ottla_pipeline_up{pipeline="clicks"} 1' in text
    assert 'ottla_pipeline_flow_behind_records{pipeline="clicks",flow="out"} 4' in text
    assert 'ottla_pipeline_flow_last_batch_timestamp_seconds{pipeline="clicks",flow="out"} 1000.5' in text
    broken = 'ottla_pipeline_rule_broken_rows_total{pipeline="clicks",dataset="clicks",rule="has_user"'
    assert f'{broken},action="dead_letter"}} 2' in text
    child._process.stdin.close()
    child._process.wait()


def test_a_status_comes_back_as_it_was_written(storage):
    assert storage.last_status() is None
    storage.write_status(status(os.getpid()))
    assert storage.last_status() == status(os.getpid())
    (storage.directory / "_ottla" / "status.json").write_text(json.dumps({"version": 99}))
    assert storage.last_status() is None


def test_the_page_has_the_metrics_as_they_are_declared():
    page = (Path(__file__).parents[5] / "docs" / "pipelines-in-production.md").read_text()
    rows = [
        f"| `{PREFIX}{name}` | {', '.join(tags)} | {text} |" for name, (tags, text) in {**GAUGES, **COUNTERS}.items()
    ]
    assert [row for row in rows if row not in page] == []
