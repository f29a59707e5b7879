"""Patterns of clients: the same answers as a matcher that goes back, in time that does not explode."""

import re
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.budget import Budget, BudgetExceeded
from ottla.errors import InvalidRegularExpression
from ottla.patterns.patterns import MEMORY_LIMIT, PIECE_STEPS, REPEATED_LIMIT, STEPS_LIMIT, Automaton, compile_pattern
from ottla.patterns.syntax import DEPTH_LIMIT, PATTERN_LIMIT, _orbit, parse


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
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb", "a.ba.b"]),
        (r"\Qa.b\E", ["a.b"], ["axb"]),
        (r"a\Q\E*", ["", "aa"], ["b"]),
        (r"\Qa*", ["a*"], ["aa"]),
        (r"\x41\x{1F600}", ["A\U0001f600"], ["A"]),
        (r"\pL\p{Nd}\PL", ["ä5-"], ["55-", "ä5a"]),
        (r"\p{^Lu}", ["a"], ["A"]),
        ("(?P<name>a)(?<other>b)", ["ab"], ["a"]),
        ("ä+", ["ää"], ["a"]),
        ("(a*)*", ["", "aaa"], ["b"]),
        ("(|a)+", ["", "aa"], ["b"]),
        ("foo.*", ["foo", "foo-1"], ["fo", "afoo"]),
        ("(?i)FOO", ["foo", "FoO"], ["fo"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(?i)[^a]", ["b", "\n"], ["a", "A"]),
        ("(?i)[^A-C]+", ["d"], ["b", "B"]),
        ("(?i)[[:^lower:]]", ["1"], ["a", "A"]),
        ("(?i)k\u03c3", ["K\u03a3", "\u212a\u03c2"], ["k"]),
        (r"(?i)\w\W", ["\u017f-"], ["-\u017f", "s\u212a"]),
        ("(?i)\xdf\u1fb3\u0131", ["\u1e9e\u1fbc\u0131"], ["SS\u1fbcI"]),
        (r"(?i)\p{Lu}\P{Lu}", ["a1", "A."], ["ab", "1a"]),
        ("b(?-i)?b", ["b", "bb"], [""]),
        ("a*(?i)*", ["", "aa"], ["A"]),
        ("[[:alpha:]]+[[:^alpha:]]", ["ab1", "a."], ["abc"]),
        ("[[:a]", ["[", ":", "a"], ["b"]),
        (r"\pL+\PL\p{Lu}\p{^N}", ["ab1AB"], ["ab1aB"]),
        (r"\p{Any}\pC", ["a\x00"], ["a\u0378"]),
        (r"\x61\x{62}\141", ["aba"], ["abc"]),
        (r"\0\08\12\1234[\0-\07]", ["\x00\x008\nS4\x05"], ["0"]),
        (r"\x{000000061}", ["a"], ["b"]),
        ("a{02}", ["a{02}"], ["aa"]),
        ("[^-a]", ["b", "_"], ["a", "-"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("", [""], ["a"]),
        ("a||b", ["a", "b", ""], ["ab"]),
        (r"a\-b\_\ä", ["a-b_ä"], ["ab"]),
    ],
)
def test_a_pattern_matches_whole_texts(pattern, matching, others):
    matches = compile_pattern(pattern).matches
    assert [text for text in matching if not matches(text)] == []
    assert [text for text in others if matches(text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "a)", "(a", "*a", "a**", "a|*", "[", "[a", "[z-a]", "[[:what:]]", "a{2}{3}", "a{3,2}", "a{1001}"),
        *(r"\1", r"(a)\1", r"\k", r"\C", "(?=a)", "(?!a)", "(?<=a)", "(?>a)", "(?P=n)", "(?x)", "a++", "a*+"),
        *("\\", r"\p{Greek}", r"\p", r"\x{110000}", r"\xg", "(" * 101 + ")" * 101, "a" * 10_001, "a\\"),
        *("{2}", "a|{1,}", "({2})", "(?i)*", "|*", r"\Q\E*", "a+*", "[b-a]", r"[a-\d]", "[a-", "(?<!a)", r"\8", r"\y"),
        *("(?P<>a)", "(?P<a-b>a)", "(?P<a>)(?<a>)", "(?x)a", "(?i", "(?-)", "(?i--s)", r"\x{}", r"\p{Cn}", r"\p{lu}"),
        *("a{1,1001}", "a{123456789012}", "a*?*", "{*", "(){1000}" * 40, "(a{1000}){2}a?", "a?" * 1001),
        *("((a{100}){100}){100}", "((){1000}){1000}", "(((){1000}){1000}){1000}"),
    ],
)
def test_what_cannot_be_read_or_is_too_much_is_refused(pattern):
    with pytest.raises(InvalidRegularExpression):
        compile_pattern(pattern)


def test_no_pattern_makes_a_match_explode():
    text = "a" * 5_000
    assert not compile_pattern("(a*)*b").matches(text)
    assert not compile_pattern("(a|aa)+b").matches(text)
    assert not compile_pattern("(.*)(.*)(.*)(.*)(.*)b").matches(text)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*)*(.*)*(.*)*b", "(a?){200}a{200}b", "[b-z]{1000}|a*b"])
def test_what_is_known_of_a_pattern_stays_small(pattern):
    automaton = Automaton(parse(pattern))
    assert not automaton.matches("a" * 249)
    assert len(automaton._moves) < 1_000


def test_moves_with_many_ways_are_dropped_before_they_fill_the_memory():
    automaton = Automaton(parse("[ab]*a[ab]{900}"))
    text = "aab" * 200
    assert not automaton.matches(text)
    assert sum(map(len, automaton._moves.values())) < MEMORY_LIMIT + STEPS_LIMIT
    assert automaton.matches(text + "b" * 500, Budget(2_000_000, "matching"))


def test_the_longest_and_deepest_pattern_is_read():
    assert compile_pattern("a" * PATTERN_LIMIT).matches("a" * PATTERN_LIMIT)
    assert compile_pattern("(a{1000}){2}").matches("a" * REPEATED_LIMIT)
    assert compile_pattern("(" * DEPTH_LIMIT + "a" + ")" * DEPTH_LIMIT).matches("a")


def test_every_character_is_in_its_own_orbit_and_all_of_an_orbit_agree():
    for code in [*range(0xD800), *range(0xE000, 0x1F000)]:
        orbit = _orbit(chr(code))
        assert chr(code) in orbit
        assert all(set(_orbit(each)) == set(orbit) for each in orbit), hex(code)


def test_a_pattern_with_very_many_moves_forgets_and_goes_on():
    matches = compile_pattern(".*x").matches
    assert matches("".join(map(chr, range(256, 20_000))) + "x")
    assert not matches("".join(map(chr, range(256, 20_000))))


ATOMS = st.sampled_from(
    [
        *("a", "b", "Z", "0", "-", "_", ".", r"\.", "[ab]", "[^a]", "[a-c0-9]", "[a.]", r"[\w-]", "()"),
        *(r"\d", r"\w", r"\W", r"\b", r"\B", "^", "$"),
    ]
)


def _joined(inner):
    suffix = st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "{1,3}", "*?", "+?", "{0,}"])
    return st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        st.tuples(inner, suffix).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        inner.map(lambda one: f"(?i:{one})"),
        inner.map(lambda one: f"({one})"),
    )


@given(st.recursive(ATOMS, _joined, max_leaves=8), st.lists(st.text("abZzA0.-_", min_size=1, max_size=6), max_size=6))
def test_it_agrees_with_pythons_matcher(pattern, texts):
    # Python's $ also holds before a last line break, and its \\B not in an empty text; RE2's are as here.
    matches, oracle = compile_pattern(pattern).matches, re.compile(pattern, re.ASCII)
    for text in texts:
        assert matches(text) == (oracle.fullmatch(text) is not None), text


def test_a_clever_expression_is_matched_in_pieces_and_within_a_budget():
    automaton = compile_pattern("(?:.?.?){490}z")
    budget = Budget(1_000_000, "matching")
    pieces, left, largest = automaton.match_in_pieces("a" * 249, budget), budget.left, 0
    with suppress(StopIteration):
        while True:
            next(pieces)
            left, largest = budget.left, max(largest, left - budget.left)
    assert PIECE_STEPS <= largest < 3 * PIECE_STEPS
    with pytest.raises(BudgetExceeded):
        automaton.matches("b" * 249, Budget(10_000, "matching"))


@pytest.mark.parametrize("pattern", ["[" + "[:" * 4_999, "[" + "a-b" * 3_332 + "]*", r"[\d\w\s\pL]" * 800, "|" * 9_999])
def test_the_largest_expressions_are_read_and_matched_at_once(pattern):
    began = time.thread_time()
    with suppress(InvalidRegularExpression):
        compile_pattern(pattern).matches("x" * 50)
    assert time.thread_time() - began < 0.5  # seconds of CPU, when each part is read to the end from every place


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("[c-fa-be-k\\d[:upper:]]", "abcdek7Z", "lz-"),
        ("[^c-fa-be-k\\d[:upper:]]", "lz-", "abcdek7Z"),
        ("(?i)[K-Mx]", "klmKLMxX\u212a", "jn"),
        ("[aa-ca]", "abc", "d"),
    ],
)
def test_a_class_of_ranges_that_overlap(pattern, matching, others):
    automaton = compile_pattern(pattern)
    assert [char for char in matching if not automaton.matches(char)] == []
    assert [char for char in others if automaton.matches(char)] == []
