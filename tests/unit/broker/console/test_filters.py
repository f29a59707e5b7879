"""The small language that chooses records: what it means, what it refuses, and that no record can break it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.console.filters import DEPTH_LIMIT, LENGTH_LIMIT, BadFilter, Candidate, parse_filter, text_filter

ORDER = {"user": {"country": "CZ", "id": 7}, "total": 120.5, "items": [{"sku": "A1"}, {"sku": "B2"}], "paid": True}


def record(value=ORDER, key=b"user-7", headers=(("trace", b"beef"),)):
    content = json.dumps(value).encode() if not isinstance(value, bytes | None) else value
    return Candidate(3, 500, 1_700_000_000_000, key, content, headers)


@pytest.mark.parametrize(
    "text",
    [
        'value.user.country == "CZ"',
        "value.user.country == 'CZ' and value.total >= 100",
        'value.user["id"] == 7',
        'value.items[1].sku == "B2"',
        'value.items[-1].sku != "A1"',
        'value.user.country in ("SK", "CZ")',
        'key startswith "user-" or headers.trace contains "nothing"',
        'headers.trace contains "ee"',
        "not value.missing",
        "value.missing == null",
        "value.paid",
        "value.paid == true",
        "partition == 3 and offset > 499 and offset <= 500",
        "timestamp < 1800000000000 and size > 10",
        "value.total > 1.2e2",
        '(value.total < 1 or value.total > 2) and not (key endswith "8")',
        'value contains "total"',
        "not not value.paid",
    ],
)
def test_these_are_true(text):
    assert parse_filter(text)(record())


@pytest.mark.parametrize(
    "text",
    [
        "value.paid == 1",
        'value.total > "100"',
        "value.user.id == '7'",
        "value.items[5].sku",
        "value.user[0]",
        "value.user.country < null",
        "key contains 7",
        "value.user.country in (1, null)",
        "headers.absent",
    ],
)
def test_these_are_not(text):
    assert not parse_filter(text)(record())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("value.total >> 1", "character 14"),
        ("value.total ==", "at the end"),
        ("", "missing at the end"),
        ("total > 1", "before 'total'"),
        ("value.", "a name or a number is missing"),
        ("value[1.5] == 1", "no place in a list"),
        ("(value.a", r"'\)' is missing"),
        ("value.a == 1 value.b", "too much"),
        ("value.a == 1; import os", "means nothing here"),
        ("__import__('os')", "before '__import__'"),
        ("value.a in ()", "missing"),
        ("x" * (LENGTH_LIMIT + 1), "at most"),
        ("not " * (DEPTH_LIMIT + 2) + "value", "too many"),
        ("(" * (DEPTH_LIMIT + 2), "too many"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text, message):
    with pytest.raises(BadFilter, match=message):
        parse_filter(text)


def test_text_is_found_in_key_value_and_headers_whatever_its_case():
    for text in ("CZ", "cz", "USER-7", "BEEF", "trace"):
        assert text_filter(text)(record())
    assert not text_filter("nowhere")(record())


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_is_refused(text):
    try:
        test = parse_filter(text)
    except BadFilter:
        return
    test(record())


@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=30))
def test_no_record_breaks_a_filter(value, key):
    for text in ('value.a.b[0] > 1 or key contains "x"', "value < 5", 'headers.x == "1"', "not value in (1, 'a')"):
        parse_filter(text)(record(value, key, (("x", value),)))


def test_json_behind_the_frame_of_a_registry_is_json():
    assert parse_filter("value.a == 1")(record(b"\x00\x00\x00\x00\x07" + b'{"a": 1}'))


def test_deep_json_is_text():
    parse_filter("value.a == 1")(record(b"[" * 100_000))
