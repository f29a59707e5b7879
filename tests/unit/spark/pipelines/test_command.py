"""`ottla pipeline`, as far as it goes without Spark."""

import json

import pytest

from ottla.cli.main import main
from ottla.cli.output import FAILED, OK
from ottla.spark.pipelines.definition import SECTIONS, words_of


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "init", "clicks"]) == OK
    monkeypatch.chdir(tmp_path / "clicks")
    return tmp_path / "clicks"


def test_the_example_is_right(project, capsys):
    capsys.readouterr()
    assert main(["pipeline", "dry-run", "--no-spark"]) == OK
    out = capsys.readouterr().out
    assert "counts  → topic clicks-counts, exactly once" in out
    assert "has_user: else dead letter" in out
    assert out.endswith("clicks is right\n")


def test_the_graph_comes_as_json_too(project, capsys):
    capsys.readouterr()
    assert main(["pipeline", "dry-run", "--no-spark", "--json"]) == OK
    told = json.loads(capsys.readouterr().out)
    assert told["datasets"]["named"] == ["clicks", "pages"]
    assert [flow["flow"] for flow in told["flows"]] == ["counts", "slow_files", "clicks__dead"]


def test_faults_of_the_file_are_told_with_their_lines(project, capsys):
    text = (project / "pipeline.yml").read_text()
    (project / "pipeline.yml").write_text(text.replace("FROM named", "FROM name").replace("from: slow", "frm: slow"))
    assert main(["pipeline", "run"]) == FAILED
    err = capsys.readouterr().err
    assert "sinks.slow_files.frm: there is no such word; did you mean 'from'?" in err
    assert "pipeline.yml:" in err


def test_init_does_not_overwrite(project, monkeypatch, capsys):
    monkeypatch.chdir(project.parent)
    assert main(["pipeline", "init", "clicks"]) == FAILED
    assert "is there already; choose another directory" in capsys.readouterr().err
    assert main(["pipeline", "init", "9 lives"]) == FAILED


def test_one_place_to_run_is_enough(project, capsys):
    assert main(["pipeline", "run", "--master", "local", "--remote", "sc://x"]) == FAILED
    assert "give one of them" in capsys.readouterr().err
    assert main(["pipeline", "run", "--every", "soon"]) == FAILED
    assert "--every soon: write a length of time" in capsys.readouterr().err


def test_a_broker_that_is_not_there_is_told_before_spark_starts(project, monkeypatch, capsys):
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setattr("ottla.spark.pipelines.topics.ASK_LIMIT_S", 0.2)
    assert main(["pipeline", "run"]) == FAILED
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_every_word_has_a_sentence(capsys):
    assert main(["pipeline", "words", "--format", "json"]) == OK
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == sum(len(words_of(section)) for section in SECTIONS)
    assert all(row["meaning"] for row in rows)
    assert main(["pipeline", "words", "sorces"]) == FAILED
    assert "did you mean 'sources'?" in capsys.readouterr().err
