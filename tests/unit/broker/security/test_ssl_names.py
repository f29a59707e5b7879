"""Subjects and names of users as Java makes them: the same as JDK 17 and Kafka 4.3.1 say, which are kept as files."""

from __future__ import annotations

import base64
import shutil
import time

import pytest
from tests.conformance.java_programs import jars_or_skip
from tests.unit.broker.security.ssl_cases import NAMES, RULES, ask_java, kept, mapped

from ottla.broker.security.principal_rules import SUBJECT_LIMIT, PrincipalRules
from ottla.errors import InvalidSetting, TlsHandshakeFailed
from ottla.net.tls.der import DerError, read_value
from ottla.net.tls.distinguished_name import name_text
from ottla.patterns.captures import CapturingPattern, TooMuchWork

JAVAS_NAMES, JAVAS_RULES = kept()


def text_of(answer: str) -> str | None:
    return base64.b64decode(answer[1:]).decode() if answer.startswith("=") else None


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_a_subject_is_written_as_java_writes_it(number: int) -> None:
    _, content, _ = read_value(NAMES[number], 0)
    assert name_text(content) == text_of(JAVAS_NAMES[number])


@pytest.mark.parametrize("rules", RULES)
def test_rules_make_the_names_that_kafka_makes(rules: str) -> None:
    for (each, subject), answer in zip(mapped(), JAVAS_RULES, strict=True):
        if each != rules:
            continue
        try:
            name = PrincipalRules(rules).name_of(subject)
        except (InvalidSetting, TlsHandshakeFailed):
            name = None
        assert name == text_of(answer), subject


@pytest.mark.long
def test_java_still_says_so() -> None:
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    assert ask_java(f"{jars_or_skip('4.3')}/*") == (JAVAS_NAMES, JAVAS_RULES)


@pytest.mark.parametrize(
    "content", [b"", b"\x30", b"\x31\x02\x30\x00", b"\x31\x84\xff\xff\xff\xff", b"\x31\x05\x30\x03\x06\x01\x55"]
)
def test_what_is_no_name_is_refused(content: bytes) -> None:
    if content:
        with pytest.raises(DerError):
            name_text(content)
    else:
        assert name_text(content) == ""


@pytest.mark.parametrize("pattern", ["(?=x)x", "(a)\\1", "a++", "(?<!x)y"])
def test_patterns_that_could_run_for_hours_are_refused_at_the_start(pattern: str) -> None:
    with pytest.raises(InvalidSetting, match="cannot be used"):
        PrincipalRules(f"RULE:{pattern}/x/")


def test_a_hostile_subject_costs_little_work() -> None:
    """Java and Python would need longer than the universe for these."""
    for rule in ("RULE:^CN=(a+)+$/$1/", "RULE:^CN=(a|aa|a*)*b$/$1/", "RULE:^CN=((a*)*)*c$/$1/"):
        began = time.process_time()
        with pytest.raises(TlsHandshakeFailed):
            PrincipalRules(rule).name_of("CN=" + "a" * 2_000 + "!")
        assert time.process_time() - began < 10


def test_work_and_size_have_a_bound() -> None:
    with pytest.raises(TooMuchWork):
        CapturingPattern("(a{0,300}){0,3}b").find_all("a" * 4_000)
    with pytest.raises(TlsHandshakeFailed, match="characters"):
        PrincipalRules("DEFAULT").name_of("a" * (SUBJECT_LIMIT + 1))
