"""Regular expressions: the language, that no expression can stop the broker, and what a group makes of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinators.groups.consumer.pattern import Pattern, PatternError
from ottla.errors import InvalidRegularExpression

# -- the language ----------------------------------------------------------------------------------------------------

ATOMS = r"a b Z 0 . - _ \. [ab] [^a] [a-c0-9] [a.] \d \w \W ^ $ \b \B [\w-] ()"
WRONG = r"""
    ( ) a** a+* *a |* [a [b-a] \1 (?=a) (?!a) (?<=a) (?<!a) (?>a) a{1001} a{3,2} ((a{1000}){1000}){1000} (?i)* {2}
    \p{Greek} \y [[:what:]] (?P<>a) (?P<a-b>a) (?x)a (?i \xZZ \x{110000} a*+ (?P=x) a|{1,}
"""

atoms = st.sampled_from(ATOMS.split())
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,}", "*?", "+?"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
        inner.map(lambda one: f"(?i:{one})"),
        inner.map(lambda one: f"({one})"),
    ),
    max_leaves=8,
)


@given(patterns, st.lists(st.text("abZz0.-_", min_size=1, max_size=6), max_size=6))
def test_a_pattern_means_what_python_means_by_it(text, names):
    pattern, oracle = Pattern(text), re.compile(text)
    for name in names:
        assert pattern.matches(name) == (oracle.fullmatch(name) is not None), (text, name)


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("foo.*", ["foo", "foo-1"], ["fo", "afoo"]),
        ("(?i)FOO", ["foo", "FoO"], ["fo"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(?P<x>a)(?<y>b)", ["ab"], ["a"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
        (r"\Qa.b\E", ["a.b"], ["axb"]),
        ("[[:alpha:]]+[[:^alpha:]]", ["ab1", "a."], ["abc"]),
        (r"\pL+\PL\p{Lu}\p{^N}", ["ab1AB"], ["ab1aB"]),
        (r"\x61\x{62}\141", ["aba"], ["abc"]),
        ("[]a]+", ["a"], ["]"]),
        ("[^-a]", ["b", "_"], ["a", "-"]),
        ("a{,2}", [], ["a", "aa"]),
        ("", [""], ["a"]),
        ("a||b", ["a", "b", ""], ["ab"]),
        (r"\Aab\z", ["ab"], ["abc"]),
        (r"a\-b", ["a-b"], ["ab"]),
        ("b(?-i)?b", ["b", "bb"], [""]),
        (r"(?i)\p{Lu}\P{Lu}", ["a1", "A."], ["ab", "1a"]),
    ],
)
def test_the_language_is_that_of_re2(text, yes, no):
    pattern = Pattern(text)
    assert [name for name in yes if not pattern.matches(name)] == []
    assert [name for name in no if pattern.matches(name)] == []


@pytest.mark.parametrize(
    "text",
    [
        *WRONG.split(),
        "a\\",
        "(){1000}" * 40,
        "(" * 200 + ")" * 200,
        "a" * 20_000,
    ],
)
def test_what_is_no_regular_expression_is_refused(text):
    with pytest.raises(PatternError):
        Pattern(text)


@pytest.mark.parametrize("text", ["(a+)+b", "(a|a)*b", "(a*)*b", "(a|aa)+b", "(.*)*(.*)*(.*)*b", "(a?){200}a{200}b"])
def test_no_pattern_takes_long(text):
    pattern = Pattern(text)
    assert not pattern.matches("a" * 249)
    assert len(pattern._learned) < 1_000


# -- in a group ------------------------------------------------------------------------------------------------------


def test_an_expression_that_is_none_is_told_so(consumers):
    answer = consumers.beat("a", topics=None, regex="(")
    assert answer.error_code == InvalidRegularExpression.code
    assert answer.error_message == "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."
    assert not consumers.shard.groups


def test_an_expression_is_matched_after_the_heartbeat(consumers):
    a = consumers.client("a", topics=None, regex="t|u")
    a.beat()
    assert (a.epoch, a.owned) == (1, set())
    consumers.advance(0)
    a.beat()
    assert a.epoch == 2
    assert a.owned == {(topic, index) for topic in "tu" for index in range(4)}
    assert consumers.consumer_described().members[0].subscribed_topic_regex == "t|u"
    consumers.check_replay()


def test_an_expression_that_others_have_is_known_at_once(consumers):
    a = consumers.client("a", topics=None, regex="t")
    a.beat()
    consumers.advance(0)
    b = consumers.client("b", topics=None, regex="t")
    b.beat()
    assert b.epoch == 3
    consumers.settle_consumers(a, b)
    assert len(a.owned) == len(b.owned) == 2


def test_names_and_expressions_add_up(consumers):
    a = consumers.client("a", topics=["other"], regex="t")
    a.beat()
    consumers.advance(0)
    a.beat()
    assert {topic for topic, _ in a.owned} == {"t", "other"}


def test_new_topics_are_found_but_not_every_second(consumers):
    a = consumers.client("a", topics=None, regex="new-.*")
    a.beat()
    consumers.advance(0)
    a.beat()
    consumers.make_topic("new-1", 1)
    consumers.advance(10_000)
    a.beat()
    consumers.advance(0)
    a.beat()
    assert a.owned == set()
    consumers.advance(1)
    a.beat()
    consumers.advance(0)
    a.beat()
    assert a.owned == {("new-1", 0)}


def test_expressions_are_matched_again_now_and_then(make_consumers):
    consumers = make_consumers(group_consumer_regex_refresh_interval_ms=20_000)
    a = consumers.client("a", topics=None, regex="t")
    a.beat()
    consumers.advance(0)
    first = consumers.consumer_group().regexes["t"].timestamp_ms
    for _ in range(3):
        consumers.advance(10_000)
        a.beat()
        consumers.advance(0)
    assert consumers.consumer_group().regexes["t"].timestamp_ms == first + 30_000
    assert consumers.consumer_group().epoch == 2


def test_another_expression_takes_the_place_of_the_old_one(consumers):
    a = consumers.client("a", topics=None, regex="t")
    a.beat()
    consumers.advance(0)
    a.beat()
    a.told["regex"], a.is_told = "u", True
    a.beat()
    assert a.owned == set()
    consumers.advance(10_001)
    a.beat()
    consumers.advance(0)
    consumers.settle_consumers(a)
    assert {topic for topic, _ in a.owned} == {"u"}
    assert consumers.consumer_group().regexes.keys() == {"u"}
    consumers.check_replay()


def test_an_expression_goes_with_its_last_subscriber(consumers):
    consumers.beat("a", topics=None, regex="t")
    consumers.beat("b", topics=None, regex="t")
    consumers.advance(0)
    consumers.leave_consumer("a")
    assert consumers.consumer_group().regexes.keys() == {"t"}
    consumers.leave_consumer("b")
    assert not consumers.consumer_group().regexes
    consumers.check_replay()


def test_giving_up_an_expression_gives_up_its_topics(consumers):
    a = consumers.client("a", topics=["u"], regex="t")
    a.beat()
    consumers.advance(0)
    a.beat()
    a.told["regex"], a.is_told = "", True
    a.beat()
    consumers.settle_consumers(a)
    assert {topic for topic, _ in a.owned} == {"u"}
    assert not consumers.consumer_group().regexes
    assert not consumers.consumer_group().regex_members
