"""Tests of pipelines on real Spark, by the fixture that users have: it takes the session that is there."""

from __future__ import annotations

import pytest
from tests.spark.running import why_not

from ottla.cli.main import main

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

STEPS = """
from pyspark.sql import functions as F

def louder(text):
    return text.upper()

def shouted(titled):
    return titled.withColumn("title", F.udf(louder, "string")("title"))
"""
PIPELINE = """
name: story
sources:
  clicks:
    topic: clicks
    format: json
    schema: user STRING, page STRING, at TIMESTAMP, ms INT
    watermark: {column: at, delay: 10 seconds}
    expect: {has_user: user IS NOT NULL, is_quick: {condition: ms < 1000, action: fail}}
  pages: {files: pages.csv, format: csv, static: true, options: {header: true}}
steps:
  titled: SELECT clicks.*, title FROM clicks JOIN pages USING (page)
  shouted: {python: "steps.py:shouted"}
  minutes: SELECT window.start AS minute, count(*) AS clicks FROM clicks GROUP BY window(at, '1 minute')
sinks:
  records: {from: shouted, topic: shouted, key: user, headers: {page: page}}
  parts: {from: minutes, files: parts, partition_by: minute}
dead_letters: dead
"""
TESTS = """
pipeline: story.yml
tests:
  a minute is written when it is over:
    given:
      - clicks: [{value: {user: ada, page: a, at: "2026-01-01T00:00:05Z", ms: 1}, key: k1}, {value: no json, key: k2}]
      - clicks: [{value: {user: bob, page: b, at: "2026-01-01T00:01:30Z", ms: 2}}, {value: {ms: 3}, headers: {h: x}}]
        pages: [{page: a, title: one}, {page: b, title: two}]
    expect:
      titled: [{user: ada, title: one, _key: k1, _offset: 0}, {user: bob, title: two, _topic: clicks}]
      records: [{key: ada, value: {user: ada, page: a, title: ONE, ms: 1, at: 2026-01-01T00:00:05Z},
                 headers: {page: a}}, {key: bob}]
      parts: [{minute: 2026-01-01T00:00:00Z, clicks: 1}]
      dead_letters: [{rule: readable, key: k2, value: no json, offset: 1}, {rule: has_user, headers: {h: x}}]
  a slow click ends the run:
    given: {clicks: [{value: {user: ada, page: a, ms: 5000}}]}
    fails: breaks the rule is_quick of clicks
"""


@pytest.fixture
def story(tmp_path):
    (tmp_path / "story.yml").write_text(PIPELINE)
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "pages.csv").write_text("page,title\na,A\n")
    (tmp_path / "tests.yml").write_text(TESTS)
    return tmp_path


def test_a_file_of_tests_passes(spark, story, pipeline_test):
    pipeline_test.run_file(story / "tests.yml", story / "story.yml")


def test_what_is_written_comes_back_and_files_are_read_as_they_are(spark, story, pipeline_test):
    click = {"user": "ada", "page": "a", "at": "2026-01-01T00:00:05Z", "ms": 1}
    outcome = pipeline_test(story / "story.yml", {"clicks": [{"value": click, "partition": 3}]}, rows_of=["pages"])
    assert outcome["records"] == [{"key": "ada", "value": {**click, "title": "A", "at": "2026-01-01T00:00:05.000Z"},
                                   "headers": {"page": "a"}}]  # fmt: skip
    assert outcome["parts"] == [], "its minute is not over"
    assert outcome["pages"] == [{"page": "a", "title": "A"}]
    assert outcome.dead_letters == []


def test_what_differs_is_told(spark, story, pipeline_test):
    text = "tests: {wrong: {given: {clicks: [{value: x}]}, expect: {titled: [{user: ada}]}}}"
    (story / "wrong.yml").write_text(text)
    with pytest.raises(AssertionError, match="titled: 1 expected, 0 written") as failed:
        pipeline_test.run_file(story / "wrong.yml", story / "story.yml")
    assert "dead_letters: 0 expected, 1 written" in str(failed.value)


def test_avro_is_decoded_by_the_source_s_own_code(spark, tmp_path, pipeline_test):
    schema = '{"type": "record", "name": "Click", "fields": [{"name": "user", "type": "string"}]}'
    (tmp_path / "click.avsc").write_text(schema)
    (tmp_path / "p.yml").write_text(
        "{name: p, sources: {c: {topic: c, format: avro, schema: click.avsc}}, sinks: {o: {from: c, topic: o}},"
        " dead_letters: d}"
    )
    given = {"c": [{"value": {"user": "ada"}}, {"value": b"\xff"}]}
    outcome = pipeline_test(tmp_path / "p.yml", given)
    assert [row["value"] for row in outcome["o"]] == [{"user": "ada"}]
    assert [row["reason"] for row in outcome.dead_letters] == ["the value is no avro of the schema"]


def test_the_command_tells_of_wrong_tests_before_spark_starts(story, capsys):
    (story / "tests.yml").write_text(TESTS.replace("titled:", "title:", 1))
    assert main(["pipeline", "test", str(story / "story.yml"), "--tests", str(story / "tests.yml")]) == 1
    assert "did you mean 'titled'?" in capsys.readouterr().err
    assert main(["pipeline", "test", str(story / "story.yml")]) == 1
    assert "there is no tests/*.yml beside the pipeline" in capsys.readouterr().err
