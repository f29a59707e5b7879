"""A YAML file becomes a pipeline, or a list of everything that is wrong with it."""

import pytest

from ottla.spark.pipelines.definition import Expectation, Watermark
from ottla.spark.pipelines.faults import PipelineWrong
from ottla.spark.pipelines.parameters import Chosen, ParameterMissing, ParameterUnknown, answering, parameter
from ottla.spark.pipelines.yaml_file import read_yaml

NOTHING = Chosen()
GOOD = """\
name: clicks
kafka: {security.protocol: PLAINTEXT}
sources:
  clicks:
    topic: clicks
    format: json
    schema: user STRING, at TIMESTAMP
    watermark: {column: at, delay: 10 seconds}
    expect:
      has_user: user IS NOT NULL
      is_new: {condition: at > '2026-01-01', action: drop}
steps:
  valid: SELECT * FROM clicks
sinks:
  out: {from: valid, topic: valid, partitions: 3, partition_by: [a, b]}
dead_letters: clicks-dead
"""


def read(text, chosen=NOTHING, **environment):
    return read_yaml(text, file_name="p.yml", environment=environment, chosen=chosen)


def faults(text, chosen=NOTHING, **environment):
    with pytest.raises(PipelineWrong) as wrong:
        read(text, chosen, **environment)
    return wrong.value.faults


def test_all_kinds_of_words_are_read():
    pipeline = read(GOOD).pipeline
    clicks = pipeline.sources["clicks"]
    assert clicks.watermark == Watermark(column="at", delay="10 seconds")
    assert clicks.expect["has_user"] == Expectation(condition="user IS NOT NULL")
    assert clicks.expect["is_new"].action == "drop"
    assert pipeline.steps["valid"].sql == "SELECT * FROM clicks"
    assert pipeline.sinks["out"].from_ == "valid"
    assert pipeline.sinks["out"].partitions == 3
    assert pipeline.sinks["out"].partition_by == ("a", "b")
    assert pipeline.dead_letters is not None
    assert pipeline.dead_letters.topic == "clicks-dead"
    assert pipeline.kafka == {"security.protocol": "PLAINTEXT"}


def test_words_know_their_line():
    lines = read(GOOD).lines
    assert lines["sources", "clicks", "expect", "has_user"] == 10
    assert lines["sinks", "out"] == 15


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("format: json", "fromat: json"),
         "p.yml:6: sources.clicks.fromat: there is no such word; did you mean 'format'?"),
        (("delay: 10 seconds", "dealy: 10"), "p.yml:8: sources.clicks.watermark: 'delay' is missing"),
        (("action: drop", "action: drap"),
         "p.yml:11: sources.clicks.expect.is_new.action: 'drap' is not one of dead_letter, drop, fail"),
        (("partitions: 3", "partitions: three"), "p.yml:15: sinks.out.partitions: 'three' is no whole number"),
        (("name: clicks\n", ""), "'name' is missing"),
        (("topic: clicks\n", "topic: [a, b]\n"), "p.yml:5: sources.clicks.topic: here belongs a single value"),
        (("steps:\n", "steps: 7\nspark:\n"), "steps: here belongs a mapping of names to values"),
        (("dead_letters: clicks-dead", "dead_letters: ${NAME}"),
         "there is no parameter NAME, and the environment has none; set it, or write ${NAME:-a value}"),
        (("sinks:", "sinks: ["), "this is no YAML"),
        (("name: clicks", "name: clicks\nname: other"), "p.yml:2: name: it stands here twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line_and_the_nearest_word(change, sentence):
    assert any(sentence in told for told in faults(GOOD.replace(*change)))


def test_all_faults_are_told_at_once():
    assert len(faults(GOOD.replace("topic: clicks", "tpic: clicks").replace("from: valid", "form: valid"))) == 3


def test_variables_of_the_environment_are_put_in():
    text = GOOD.replace("dead_letters: clicks-dead", "dead_letters: ${PREFIX}-dead-${MORE:-x}")
    letters = read(text, PREFIX="a").pipeline.dead_letters
    assert letters is not None
    assert letters.topic == "a-dead-x"


def test_an_empty_file_and_tags_that_make_objects_are_refused():
    assert faults("") == ["p.yml: the file is empty"]
    assert faults("!!python/object/apply:os.system ['true']")


PARAMETERS = """\
name: clicks
parameters:
  topic: ${TOPIC:-clicks}
  limit: 10
  needed:
environments:
  prod: {topic: clicks-prod, needed: here}
sources: {clicks: {topic: "${topic}"}}
steps: {few: "SELECT * FROM clicks LIMIT ${limit}"}
sinks: {out: {from: few, topic: "${topic}-${needed}"}}
"""


@pytest.mark.parametrize(
    ("chosen", "topics"),
    [
        (Chosen({"needed": "x"}), ("clicks", "clicks-x")),
        (Chosen({}, "prod"), ("clicks-prod", "clicks-prod-here")),
        (Chosen({"topic": "mine"}, "prod"), ("mine", "mine-here")),
    ],
)
def test_the_commands_parameters_are_nearer_than_the_environments_and_these_than_the_defaults(chosen, topics):
    pipeline = read(PARAMETERS, chosen).pipeline
    assert (pipeline.sources["clicks"].topic, pipeline.sinks["out"].topic) == topics
    assert pipeline.steps["few"].sql == "SELECT * FROM clicks LIMIT 10"


def test_a_default_may_be_a_variable_of_the_process():
    assert read(PARAMETERS, Chosen({"needed": "x"}), TOPIC="set").pipeline.sources["clicks"].topic == "set"


@pytest.mark.parametrize(
    ("text", "chosen", "sentence"),
    [
        (PARAMETERS, Chosen(), "p.yml:5: parameters.needed: it has no value: say --param needed=..., or a default"),
        (PARAMETERS, Chosen({"needed": "x", "topik": "y"}), "there is no parameter 'topik'; did you mean 'topic'?"),
        (PARAMETERS, Chosen({}, "pro"), "p.yml:6: environments: there is no environment 'pro'; did you mean 'prod'?"),
        (PARAMETERS.replace("needed: here", "other: here"), Chosen({"needed": "x"}),
         "p.yml:7: environments.prod.other: it is no parameter; write its default among parameters"),
        (PARAMETERS.replace("limit: 10", "limit: ${NO}"), Chosen({"needed": "x"}), "there is no parameter NO,"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_parameters_is_told_once(text, chosen, sentence):
    told = faults(text, chosen)
    assert [fault for fault in told if sentence in fault] == told[:1], told


def test_parameters_of_a_python_file():
    with answering(Chosen({"limit": "5"}, "prod")):
        assert (parameter("limit", "10"), parameter("topic", "a", prod="b")) == ("5", "b")
    assert parameter("topic", "a") == "a", "a file that is imported by something else has its defaults"
    with pytest.raises(ParameterMissing), answering(Chosen()):
        parameter("topic")
    with pytest.raises(ParameterUnknown, match="'topik'; did you mean 'topic'"), answering(Chosen({"topik": "x"})):
        parameter("topic", "a")
    with pytest.raises(ParameterUnknown, match="the environment 'pro'"), answering(Chosen({}, "pro")):
        parameter("topic", "a", prod="b")
