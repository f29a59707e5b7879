"""Which values of a topic a pipeline reads, and why it does not read the others: in real Spark, on a batch."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from ottla.schemas.arrow.json_choice import IS_QUICK
from ottla.spark.formats.quick_json import QuickJson, quick_field
from ottla.spark.pipelines.checks import checked
from ottla.spark.pipelines.definition import DeadLetters, Pipeline, Sink, Source, Watermark
from ottla.spark.pipelines.frames import operated
from ottla.spark.pipelines.operations import Count, Read
from ottla.spark.pipelines.plan import Plan, make_plan
from ottla.spark.running.arrow_types import as_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence
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


def records(
    spark: SparkSession, values: list[bytes | None], plan: Plan, *, is_quick: bool = True, **columns: object
) -> DataFrame:
    """What the connector gives of these values; without `is_quick` it reads none at once."""
    row = {"key": b"k", "topic": "t", "partition": 0, "timestamp": MOMENT, "timestampType": 0, "headers": None}
    row |= columns
    schema = next(view.beginning.options["quickJson"] for view in plan.views if isinstance(view.beginning, Read))
    names = [*(each.split()[0] for each in COLUMNS.split(", ")), "quickJson"]
    quick = read_at_once(values, schema) if is_quick else [None] * len(values)
    rows = [
        tuple({**row, "value": value, "offset": offset, "quickJson": quick[offset]}[name] for name in names)
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, f"{COLUMNS}, quickJson STRUCT<{schema}>")


def read_at_once(values: Sequence[bytes | None], schema: str) -> list[Any]:
    kind = as_arrow(StructType([quick_field(schema)])).field(0).type
    found: list[Any] = QuickJson(kind).read(pa.array(values, pa.binary())).to_pylist()
    return found


def results(spark: SparkSession, plan: Plan, frame: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The rows that pass, and the dead letters, of a batch of records instead of a stream of them."""

    views = {view.name: view for view in plan.views}
    judged = operated(frame, [each for each in views["s__checked"].operations if type(each).__name__ != "Count"])
    passed = operated(judged, next(views[name] for name in ("s__passed", "s") if name in views).operations)
    dead = next(flow for flow in plan.flows if flow.dead_letters_of == "s")
    return passed, operated(judged, dead.operations)


@pytest.mark.parametrize("is_quick", [True, False])
def test_a_value_that_is_not_one_json_object_of_the_schema_is_a_dead_letter_with_its_reason(
    spark: SparkSession, tmp_path: Path, is_quick: bool
) -> None:
    values, plan = list(VALUES), planned(tmp_path)
    own = [("own", b"1"), ("none", None)]
    passed, dead = results(spark, plan, records(spark, values, plan, is_quick=is_quick, headers=own))
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
    passed, dead = results(spark, plan, records(spark, [*values, b"{}"], plan))
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
    plan = planned(tmp_path, new_columns="keep")
    passed, dead = results(spark, plan, records(spark, values, plan))
    assert [row._more for row in passed.collect()] == [{}, {"new": '{"c":[1]}', "old": None}]
    assert dead.count() == 1
    plan = planned(tmp_path, new_columns="drop")
    passed, _ = results(spark, plan, records(spark, values, plan))
    assert passed.columns[:3] == ["a", "b", "_key"]
    assert passed.count() == 2
    checked_view = next(view for view in plan.views if view.name == "s__checked")
    (count,) = [operation for operation in checked_view.operations if isinstance(operation, Count)]
    judged = operated(records(spark, values, plan), [each for each in checked_view.operations if each is not count])
    assert judged.selectExpr(f"count_if({count.noted['new_columns']}) AS found").collect()[0].found == 1
    plan = planned(tmp_path, new_columns="stop")
    stopping, _ = results(spark, plan, records(spark, values, plan))
    with pytest.raises(PySparkException, match="a record breaks the rule known_columns of s"):
        stopping.collect()


EVERY_TYPE = (
    "id BIGINT, small TINYINT, short SMALLINT, n INT, user STRING, ok BOOLEAN, at TIMESTAMP, day DATE, ratio DOUBLE, "
    "tags ARRAY<STRING>, place STRUCT<x: INT, list: ARRAY<STRUCT<n: INT, s: STRING>>>, price DECIMAL(10,2), "
    "local TIMESTAMP_NTZ, near FLOAT, bytes BINARY, map MAP<STRING, INT>"
)
SCALARS = (
    None, True, False, 0, 1, -1, 127, 128, -129, 32768, 2**31, -(2**63), 2**63, 10**25, 0.1, -0.0, 1e22, 1e23, 1.5e308,
    5e-324, 0.30000000000000004, 123456789.12345678, "", "x", "ü😀\n\"\\\x7f", "12", "true", "null", "2026-11-19",
    "1969-07-20",
    "2026-11-19T08:00:00Z", "1900-01-01T00:00:00.5+05:30", "2026-11-19 08:00:00.123456-14:00", "2026-11-19T08:00:00",
    "2026-11-19T08:00:00.1234567Z", "9999-12-31T23:59:59Z", "2026-02-30", "0001-01-01", "\u0000",
)  # fmt: skip


TIMES = [each for each in SCALARS if isinstance(each, str) and len(each) > 12]
NUMBERS = [each for each in SCALARS if isinstance(each, int | float) and not isinstance(each, bool)]
FITTING = dict.fromkeys(("id", "small", "short", "n", "ratio", "price", "near", "other"), NUMBERS) | {
    "user": ["x", "", "ü", "12", "\x7f", "\\"], "ok": [True, False], "at": TIMES,
    "day": ["2026-11-19", "1969-07-20", "2026-02-30"],
    "tags": [[], ["x"], ["x", None, "ü"]], "place": [{}, {"x": 1}, {"x": None, "list": [{"n": 1}, {"s": "x"}, None]}],
    "local": ["2026-11-19T08:00:00", None], "bytes": ["eA==", None], "map": [{}, {"x": 1}, None],
    "_corrupt_record": [None, "x"],
}  # fmt: skip


def some_texts(count: int) -> list[bytes]:
    """Objects with fields of all types, most of them fitting nothing, and half of them damaged a little."""
    draw = random.Random(28)
    names = [*(field.name for field in quick_field(EVERY_TYPE).dataType), "other", "_corrupt_record"]  # type: ignore[attr-defined]

    def value(depth: int) -> Any:
        match draw.randrange(8 if depth < 3 else 6):
            case 6:
                return [value(depth + 1) for _ in range(draw.randrange(3))]
            case 7:
                return {draw.choice(("x", "list", "n", "s", "y")): value(depth + 1) for _ in range(draw.randrange(3))}
            case _:
                return draw.choice(SCALARS)

    def text() -> bytes:
        chosen = draw.sample(names, draw.randrange(4))
        found = {name: draw.choice(FITTING[name]) if draw.random() < 0.5 else value(0) for name in chosen}
        spaced = draw.choice(((",", ":"), (" , ", " : ")))
        made = bytearray(json.dumps(found, separators=spaced, ensure_ascii=draw.random() < 0.5).encode())
        if draw.random() < 0.5:
            made[(at := draw.randrange(len(made))) : at + draw.randrange(3)] = draw.choice(
                (
                    b"",
                    b"",
                    b",",
                    b"{",
                    b"}",
                    b'"',
                    b"\\",
                    b"1",
                    b"\\u00e9",
                    b"\\ud800",
                    b"\xff",
                    b" ",
                    b"\n",
                    b"e",
                    b".",
                    b"-",
                    b"0",
                )
            )
        return bytes(made)

    return [text() for _ in range(count)]


@pytest.mark.skipif(not IS_QUICK, reason="no native code was built here, which needs a C compiler")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_what_is_read_at_once_is_what_from_json_reads(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    """Each value and each reason: a text that is read at once is one in which from_json finds the same."""
    texts = [*some_texts(4_000), *(each for each in VALUES if each is not None)]
    plan = planned(tmp_path, schema=EVERY_TYPE)
    schema = f"{EVERY_TYPE}, _corrupt_record STRING"
    at_once = [number for number, each in enumerate(read_at_once(texts, schema)) if each is not None]
    assert len(texts) / 5 < len(at_once) < len(texts) * 4 / 5
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", str(zone))
    try:
        found: list[dict[int, str]] = []
        for is_quick in (True, False):
            passed, dead = results(
                spark, plan, records(spark, [texts[number] for number in at_once], plan, is_quick=is_quick)
            )
            assert dead.count() == 0
            rows = passed.selectExpr("_offset", "CAST(struct(* EXCEPT (map)) AS STRING) AS row").collect()
            found.append({row._offset: row.row for row in rows})
        different = {number: row for number, row in found[0].items() if found[1][number] != row}
        assert {texts[at_once[number]]: (row, found[1][number]) for number, row in different.items()} == {}
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
