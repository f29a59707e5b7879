"""Small parts of Kafka's commands: what Java prints, how a plan is made, who is stopped; all without a cluster."""

import itertools
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from random import Random

import pytest
from tests.patience import HANG_S

from ottla.cli.kafka import reassign_plans, release_levels, server_stop
from ottla.cli.kafka.configs import _public
from ottla.cli.kafka.java_dates import java_date
from ottla.cli.kafka.java_errors import class_of, described, message_of
from ottla.cli.kafka.java_maps import hash_order, partition_hash, string_hash
from ottla.cli.kafka.java_numbers import java_double
from ottla.cli.kafka.line_reader import LineReader, UnreadableLine
from ottla.cli.kafka.tools import TOOLS, main, tool_name
from ottla.cli.main import main as ottla
from ottla.errors import GroupIdNotFound, NonEmptyGroup, TopicAlreadyExists
from ottla.values import Node, TopicPartition

ROOT = Path(__file__).parents[3]


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_command_is_known_by_any_path_and_with_sh():
    for program in ("kafka-topics", "/usr/bin/kafka-topics", "bin/kafka-topics.sh", r"C:\bin\kafka-topics.exe"):
        assert tool_name(program) == "kafka-topics"


def test_a_name_that_is_no_command_ends_with_1(capsys):
    assert main("kafka-nothing", []) == 1
    assert "kafka-nothing is none of Kafka's commands" in capsys.readouterr().err


def test_every_command_is_installed_and_documented():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {name for name in scripts if name != "ottla"} == set(TOOLS)
    assert {scripts[name] for name in TOOLS} == {"ottla.cli.kafka.tools:command"}
    page = (ROOT / "docs/kafka-commands.md").read_text()
    assert [name for name in TOOLS if f"{name}" not in page] == []


@pytest.mark.parametrize("name", TOOLS)
def test_every_command_ends_with_0_or_1_whatever_it_is_asked(name, capsys):
    assert main(name, ["--no-such-option"]) == 1
    said = capsys.readouterr()
    assert said.out + said.err


def test_the_installer_writes_programs_that_run(tmp_path, capsys):
    assert ottla(["install-commands", "--sh", "--dir", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.sh" for name in TOOLS}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [tmp_path / "kafka-topics.sh", "--version"], capture_output=True, text=True, timeout=HANG_S, env=environment
    )
    assert (ended.returncode, ended.stdout) == (0, "4.3.1\n")
    (tmp_path / "kafka-topics.sh").write_text("somebody's own\n")
    capsys.readouterr()
    assert ottla(["install-commands", "--sh", "--dir", str(tmp_path)]) == 1
    assert "kafka-topics.sh of somebody else" in capsys.readouterr().err
    assert ottla(["install-commands", "--sh", "--dir", str(tmp_path), "--force"]) == 0


# --- as Java prints --------------------------------------------------------------------------------------------------


def test_hashes_are_javas():
    assert string_hash("retention.ms") == 1652989563 or string_hash("a") == 97
    assert string_hash("") == 0
    assert string_hash("Aa") == string_hash("BB") == 2112
    assert partition_hash(TopicPartition("a", 0)) == 31 * 31 + 97


def test_a_map_gives_keys_by_bucket_and_within_one_as_they_came():
    assert hash_order(["b", "a", "c"]) == ["a", "b", "c"]
    assert hash_order(["BB", "Aa"]) == ["BB", "Aa"]
    assert hash_order(["Aa", "BB"]) == ["Aa", "BB"]
    assert hash_order(["q", "a"], capacity=1) == hash_order(["q", "a"], capacity=2)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (200.0, "200.0"),
        (0.5, "0.5"),
        (1e7, "1.0E7"),
        (10485760.0, "1.048576E7"),
        (9999999.0, "9999999.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.00012, "1.2E-4"),
        (0.0, "0.0"),
        (-3.25, "-3.25"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_are_written_as_java_writes_them(number, text):
    assert java_double(number) == text


def test_dates_have_javas_letters():
    at = 1_700_000_000_123
    assert re.fullmatch(r"2023-11-1\d \d\d:\d\d:20:123", java_date("yyyy-MM-dd HH:mm:ss:SSS", at))
    assert re.fullmatch(r"2023-11-1\dT\d\d:\d\d", java_date("yyyy-MM-dd'T'HH:mm", at))
    with pytest.raises(ValueError, match="Illegal pattern character 'b'"):
        java_date("b", at)


def test_errors_have_the_brokers_words_or_the_default_sentence():
    assert message_of(TopicAlreadyExists("Topic 'a' already exists."), "a") == "Topic 'a' already exists."
    assert message_of(NonEmptyGroup("g"), "g") == "The group is not empty."
    assert class_of(NonEmptyGroup()) == "org.apache.kafka.common.errors.GroupNotEmptyException"
    found = described(GroupIdNotFound("Group g not found."), "g")
    assert found == "org.apache.kafka.common.errors.GroupIdNotFoundException: Group g not found."


def test_a_password_of_the_command_line_is_not_repeated():
    words = ["--add-config", "SCRAM-SHA-512=[iterations=8192,password=hunter2]", "--user", "a"]
    assert "hunter2" not in " ".join(_public(words))
    assert "iterations=8192" in _public(words)[1]


# --- lines of the console producer -----------------------------------------------------------------------------------


def test_a_line_has_headers_key_and_value():
    reader = LineReader({"parse.key": "true", "parse.headers": "TRUE", "key.separator": ":", "null.marker": "-"})
    (record,) = reader.records([b"a:1,b:-\tk:v:w"])
    assert record == (b"k", b"v:w", [("a", b"1"), ("b", None)], None, None)
    (record,) = reader.records([b"-\t-:-"])
    assert record == (None, None, [], None, None)


def test_a_line_without_a_key_is_refused_or_taken_for_a_value():
    with pytest.raises(UnreadableLine, match="No key separator found on line number 2: 'no key'"):
        list(LineReader({"parse.key": "true"}).records([b"k\tv", b"no key"]))
    (record,) = LineReader({"parse.key": "true", "ignore.error": "true"}).records([b"no key"])
    assert record[:2] == (None, b"no key")


# --- reassignments, releases, processes ------------------------------------------------------------------------------


def test_a_proposal_spreads_leaders_and_copies_over_brokers_and_racks():
    nodes = [Node(number, "h", 1, f"rack-{number % 3}") for number in range(6)]
    current = {TopicPartition("t", index): [0, 1, 2] for index in range(12)}
    proposed = reassign_plans.propose(current, nodes, Random(7))
    leaders = [brokers[0] for brokers in proposed.values()]
    assert all(leaders.count(node.id) == 2 for node in nodes)
    for brokers in proposed.values():
        assert len(set(brokers)) == 3
        assert len({number % 3 for number in brokers}) == 3
    assert len({tuple(brokers) for brokers in proposed.values()}) == 12


def test_a_proposal_needs_enough_brokers():
    with pytest.raises(ValueError, match="replication factor of 3 cannot be reached because only 1 broker"):
        reassign_plans.propose({TopicPartition("t", 0): [1, 2, 3]}, [Node(1, "h", 1)], Random(1))


@pytest.mark.parametrize(
    ("partitions", "sentence"),
    [
        ([], "Partition reassignment list cannot be empty"),
        ([("t", 0, [])], "Partition replica list cannot be empty"),
        ([("t", 0, [1]), ("t", 0, [2])], "Partition reassignment contains duplicate topic partitions: t-0"),
        ([("t", 0, [1, 1])], "may not contain duplicate entries: t-0 contains multiple entries for 1"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(partitions, sentence):
    entries = [{"topic": topic, "partition": index, "replicas": brokers} for topic, index, brokers in partitions]
    plan = reassign_plans.parse_plan({"version": 1, "partitions": entries})
    with pytest.raises(ValueError, match=re.escape(sentence)):
        reassign_plans.check_plan(plan)


def test_releases_have_levels():
    assert release_levels.release_of_level(30) == "4.3-IV0"
    assert release_levels.level_of_release("4.1") == 27
    assert release_levels.levels_of_release("4.0.1")["transaction.version"] == 2
    assert release_levels.levels_of_release("3.9")["group.version"] == 0
    with pytest.raises(ValueError, match=r"Unknown metadata\.version '9\.9'"):
        release_levels.level_of_release("9.9")


def test_only_brokers_are_stopped_and_none_is_said(monkeypatch, capsys):
    killed = []
    monkeypatch.setattr(server_stop.os, "kill", lambda *words: killed.append(words))
    lines = [
        "python -m ottla broker start --set broker.id=2",
        "vim kafka-server-start.sh",
        "bin/kafka-server-start s.properties",
    ]
    processes = list(zip(itertools.count(10), lines))
    assert server_stop.stop(server_stop.BROKER, "No kafka server to stop", processes, {}) == 0
    assert killed == [(10, signal.SIGTERM), (12, signal.SIGTERM)]
    killed.clear()
    assert server_stop.stop(server_stop.BROKER, "none", processes, {"SIGNAL": "INT"}, "2") == 0
    assert killed == [(10, signal.SIGINT)]
    assert server_stop.stop(server_stop.ZOOKEEPER, "No zookeeper server to stop", processes, {}) == 1
    assert capsys.readouterr().out == "No zookeeper server to stop\n"


def test_a_file_of_moves_that_is_a_list_names_no_partitions():
    from ottla.cli.kafka.reassign_plans import check_plan, parse_plan

    with pytest.raises(ValueError, match="Partition reassignment list cannot be empty"):
        check_plan(parse_plan([]))
