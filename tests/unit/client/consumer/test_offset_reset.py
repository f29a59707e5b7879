"""auto.offset.reset: Kafka's words, librdkafka's, and durations."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.offset_reset import ResetPolicy, parse_reset, reset_problem


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("earliest", ResetPolicy("earliest")),
        (" Latest ", ResetPolicy("latest")),
        ("none", ResetPolicy("none")),
        ("smallest", ResetPolicy("earliest")),
        ("largest", ResetPolicy("latest")),
        ("end", ResetPolicy("latest")),
        ("error", ResetPolicy("none")),
        ("by_duration:P1D", ResetPolicy("by_duration", 86_400_000)),
        ("by_duration:PT1H30M", ResetPolicy("by_duration", 5_400_000)),
        ("by_duration:P2DT3.5S", ResetPolicy("by_duration", 172_803_500)),
        ("by_duration:PT0S", ResetPolicy("by_duration", 0)),
    ],
)
def test_what_people_write_is_understood(text, policy):
    assert parse_reset(text) == policy


@pytest.mark.parametrize(
    "text", ["", "sometimes", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1h",
             "by_duration:-PT1H", "by_duration:P1Y", "by_duration:P1DT"]
)  # fmt: skip
def test_other_words_are_refused_with_what_may_stand_there(text):
    assert "by_duration" in reset_problem(text) or "ISO 8601" in reset_problem(text)


def test_a_policy_says_what_to_ask_for():
    assert parse_reset("earliest").timestamp(5_000) == -2
    assert parse_reset("latest").timestamp(5_000) == -1
    assert parse_reset("by_duration:PT3S").timestamp(5_000) == 2_000
    assert parse_reset("by_duration:P1D").timestamp(5_000) == 0
    with pytest.raises(ValueError, match="the user decides"):
        parse_reset("none").timestamp(5_000)


@given(st.from_regex(r"P([0-9]{1,4}D)?(T([0-9]{1,4}H)?([0-9]{1,4}M)?)?", fullmatch=True))
def test_a_duration_is_as_long_as_its_parts(text):
    parts = {letter: int(number) for number, letter in re.findall(r"([0-9]+)([DHM])", text)}
    if not parts or text.endswith("T"):
        assert reset_problem(f"by_duration:{text}") is not None
        return
    minutes = parts.get("D", 0) * 1440 + parts.get("H", 0) * 60 + parts.get("M", 0)
    assert parse_reset(f"by_duration:{text}") == ResetPolicy("by_duration", minutes * 60_000)
