"""Records as text: kcat's letters, JSON there and back, and the console producer's lines."""

import io
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.output import Failure
from ottla.cli.record_format import as_json, formatter
from ottla.cli.record_lines import LineError, LineRules, lines_of, numbered, record_of_json


def record(**changes):
    facts = {
        "topic": "clicks",
        "partition": 2,
        "offset": 41,
        "timestamp_ms": 1700,
        "key": b"user",
        "value": b"page",
        "headers": [("trace", b"7f"), ("empty", None)],
    }
    return SimpleNamespace(**(facts | changes))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("%s\\n", b"page\n"),
        ("%t[%p]@%o %T", b"clicks[2]@41 1700"),
        ("%k=%v (%K,%S)", b"user=page (4,4)"),
        ("%R%s", b"\0\0\0\4page"),
        ("%h", b"trace=7f,empty=NULL"),
        ("100%% \\x41\\t|", b"100% A\t|"),
    ],
)
def test_kcats_letters(text, printed):
    assert formatter(text)(record()) == printed


def test_a_missing_value_has_length_minus_one_and_prints_nothing():
    assert formatter("<%s> %S %K")(record(value=None, key=None)) == b"<> -1 -1"


@pytest.mark.parametrize("text", ["%x", "ends with %", "\\q"])
def test_a_letter_that_does_not_exist_is_refused(text):
    with pytest.raises(Failure, match="means nothing"):
        formatter(text)


def test_json_is_one_line_and_keeps_bytes_that_are_no_text():
    shown = json.loads(as_json(record(value=b"\xff\xfe")))
    assert shown["value_base64"] == "//4="
    assert shown["headers"] == [{"key": "trace", "value": "7f"}, {"key": "empty", "value": None}]
    assert as_json(record()).count(b"\n") == 1


@given(
    key=st.none() | st.binary(),
    value=st.none() | st.binary(),
    headers=st.lists(st.tuples(st.text(), st.none() | st.binary())),
)
def test_what_consume_prints_produce_reads(key, value, headers):
    read = record_of_json(as_json(record(key=key, value=value, headers=headers)))
    assert (read.key, read.value, read.headers) == (key, value, headers)
    assert (read.partition, read.timestamp_ms) == (2, 1700)


@pytest.mark.parametrize(
    ("rules", "line", "expected"),
    [
        (LineRules(), b"value", (None, b"value", [])),
        (LineRules(key_separator=b":"), b"k:v:w", (b"k", b"v:w", [])),
        (LineRules(headers=True), b"a:1,b:2\tvalue", (None, b"value", [("a", b"1"), ("b", b"2")])),
        (LineRules(headers=True, key_separator=b"\t"), b"a:1\tk\tv", (b"k", b"v", [("a", b"1")])),
        (LineRules(headers=True), b"\tvalue", (None, b"value", [])),
        (LineRules(key_separator=b":", null_marker=b"NULL"), b"k:NULL", (b"k", None, [])),
        (LineRules(null_marker=b""), b"", (None, None, [])),
    ],
)
def test_a_line_is_cut_as_the_rules_say(rules, line, expected):
    assert tuple(rules.record(line))[:3] == expected


def test_what_is_no_record_is_told_with_its_number():
    good, bad = numbered([b"k:v", b"kv"], LineRules(key_separator=b":").record)
    assert good.value == b"v"
    assert str(bad) == "line 2: there is no ':' that would end a key"


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[1]",
        b'{"value": "v", "partition": "one"}',
        b'{"valu": "v", "value": "v"}',
        b'{"key": "k"}',
        b'{"value": "v", "headers": "trace"}',
        b'{"value": "v", "headers": ["trace"]}',
        b'{"value": "v", "headers": [{"value": "7f"}]}',
        b'{"value_base64": "%"}',
        b'{"value_base64": 7}',
    ],
)
def test_bad_json_is_refused(line):
    with pytest.raises(LineError):
        record_of_json(line)


def test_a_value_that_is_json_itself_goes_on_as_json():
    assert record_of_json(b'{"value": {"a": [1, 2]}}').value == b'{"a": [1, 2]}'


@pytest.mark.parametrize("delimiter", [b"\n", b"\0", b"--"])
def test_lines_end_at_the_delimiter_and_the_last_needs_none(delimiter):
    assert list(lines_of(io.BytesIO(delimiter.join([b"one", b"", b"two"])), delimiter)) == [b"one", b"", b"two"]


def test_windows_line_ends_are_taken_off():
    assert list(lines_of(io.BytesIO(b"one\r\ntwo\r\n"))) == [b"one", b"two"]


def test_headers_written_by_hand_may_be_an_object_or_null():
    assert record_of_json(b'{"value": "v", "headers": {"trace": "7f", "none": null}}').headers == [
        ("trace", b"7f"),
        ("none", None),
    ]
    assert record_of_json(b'{"value": "v", "headers": null}').headers == []


def test_a_tombstone_is_written_as_null():
    assert record_of_json(b'{"key": "k", "value": null}').value is None
