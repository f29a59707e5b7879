"""`ottla pipeline`, as far as it goes without Spark."""

import json

import pytest

from ottla import Admin, NewTopic
from ottla.cli.main import main
from ottla.cli.output import FAILED, OK
from ottla.spark.pipelines.definition import SECTIONS
from ottla.spark.pipelines.running import load
from ottla.spark.pipelines.testing.yaml_tests import files_of_tests, open_test_file, read_cases
from ottla.spark.pipelines.topics import ClusterTopics, TopicMissing, prepare_topics
from ottla.spark.pipelines.words import words_of


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


def test_init_prints_the_next_commands_and_the_readme_has_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "init", "clicks"]) == OK
    out = capsys.readouterr().out
    commands = [line.partition("#")[0].strip() for line in out[out.index("next:") :].splitlines()[1:]]
    assert commands[:6] == [
        "cd clicks",
        "ottla broker start",
        "python generate.py",
        "ottla pipeline dry-run",
        "ottla pipeline test",
        "ottla pipeline run",
    ]
    readme = (tmp_path / "clicks" / "README.md").read_text()
    assert all(command in readme for command in commands[1:])
    assert "@" not in readme


def test_a_topic_that_is_not_there_comes_with_the_command_that_makes_it(project, monkeypatch, capsys, kafka_broker):
    servers = kafka_broker.bootstrap_servers
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", servers)
    assert main(["pipeline", "run"]) == FAILED
    err = capsys.readouterr().err
    assert f"clicks-events at {servers}" in err
    assert f"ottla topic create clicks-events -b {servers}" in err
    assert "--create-topics" in err


def test_topics_that_are_read_are_made_when_it_is_asked_for(kafka_broker):
    wanted = ClusterTopics(
        {"bootstrap.servers": kafka_broker.bootstrap_servers}, {"read-a"}, {"written-a": NewTopic("written-a", 3)}
    )
    with pytest.raises(TopicMissing):
        prepare_topics(wanted)
    assert prepare_topics(wanted, create_read=True) == ["read-a", "written-a"]
    assert prepare_topics(wanted) == []
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        assert len(admin.describe_topics(["written-a"])["written-a"].partitions) == 3


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


def test_the_example_s_tests_fit_it(project, capsys):
    opened = open_test_file(files_of_tests(project / "pipeline.yml")[0])
    cases = read_cases(opened, load(project / "pipeline.yml", {}).graph.pipeline)
    assert [set(case.expect) for case in cases] == [{"counts", "slow_files"}, {"named", "dead_letters"}]


PARAMETERS = """
name: p
parameters: {topic: clicks}
environments: {prod: {topic: clicks-prod}}
sources: {clicks: {topic: "${topic}"}}
sinks: {out: {from: clicks, topic: "${topic}-copy", value: value}}
"""


@pytest.mark.parametrize(
    ("words", "topic"),
    [([], "clicks"), (["--environment", "prod"], "clicks-prod"), (["--param", "topic=mine"], "mine")],
)
def test_parameters_come_from_the_command(words, topic, tmp_path, capsys):
    file = tmp_path / "pipeline.yml"
    file.write_text(PARAMETERS)
    assert main(["pipeline", "dry-run", str(file), "--no-spark", *words]) == OK
    assert f"topic {topic}-copy, exactly once" in capsys.readouterr().out
    assert main(["pipeline", "systemd", str(file), *words]) == OK
    assert " ".join(words) in capsys.readouterr().out, "a service gets the same"


def test_a_parameter_that_is_not_there_is_told(tmp_path, capsys):
    file = tmp_path / "pipeline.yml"
    file.write_text(PARAMETERS)
    assert main(["pipeline", "dry-run", str(file), "--no-spark", "--param", "topik=x"]) == FAILED
    assert "pipeline.yml:3: parameters: there is no parameter 'topik'; did you mean 'topic'?" in capsys.readouterr().err
