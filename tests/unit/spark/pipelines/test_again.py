"""Status, reset and backfill, as far as they go without Spark."""

import json
import os
from pathlib import Path

import pytest

from ottla import Producer
from ottla.cli.main import main
from ottla.cli.output import FAILED, OK
from ottla.spark.pipelines.resetting import plan_reset, reset, written_files
from ottla.spark.pipelines.running import load
from ottla.spark.pipelines.storage import ResetUnfinished, Storage

PIPELINE = """
name: clicks
sources: {clicks: {topic: clicks, format: json, schema: user STRING, watermark: {column: _timestamp, delay: 1 second}}}
steps: {users: SELECT user FROM clicks}
sinks: {out: {from: users, topic: out}, files: {from: users, files: files}}
dead_letters: dead
"""
BEGIN_MS = 1_767_225_600_000


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    return tmp_path


@pytest.fixture
def plan(project):
    return load(project / "pipeline.yml", {}).plan("nobody:1")


def checkpoint(project, flow, batch, offset):
    path = project / "storage" / "_checkpoints" / flow / flow / "0"
    position = {"version": 1, "offsets": {"clicks": {"0": offset}}, "topic_ids": {}, "tasks": 1}
    for folder, lines in (("offsets", ["v1", "{}", json.dumps(position)]), ("commits", ["v1", "{}"])):
        (path / folder).mkdir(parents=True, exist_ok=True)
        (path / folder / str(batch)).write_text("\n".join(lines))


def sink_log(project, names):
    directory = project / "files"
    (directory / "_spark_metadata").mkdir(parents=True)
    lines = ["v1"]
    for name in names:
        (directory / name).write_text("rows")
        (directory / f".{name}.crc").write_text("crc")
        lines.append(json.dumps({"path": (directory / name).as_uri(), "action": "add"}))
    (directory / "_spark_metadata" / "0").write_text("\n".join(lines))
    return directory


# --- reset ------------------------------------------------------------------------------------------------------------


def test_a_reset_removes_progress_spark_s_list_and_its_files_and_nothing_else(project, plan):
    for flow in ("out", "files", "clicks__dead"):
        checkpoint(project, flow, 3, 40)
    directory = sink_log(project, ["part 1.parquet", "part-2.parquet"])
    (directory / "ours.parquet").write_text("somebody else's")
    changes = {change.flow: change for change in plan_reset(plan, [])}
    assert {name: change.batches for name, change in changes.items()} == {"out": 4, "files": 4, "clicks__dead": 4}
    assert "2 files in" in changes["files"].sink
    reset(changes.values())
    assert [path.name for path in directory.iterdir()] == ["ours.parquet"]
    assert Storage(plan.storage).progress_of("out") is None
    assert not any((project / "storage" / "_checkpoints").iterdir())


def test_one_flow_alone_is_reset(project, plan):
    checkpoint(project, "out", 3, 40)
    checkpoint(project, "files", 3, 40)
    reset(plan_reset(plan, ["files"]))
    assert Storage(plan.storage).progress_of("out").batch == 3
    assert Storage(plan.storage).progress_of("files") is None


def test_the_list_may_be_compacted_and_name_what_is_gone(project):
    directory = sink_log(project, ["part-1.parquet"])
    log = directory / "_spark_metadata"
    (log / "9.compact").write_text("\n".join(["v1", (log / "0").read_text().splitlines()[1]]))
    gone = json.dumps({"path": (directory / "gone.parquet").as_uri(), "action": "add"})
    outside = json.dumps({"path": Path("/etc/passwd").as_uri(), "action": "add"})
    (log / "10").write_text("\n".join(["v1", gone, outside]))
    assert [path.name for path in written_files(directory)] == ["part-1.parquet"]


def test_a_run_is_refused_until_a_reset_that_was_cut_short_is_done(project, plan):
    storage = Storage(plan.storage)
    with pytest.raises(KeyboardInterrupt), storage.being_reset():
        raise KeyboardInterrupt
    with pytest.raises(ResetUnfinished), storage.locked():
        pass
    with storage.being_reset():
        pass
    with storage.locked():
        pass


def test_the_command_shows_first_and_needs_a_yes(project, capsys):
    checkpoint(project, "out", 3, 40)
    assert main(["pipeline", "reset", "--dry-run"]) == OK
    assert "records in out stay" in capsys.readouterr().out
    assert main(["pipeline", "reset"]) == FAILED
    assert "add --yes" in capsys.readouterr().err
    assert main(["pipeline", "reset", "--flow", "fils", "--yes"]) == FAILED
    assert "did you mean 'files'?" in capsys.readouterr().err
    assert (project / "storage" / "_checkpoints" / "out").exists()
    assert main(["pipeline", "reset", "--yes"]) == OK
    assert not (project / "storage" / "_checkpoints" / "out").exists()


# --- status and backfill, with a broker -------------------------------------------------------------------------------


@pytest.fixture
def clicks(project, kafka_broker, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", kafka_broker.bootstrap_servers)
    with Producer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send("clicks", value=b"{}", partition=0, timestamp_ms=BEGIN_MS + number * 1000)
    return project


def test_status_knows_the_lag_of_a_pipeline_that_does_not_run(clicks, capsys):
    checkpoint(clicks, "out", 3, 4)
    assert main(["pipeline", "status", "--json"]) == OK
    (value,) = json.loads(capsys.readouterr().out)
    lags = {flow["flow"]: flow["lag_records"] for flow in value["flows"]}
    assert lags == {"out": 6, "files": 10, "clicks__dead": 10}
    (out,) = (flow for flow in value["flows"] if flow["flow"] == "out")
    assert out["lag_seconds"] > 0
    assert (value["state"], out["state"]) == ("never ran", "never ran")
    assert main(["pipeline", "status"]) == OK
    assert "clicks never ran in this storage" in capsys.readouterr().out


def test_status_tells_a_killed_run_from_one_that_is_at_work(clicks, plan, capsys):
    from ottla.spark.pipelines.statuses import Reporter

    loaded = load(clicks / "pipeline.yml", {})
    watch = loaded.watch(plan)
    watch.note_error("out", "no such topic")
    reporter = Reporter("clicks", watch, pid=os.getpid(), host="here", begun_ms=0)
    storage = Storage(plan.storage)
    storage.write_status(reporter.status(1000, "running"))
    with storage.locked():
        assert main(["pipeline", "status", "--no-lag"]) == OK
        running = capsys.readouterr().out
    assert f"clicks: running, process {os.getpid()}" in running
    assert "no such topic" in running
    assert main(["pipeline", "status", "--no-lag"]) == OK
    assert "clicks: killed at" in capsys.readouterr().out


def test_status_without_a_broker_says_so_and_shows_the_rest(project, capsys):
    assert main(["pipeline", "status", "-b", "127.0.0.1:1"]) == OK
    told = capsys.readouterr()
    assert "the lag is not known" in told.err
    assert "clicks__dead" in told.out


def test_a_backfill_shows_offsets_of_the_period_and_what_was_read_before(clicks, capsys):
    checkpoint(clicks, "out", 3, 4)
    period = ["--from", "2026-01-01T00:00:02Z", "--to", "2026-01-01T00:00:08Z"]
    assert main(["pipeline", "backfill", *period, "--dry-run"]) == OK
    out = capsys.readouterr().out
    assert out.splitlines()[1].split() == ["clicks", "clicks", "0", "2", "8"]
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[4:]}
    assert rows["out"] == ["out", "6", "2", "no"]
    assert rows["files"][0].endswith("/files-20260101T000002-20260101T000008")
    assert rows["files"][1:] == ["6", "-", "no"]
    assert main(["pipeline", "backfill", *period, "--yes"]) == FAILED
    assert "would be there twice" in capsys.readouterr().err


def test_a_backfill_of_nothing_is_refused(clicks, capsys):
    assert main(["pipeline", "backfill", "--from", "2025-01-01", "--to", "2025-01-02"]) == FAILED
    assert "no topic has a record of that time" in capsys.readouterr().err
    assert main(["pipeline", "backfill", "--from", "2026-01-02", "--to", "2026-01-01"]) == FAILED
    assert "--from must be before --to" in capsys.readouterr().err


def test_the_offsets_of_a_backfill_that_was_begun_stay(clicks, kafka_broker, plan):
    from ottla.spark.pipelines.backfilling import _file, _note, plan_backfill

    loaded = load(clicks / "pipeline.yml", {})
    servers = kafka_broker.bootstrap_servers
    period_ms = (BEGIN_MS, BEGIN_MS + 60_000)

    def planned():
        return plan_backfill(loaded.plan(servers), loaded.graph, clicks, servers, period_ms, [])

    first = planned()
    _note(_file(plan, first.name), first.spans, ["files"])
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("clicks", value=b"{}", partition=0, timestamp_ms=BEGIN_MS + 20_000)
    assert planned().spans == first.spans
    assert planned().done == ("files",)
    reads = [view.beginning.options for view in first.plan.views if view.name == "clicks__checked"]
    assert json.loads(reads[0]["endingOffsets"]) == {"clicks": {"0": 10}}
    assert not any("WATERMARK" in str(view) for view in first.plan.views), "a batch has none"
