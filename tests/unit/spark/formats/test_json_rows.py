"""JSON objects as columns: what fits, what is bad, and that the fast way gives what the careful one gives."""

import datetime
import decimal
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructField, StructType

from ottla.schemas.arrow.decoded import decode_each
from ottla.schemas.arrow.json_choice import IS_QUICK
from ottla.schemas.arrow.json_rows import JsonRows
from ottla.schemas.arrow.json_values import NotInJson
from ottla.spark.formats.ddl import as_nullable, parse_schema
from ottla.spark.running.arrow_types import as_arrow


def rows_of(ddl):
    schema = as_nullable(parse_schema(ddl))
    return JsonRows(as_arrow(StructType([StructField("value", schema)])).field(0).type)


def one_by_one(rows, column):
    return decode_each(column, rows._kind, rows._read)


def decode(ddl, *values):
    found = rows_of(ddl).decode(pa.array(values, pa.binary()))
    found.column.validate(full=True)
    return found.column.to_pylist(), found.problems


def one(ddl, text):
    (value,), problems = decode(ddl, text if text is None or isinstance(text, bytes) else text.encode())
    return value["a"] if value is not None else "bad" if problems else None


@pytest.mark.parametrize(
    ("ddl", "text", "expected"),
    [
        ("a BIGINT", '{"a": 7}', 7),
        ("a BIGINT", '{"a": null, "b": [{}]}', None),
        ("a BIGINT", "{}", None),
        ("a BIGINT", '{"a": 7.0}', "bad"),
        ("a BIGINT", '{"a": "7"}', "bad"),
        ("a BIGINT", '{"a": true}', "bad"),
        ("a BIGINT", '{"a": 9223372036854775808}', "bad"),
        ("a TINYINT", '{"a": 128}', "bad"),
        ("a DOUBLE", '{"a": 7}', 7.0),
        ("a DOUBLE", '{"a": 1e3}', 1000.0),
        ("a DOUBLE", '{"a": Infinity}', float("inf")),
        ("a DOUBLE", '{"a": Inf}', "bad"),
        ("a DOUBLE", '{"a": 1e400}', float("inf")),
        ("a DOUBLE", '{"a": -1' + "0" * 309 + "}", float("-inf")),
        ("a DOUBLE", '{"a": 1' + "0" * 5_000 + "}", float("inf")),
        ("a BIGINT", '{"a": 7, "b": 1' + "0" * 5_000 + "}", 7),
        ("a BIGINT", '{"a": 1' + "0" * 5_000 + "}", "bad"),
        ("a BIGINT", '{"a": -0}', 0),
        ("a FLOAT", '{"a": 0.5}', 0.5),
        ("a STRING", '{"a": "\\u00fc"}', "ü"),
        ("a STRING", '{"a": "\\ud800"}', "bad"),
        ("a STRING", '{"a": 1}', "bad"),
        ("a BOOLEAN", '{"a": false}', False),
        ("a BOOLEAN", '{"a": 0}', "bad"),
        ("a ARRAY<INT>", '{"a": [1, null]}', [1, None]),
        ("a ARRAY<INT>", '{"a": {}}', "bad"),
        ("a STRUCT<b: INT>", '{"a": {"b": 1, "c": 2}}', {"b": 1}),
        ("a STRUCT<b: INT>", '{"a": []}', "bad"),
        ("a MAP<STRING, INT>", '{"a": {"x": 1, "y": null}}', [("x", 1), ("y", None)]),
        ("a BINARY", '{"a": "aGk="}', b"hi"),
        ("a BINARY", '{"a": "!"}', "bad"),
        ("a DATE", '{"a": "2026-11-15"}', datetime.date(2026, 11, 15)),
        ("a DATE", '{"a": "15.11.2026"}', "bad"),
        ("a DATE", '{"a": 5}', "bad"),
        ("a ARRAY<DATE>", '{"a": ["2026-11-15", 5]}', "bad"),
        ("a DATE", '{"a": "\\u0030000-01-01"}', "bad"),
        ("a TIMESTAMP", '{"a": "2026-11-15T01:00:00+01:00"}', datetime.datetime(2026, 11, 15, tzinfo=datetime.UTC)),
        ("a TIMESTAMP", '{"a": "2026-11-15 00:00:00"}', datetime.datetime(2026, 11, 15, tzinfo=datetime.UTC)),
        ("a TIMESTAMP", '{"a": 5}', "bad"),
        ("a TIMESTAMP_NTZ", '{"a": "2026-11-15T00:00:00"}', datetime.datetime(2026, 11, 15)),
        ("a TIMESTAMP_NTZ", '{"a": "2026-11-15T00:00:00Z"}', "bad"),
        ("a DECIMAL(5,2)", '{"a": 123.45}', decimal.Decimal("123.45")),
        ("a DECIMAL(5,2)", '{"a": "1"}', decimal.Decimal("1.00")),
        ("a DECIMAL(5,2)", '{"a": 1234.5}', "bad"),
        ("a DECIMAL(5,2)", '{"a": 0.001}', "bad"),
        ("a DECIMAL(5,2)", '{"a": NaN}', "bad"),
        ("a INT", "", "bad"),
        ("a INT", "null", "bad"),
        ("a INT", "[1]", "bad"),
        ("a INT", '{"a": 1', "bad"),
        ("a INT", '{"a": 1}{"a": 2}', "bad"),
        ("a INT", '{"a": 1}\n{"a": 2}', "bad"),
        ("a INT", ' {"a": 1}\n', 1),
        ("a INT", '{"a": 1, "a": 2}', 2),
        ("a INT", b'{"a": 1, "b": "\xff"}', "bad"),
        ("a INT", None, None),
    ],
)  # fmt: skip
def test_what_fits_and_what_is_bad(ddl, text, expected):
    assert one(ddl, text) == expected


def test_a_bad_record_is_null_and_the_others_stay():
    found, problems = decode("a INT, b STRING", b'{"a": 1}', None, b"oops", b'{"a": 2, "b": 3}', b'{"a": 4}')
    assert found == [{"a": 1, "b": None}, None, None, None, {"a": 4, "b": None}]
    assert list(problems) == [2, 3]
    assert "no JSON" in problems[2]
    assert problems[3] == "b: 3 is no text"


def test_objects_that_run_over_the_edge_of_records_are_not_taken_for_rows():
    found, problems = decode("a INT", b'{"a": 1}{"a": 2}', b'{"a":', b"3}")
    assert found == [None, None, None]
    assert list(problems) == [0, 1, 2]


def test_nesting_without_end_is_bad_and_does_no_harm():
    found, problems = decode("a MAP<STRING, INT>", b'{"b": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"{}")
    assert found == [None, {"a": None}]
    assert list(problems) == [0]


def test_the_limit_of_nesting_counts_brackets_that_are_no_text():
    deep = b'{"b": ' + b"[" * 399 + b"]" * 399 + b"}"
    deeper = b'{"b": ' + b"[" * 400 + b"]" * 400 + b"}"
    text = json.dumps({"b": "[{" * 1_000 + '"'}).encode()
    wide = json.dumps({"b": [[]] * 1_000}).encode()
    for values in ([deep, text, wide], [deep, text, wide, b"oops"]):
        assert list(decode("a INT", *values)[1]) == [3][: len(values) - 3]
    assert list(decode("a INT", deep, deeper)[1]) == [1]


# --- a value means the same whoever its neighbours are ---

raw_numbers = st.sampled_from(
    ["0", "-0", "-0.0", "1.0", "1e2", "1E400", "-1e400", "1e-400", "9" * 25, "-" + "9" * 310, "1" + "0" * 5_000, "5"]
    + [str(2**bits + step) for bits in (7, 15, 31, 63) for step in (-1, 0)]
    + ["NaN", "Infinity", "-Infinity", "Inf", "+1", "01", "1.", ".5", "123.45", "0.001", "18000", "-1"]
)
dates = ["2026-11-15", "20261115", "2026-W46-7", "0000-01-01", "0001-01-01", "9999-12-31", "2026-02-30"]
times = ["2026-11-15T01:02:03Z", "2026-11-15 01:02:03.123456+05:30", "2026-11-15T01:02:03.1234567"]
times += ["0001-01-01T00:00:00+05:00", "2026-11-15T24:00:00"]
odd_texts = ["", "7", "123.45", "NaN", "true", "aGk=", "ü", "😀", "\ud800", "\udc00", "\0", "{", "}", '"', "\\"]


def escape(text):
    return '"' + "".join(f"\\u{ord(each):04x}" if ord(each) < 0x10000 else each for each in text) + '"'


escaped = st.builds(
    lambda text, form: form(text), st.sampled_from(dates + times + odd_texts), st.sampled_from([json.dumps, escape])
)
leaves = st.sampled_from(["null", "true", "false"]) | raw_numbers | escaped
names = st.sampled_from(["a", "b", "c", "\\u0061"])
pieces = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]")
        | st.lists(st.tuples(names, inner), max_size=3).map(
            lambda each: "{" + ", ".join(f'"{name}": {value}' for name, value in each) + "}"
        )
    ),
    max_leaves=4,
)
whole = st.builds(
    lambda piece, more, behind: f'{{"a": {piece}{more}}}{behind}'.encode("utf-8", "replace"),
    leaves | pieces,
    st.sampled_from(["", "", "", ', "x": 1', ', "x": [{}]', ', "a": null', "\n"]),
    st.sampled_from(["", "", "", " ", "\n", "}", '{"a": null}']),
)
TYPES = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(5,2)",
    "STRING",
    "BINARY",
    "DATE",
]
TYPES += ["TIMESTAMP", "TIMESTAMP_NTZ", "MAP<STRING, DATE>"]
ALL_TYPES = [
    form.format(kind) for kind in TYPES for form in ("a {}", "a ARRAY<{}>", "a STRUCT<a: {0}, b: {0}>", "a {0}, x INT")
]


def same(one, other):
    """NaN is not equal to itself, and Python has no year 0, which some zones lead to."""
    return one.equals(other) or repr(one.to_pylist()) == repr(other.to_pylist())


DECODERS = {ddl: rows_of(ddl) for ddl in ALL_TYPES}


@settings(max_examples=150)
@given(st.lists(whole | st.sampled_from([None, b"", b"null", b"{}", b"\xff"]), min_size=1, max_size=3))
def test_a_column_at_once_is_what_its_values_are_one_by_one(values):
    column = pa.array(values, pa.binary())
    for ddl, rows in DECODERS.items():
        together, reference = rows.decode(column), one_by_one(rows, column)
        alone = [rows.decode(column.slice(row, 1)) for row in range(len(values))]
        assert sorted(together.problems) == [row for row, each in enumerate(alone) if each.problems], ddl
        assert sorted(together.problems) == sorted(reference.problems), ddl
        assert same(together.column, pa.concat_arrays([each.column for each in alone])), ddl
        assert same(together.column, reference.column), ddl


def test_a_type_that_json_has_not_is_refused_when_the_query_is_planned():
    with pytest.raises(NotInJson, match="names of JSON objects are texts"):
        rows_of("a MAP<INT, INT>")


def test_slices_and_large_records_are_read(monkeypatch):
    values = [json.dumps({"a": number, "b": "x" * 3_000_000}).encode() for number in range(3)]
    found = rows_of("a INT").decode(pa.array(values, pa.binary()).slice(1))
    assert [row["a"] for row in found.column.to_pylist()] == [1, 2]


scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
)
objects = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(-(2**63), 2**63 - 1) | scalars,
        "b": st.text(max_size=5) | scalars,
        "c": st.lists(st.floats() | st.integers() | st.none(), max_size=3) | scalars,
        "d": st.fixed_dictionaries({}, optional={"e": st.booleans() | st.none(), "f": anything}),
    },
)
DDL = "a BIGINT, b STRING, c ARRAY<DOUBLE>, d STRUCT<e: BOOLEAN>"
contents = objects.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=10) | st.none()


@given(st.lists(contents, max_size=6))
def test_the_quick_way_gives_what_the_careful_one_gives(values):
    column = pa.array(values, pa.binary())
    rows = rows_of(DDL)
    found, careful = rows.decode(column), one_by_one(rows, column)
    assert found.problems == careful.problems
    assert repr(found.column.to_pylist()) == repr(careful.column.to_pylist())


zones = st.sampled_from([None, datetime.UTC, datetime.timezone(datetime.timedelta(hours=-5, minutes=-30))])
spans = st.sampled_from(["hours", "minutes", "seconds", "milliseconds", "microseconds"])
moments = st.builds(
    lambda moment, zone, separator, span: moment.replace(tzinfo=zone).isoformat(separator, span),
    st.datetimes(),
    zones,
    st.sampled_from("T "),
    spans,
)
odd_moments = st.tuples(moments, st.integers(0, 30), st.sampled_from(["", *"019-T:+Z. W"])).map(
    lambda given: given[0][: given[1]] + given[2] + given[0][given[1] + 1 :]
)


@given(moments | odd_moments | st.dates().map(str) | st.just("0000-01-01"))
def test_the_quick_way_reads_times_as_the_careful_one_does(text):
    column = pa.array([json.dumps({"a": text, "b": text}).encode()], pa.binary())
    for ddl in ("a TIMESTAMP", "b DATE"):
        rows = rows_of(ddl)
        found, careful = rows.decode(column), one_by_one(rows, column)
        assert found.problems == careful.problems
        assert found.column.equals(careful.column)


@pytest.mark.skipif(not IS_QUICK, reason="the leaf is not built: that needs a C compiler")
def test_the_quick_way_is_taken_where_a_text_is_plain(monkeypatch):
    rows, texts = rows_of(DDL), []
    monkeypatch.setattr(rows, "_read", texts.append)
    rows.decode(pa.array([b'{"a": 1}', None, b'{"a": "x"}', b'{"d": {"e": true}}'], pa.binary()))
    assert texts == [b'{"a": "x"}']
