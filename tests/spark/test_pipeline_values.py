"""Which values of a topic a pipeline reads, and why it does not read the others: in real Spark, on a batch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from ottla.spark.pipelines.checks import checked
from ottla.spark.pipelines.definition import DeadLetters, Pipeline, Sink, Source, Watermark
from ottla.spark.pipelines.frames import operated
from ottla.spark.pipelines.operations import Count
from ottla.spark.pipelines.plan import Plan, make_plan

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

NULL = "the value is null"
EMPTY = "the value is empty"
NO_TEXT = "the value is no text in UTF-8"
NO_JSON = "the value is no json of the schema"
BEHIND = "there is text behind the JSON object"
HALF = "a text in the value has half of a surrogate pair"
COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
MOMENT = datetime(2026, 11, 15, 12, tzinfo=UTC)
VALUES = {
    b'{"a": 1, "b": "x"}': None,
    b' {"a": 1}\n': None,
    b"{}": None,
    b'{"a": 1, "a": 2}': None,
    b'{"b": "} ] {"}': None,
    b'{"b": "\xc3\xbc \\ud83d\\ude00"}': None,
    b'{"b": "\\\\ud800"}': None,
    None: NULL,
    b"": EMPTY,
    b" \n": EMPTY,
    b'{"a": 1, "b": "\xff"}': NO_TEXT,
    b"\xff": NO_TEXT,
    b"null": NO_JSON,
    b"5": NO_JSON,
    b'"x"': NO_JSON,
    b'[{"a": 1}]': NO_JSON,
    b'{"a": "x"}': NO_JSON,
    b'{"a": 1': NO_JSON,
    b'{"a": 1} x': BEHIND,
    b'{"a": 1} {"a": 2}': BEHIND,
    b'{"a": 1}\n{"a": 2}': BEHIND,
    b'{"a": 1},{"a": 2}': BEHIND,
    b'{"a": 1},"x": 1': BEHIND,
    b'{"a": 1}}': BEHIND,
    b'{"a": 1}]': BEHIND,
    b'{"a": 1}]} x': BEHIND,
    b'{"a": 1}],"v":{"x":[1': BEHIND,
    b'{"a": 1}\0': BEHIND,
    b'{"b": "\\ud800"}': HALF,
    b'{"b": "\\uDC00\\uD800"}': HALF,
    b'{"b": "\\\\\\ud83d x"}': HALF,
}  # fmt: skip


def planned(here: Path, **source: object) -> Plan:
    described = {"topic": "t", "format": "json", "schema": "a INT, b STRING", **source}
    pipeline = Pipeline(
        name="p",
        sources={"s": Source(**described)},  # type: ignore[arg-type]
        sinks={"out": Sink(from_="s", topic="out")},
        dead_letters=DeadLetters(topic="dead"),
    )
    return make_plan(checked(pipeline, here, {}, "p.yml"), here, "host:9092")


def records(spark: SparkSession, values: list[bytes | None], **columns: object) -> DataFrame:
    row = {"key": b"k", "topic": "t", "partition": 0, "timestamp": MOMENT, "timestampType": 0, "headers": None}
    row |= columns
    names = [each.split()[0] for each in COLUMNS.split(", ")]
    rows = [
        tuple({**row, "value": value, "offset": offset}[name] for name in names) for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, COLUMNS)


def results(spark: SparkSession, plan: Plan, frame: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The rows that pass, and the dead letters, of a batch of records instead of a stream of them."""

    views = {view.name: view for view in plan.views}
    judged = operated(frame, [each for each in views["s__checked"].operations if type(each).__name__ != "Count"])
    passed = operated(judged, next(views[name] for name in ("s__passed", "s") if name in views).operations)
    dead = next(flow for flow in plan.flows if flow.dead_letters_of == "s")
    return passed, operated(judged, dead.operations)


def test_a_value_that_is_not_one_json_object_of_the_schema_is_a_dead_letter_with_its_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    values = list(VALUES)
    passed, dead = results(spark, planned(tmp_path), records(spark, values, headers=[("own", b"1"), ("none", None)]))
    good = [row._offset for row in passed.collect()]
    assert good == [number for number, value in enumerate(values) if VALUES[value] is None]
    assert [row.b for row in passed.collect()][4:7] == ["} ] {", "ü 😀", "\\ud800"]
    letters = dead.collect()
    found = {}
    for letter in letters:
        assert [(each.key, each.value) for each in letter.headers[:2]] == [("own", b"1"), ("none", None)]
        headers = {each.key: bytes(each.value).decode() for each in letter.headers[2:]}
        value = None if letter.value is None else bytes(letter.value)
        assert values[int(headers["ottla.dead.offset"])] == value, "byte for byte"
        found[value] = headers["ottla.dead.reason"]
    assert found == {value: reason for value, reason in VALUES.items() if reason is not None}


def test_records_that_came_too_late_are_dead_letters_when_it_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    watermark = Watermark(column="at", delay="10 seconds", late="dead_letter")
    plan = planned(tmp_path, schema="at TIMESTAMP", watermark=watermark)
    times = ["2026-11-15T11:59:50Z", "2026-11-15T11:59:49.999Z", "2026-11-15T12:00:01Z"]
    values: list[bytes | None] = [b'{"at": "%s"}' % each.encode() for each in times]
    passed, dead = results(spark, plan, records(spark, [*values, b"{}"]))
    assert [row._offset for row in passed.collect()] == [0, 2]
    headers = [{each.key: bytes(each.value).decode() for each in letter.headers} for letter in dead.collect()]
    assert [(each["ottla.dead.rule"], each["ottla.dead.offset"]) for each in headers] == [
        ("in_time", "1"),
        ("in_time", "3"),
    ]


def test_a_dead_letter_of_a_step_has_the_headers_that_its_row_still_has(spark: SparkSession) -> None:
    from ottla.spark.pipelines.dead_letters import dead_letters
    from ottla.spark.pipelines.definition import Expectation
    from ottla.spark.pipelines.expectations import Rules

    rules = Rules("p", "step", {"known": Expectation(condition="a > 0")})
    frame = spark.createDataFrame(
        [(1, "k", [("own", b"\xff\0")], "known")],
        "a int, _key string, _headers array<struct<key:string,value:binary>>, _ottla_broken string",
    )
    for kept, expected in ((frame, [("own", b"\xff\0")]), (frame.drop("_headers"), [])):
        (letter,) = operated(kept, dead_letters(rules, of_topic=False, into_topic=True)).collect()
        own = [(each.key, bytes(each.value)) for each in letter.headers if not each.key.startswith("ottla.")]
        assert own == expected
        assert bytes(letter.key) == b"k"
        (row,) = operated(kept, dead_letters(rules, of_topic=False, into_topic=False)).collect()
        assert [(each.key, bytes(each.value)) for each in row.headers or ()] == expected


def test_fields_that_the_schema_does_not_have_are_counted_kept_or_end_the_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    values: list[bytes | None] = [b'{"a": 1}', b'{"b": "x", "new": {"c": [1]}, "old": null}', b"no json"]
    passed, dead = results(spark, planned(tmp_path, new_columns="keep"), records(spark, values))
    assert [row._more for row in passed.collect()] == [{}, {"new": '{"c":[1]}', "old": None}]
    assert dead.count() == 1
    plan = planned(tmp_path, new_columns="drop")
    passed, _ = results(spark, plan, records(spark, values))
    assert passed.columns[:3] == ["a", "b", "_key"]
    assert passed.count() == 2
    checked_view = next(view for view in plan.views if view.name == "s__checked")
    (count,) = [operation for operation in checked_view.operations if isinstance(operation, Count)]
    judged = operated(records(spark, values), [each for each in checked_view.operations if each is not count])
    assert judged.selectExpr(f"count_if({count.noted['new_columns']}) AS found").collect()[0].found == 1
    stopping, _ = results(spark, planned(tmp_path, new_columns="stop"), records(spark, values))
    with pytest.raises(PySparkException, match="a record breaks the rule known_columns of s"):
        stopping.collect()
