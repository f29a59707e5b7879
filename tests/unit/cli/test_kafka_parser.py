"""The command line of Kafka's tools: read as joptsimple reads it, with its sentences about mistakes."""

import pytest

from ottla.cli.kafka.ends import ToolEnded, WrongUsage
from ottla.cli.kafka.parser import Parser, flag, number, parse, perhaps, value
from ottla.cli.kafka.tools import main

OPTIONS = (
    flag("list", "l"),
    value("topic", "t"),
    number("partitions", "p", default=3),
    perhaps("state", "s", needs=("list",)),
    value("delete-config", "d", separator=","),
)


def parsed(*words):
    return Parser("kafka-x", "Helps.", OPTIONS).parse(words)


def test_options_may_come_in_any_order_and_form():
    for words in (
        ("--topic", "a", "--list"),
        ("--list", "--topic=a"),
        ("-list", "-topic", "a"),
        ("rest", "--topic", "a"),
    ):
        assert parsed(*words).value("topic") == "a"
    assert parsed("--topic", "--list").value("topic") == "--list"
    assert not parsed("--topic", "--list").has("list")
    assert parsed("--list=yes").has("list")
    assert parsed("--", "--list").rest == ["--list"]


def test_values_are_numbers_lists_defaults_and_may_be_left_out():
    assert parsed("--partitions", "-4").number("partitions") == -4
    assert parsed().number("partitions") == 3
    assert parsed("--delete-config", "a,b", "--delete-config", "c").values("delete-config") == ["a", "b", "c"]
    assert parsed("--list", "--state").value("state") is None
    assert parsed("--list", "--state", "empty").value("state") == "empty"
    assert parsed("--list", "--state", "--topic", "t").value("state") is None
    assert parsed("--topic=", "x").value("topic") == "x"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--zookeeper", "x"], "zookeeper is not a recognized option"),
        (["--top", "x"], "top is not a recognized option"),
        (["-zk"], "z is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
        (["--state"], "Option(s) [state] are unavailable given other options on the command line"),
    ],
)
def test_mistakes_have_the_sentences_of_apaches_tools(words, sentence, capsys):
    with pytest.raises(ToolEnded) as ended:
        parse("kafka-x", "Helps.", OPTIONS, words)
    assert ended.value.code == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == sentence
    assert said[1].startswith("Option ")


def test_a_value_that_is_no_number_is_told_to_who_wants_a_number():
    found = parsed("--partitions", "many")
    assert found.text("partitions") == "many"
    with pytest.raises(WrongUsage, match="Cannot parse argument 'many' of option partitions"):
        found.number("partitions")


def test_an_option_that_is_there_twice_cannot_be_one_value():
    with pytest.raises(WrongUsage, match="Found multiple arguments for option topic, but you asked for only one"):
        parsed("--topic", "a", "--topic", "b").value("topic")


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_no_words_and_help_print_the_usage_and_end_with_1(words, capsys):
    with pytest.raises(ToolEnded) as ended:
        parse("kafka-x", "Helps.", OPTIONS, words)
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("Helps.\nOption ")


def test_the_version_is_kafkas(capsys):
    with pytest.raises(ToolEnded) as ended:
        parse("kafka-x", "Helps.", OPTIONS, ["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, "4.3.1\n")


def test_what_must_and_must_not_be_together(capsys):
    for call, sentence in (
        (lambda: parsed().require("topic"), 'Missing required argument "[topic]"'),
        (
            lambda: parsed("--list", "--topic", "t").exclude("list", ["topic"]),
            'Option "[list]" can\'t be used with option "[topic]"',
        ),
        (
            lambda: parsed().one_of("list", "topic"),
            "Exactly one of the following arguments is required: [list], [topic]",
        ),
    ):
        with pytest.raises(ToolEnded):
            call()
        assert capsys.readouterr().err.startswith(sentence + "\n")
    assert parsed("--list").one_of("list", "topic") == "list"


def test_an_option_that_is_nearly_one_is_named_behind_the_usage(capsys):
    with pytest.raises(ToolEnded):
        parse("kafka-x", "Helps.", OPTIONS, ["--partitons", "3"])
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[0] == "partitons is not a recognized option"
    assert lines[-1] == "partitons is not a recognized option; did you mean --partitions?"


@pytest.mark.parametrize(
    ("line", "last"),
    [
        ("kafka-topics --zookeeper localhost:2181 --list", "use --bootstrap-server HOST:PORT"),
        ("kafka-console-producer --broker-list localhost:9092 --topic clicks", "use --bootstrap-server HOST:PORT"),
        ("kafka-console-consumer --bootstrap-server a:1 --whitelist clicks", "use --include"),
        ("kafka-consumer-groups --bootstrap-server a:1 --list --new-consumer", "there is no other; leave it out"),
    ],
)
def test_an_option_of_old_notes_ends_with_what_to_write_today(line, last, capsys):
    """First comes the sentence of Apache's tools, which scripts look for; behind the usage what to do."""
    tool, *words = line.split()
    assert main(tool, words) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].endswith(" is not a recognized option")
    assert " is not a recognized option any more: " in said[-1]
    assert said[-1].endswith(last)
