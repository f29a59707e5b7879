"""Patterns of clients: the same answers as a matcher that goes back, in time that does not explode."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.patterns import compile_pattern
from ottla.errors import InvalidRegularExpression


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders"], ["order", "orders-1", ""]),
        ("orders-.*", ["orders-", "orders-1"], ["orders", "my-orders-1"]),
        ("a|bc|", ["a", "bc", ""], ["b", "abc"]),
        ("(a|b)+c", ["ac", "bbac"], ["c", "abd"]),
        ("(?:ab){2,3}", ["abab", "ababab"], ["ab", "abababab"]),
        ("a{2}", ["aa"], ["a", "aaa"]),
        ("a{2,}", ["aa", "aaaa"], ["a"]),
        ("x{0}", [""], ["x"]),
        ("a{,2}", ["a{,2}"], ["a"]),
        (r"\d+\.\d*?", ["1.", "12.5"], ["1", "a.1"]),
        (r"[a-cx\d]+", ["abc", "x9"], ["d", ""]),
        (r"[^a-c]", ["d", "-"], ["a", "dd"]),
        ("[]a-]+", ["]a-"], ["b"]),
        ("[[:alpha:][:^word:]]+", ["a-", "-"], ["1"]),
        (r"[\]\\]", ["]", "\\"], ["a"]),
        ("^a$", ["a"], ["b"]),
        ("a^b", [], ["ab", "a\nb"]),
        (r"\Aa\z", ["a"], ["ab"]),
        (r"a\b-b", ["a-b"], ["a--b"]),
        (r"a\B.b", ["aab"], ["a-b"]),
        ("(?i)Ab", ["ab", "AB"], ["a"]),
        ("(?i:a)b", ["Ab", "ab"], ["aB"]),
        ("(?i)a(?-i)b", ["Ab"], ["AB"]),
        ("a.b", ["a-b"], ["a\nb"]),
        ("(?s)a.b", ["a\nb"], ["ab"]),
        ("(?m)a$\n^b", ["a\nb"], ["ab"]),
        (r"\Qa.b\E+", ["a.b", "a.ba.b"], ["axb"]),
        (r"\x41\x{1F600}", ["A\U0001f600"], ["A"]),
        (r"\pL\p{Nd}\PL", ["ä5-"], ["55-", "ä5a"]),
        (r"\p{^Lu}", ["a"], ["A"]),
        ("(?P<name>a)(?<other>b)", ["ab"], ["a"]),
        ("ä+", ["ää"], ["a"]),
        ("(a*)*", ["", "aaa"], ["b"]),
        ("(|a)+", ["", "aa"], ["b"]),
    ],
)
def test_a_pattern_matches_whole_texts(pattern, matching, others):
    matches = compile_pattern(pattern)
    assert [text for text in matching if not matches(text)] == []
    assert [text for text in others if matches(text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "a)", "(a", "*a", "a**", "a|*", "[", "[a", "[z-a]", "[[:what:]]", "a{2}{3}", "a{3,2}", "a{1001}"),
        *(r"\1", r"(a)\1", r"\k", r"\C", "(?=a)", "(?!a)", "(?<=a)", "(?>a)", "(?P=n)", "(?x)", "a++", "a*+"),
        *("\\", r"\p{Greek}", r"\p", r"\x{110000}", r"\xg", "(" * 60 + ")" * 60, "a" * 1001),
        *("((a{100}){100}){100}", "((){1000}){1000}", "(((){1000}){1000}){1000}"),
    ],
)
def test_what_cannot_be_read_or_is_too_much_is_refused(pattern):
    with pytest.raises(InvalidRegularExpression):
        compile_pattern(pattern)


def test_no_pattern_makes_a_match_explode():
    text = "a" * 5_000
    assert not compile_pattern("(a*)*b")(text)
    assert not compile_pattern("(a|aa)+b")(text)
    assert not compile_pattern("(.*)(.*)(.*)(.*)(.*)b")(text)


def test_a_pattern_with_very_many_moves_forgets_and_goes_on():
    matches = compile_pattern(".*x")
    assert matches("".join(map(chr, range(256, 20_000))) + "x")
    assert not matches("".join(map(chr, range(256, 20_000))))


ATOMS = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", r"\w", r"\W", r"\b", r"\B", "^", "$"])


def _joined(inner):
    suffix = st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "*?", "{0,}"])
    group = st.tuples(inner, suffix).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
    return st.one_of(
        st.lists(inner, max_size=3).map("".join), st.lists(inner, min_size=2, max_size=3).map("|".join), group
    )


@given(st.recursive(ATOMS, _joined, max_leaves=6), st.text("ab-", min_size=1, max_size=6))
def test_it_agrees_with_pythons_matcher(pattern, text):
    # Python's $ also holds before a last line break, and its \\B not in an empty text; RE2's are as here.
    assert compile_pattern(pattern)(text) == (re.fullmatch(pattern, text, re.ASCII) is not None)
