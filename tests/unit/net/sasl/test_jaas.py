"""sasl.jaas.config: what Java reads, we read; what is wrong is told without showing it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidSetting
from ottla.net.sasl.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_the_usual_line() -> None:
    entry = parse_jaas(f'{PLAIN} required username="alice" password="secret";')
    assert entry.kind == "PlainLoginModule"
    assert entry.options == {"username": "alice", "password": "secret"}


def test_lines_spaces_and_unquoted_values() -> None:
    entry = parse_jaas(f'{PLAIN}\n  REQUIRED\n  username=alice\n  password = "a b"\n  ;  \n')
    assert entry.options == {"username": "alice", "password": "a b"}


def test_quotes_keep_signs_and_escapes() -> None:
    assert parse_jaas(f'{PLAIN} required password="a=b;c\\"d\\\\e";').options == {"password": 'a=b;c"d\\e'}


@given(st.text(min_size=1), st.text())
def test_any_value_can_be_written_in_quotes(user: str, password: str) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    entry = parse_jaas(f"{PLAIN} required username={quoted(user)} password={quoted(password)};")
    assert entry.options == {"username": user, "password": password}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "semicolon"),
        (f'{PLAIN} required password="hunter2"', "semicolon"),
        (f'{PLAIN} password="hunter2";', "control flag"),
        (f"{PLAIN} required hunter2;", "name=value"),
        (f'{PLAIN} required password="hunter2;', "quote"),
        (f"{PLAIN} required; {PLAIN} required password=hunter2;", "more than one"),
    ],
)
def test_a_wrong_form_is_told_without_the_secret(text: str, why: str) -> None:
    with pytest.raises(InvalidSetting, match=why) as refused:
        parse_jaas(text)
    assert "hunter2" not in str(refused.value)


@given(st.text(max_size=100))
def test_no_text_breaks_it(text: str) -> None:
    try:
        parse_jaas(text)
    except InvalidSetting:
        return


def test_the_options_are_not_printed() -> None:
    assert "secret" not in repr(parse_jaas(f"{PLAIN} required password=secret;"))
