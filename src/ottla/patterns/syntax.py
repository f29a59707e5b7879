"""RE2's syntax for regular expressions, read into a tree.

What Kafka takes from clients as a pattern (ListTransactions, subscriptions of KIP-848) is written for RE2: Perl's
syntax without what needs backtracking. Read here: literals, `.`, classes with ranges, negation, [[:names:]], escapes,
groups (plain, named, (?:...), (?flags), (?flags:...)), `|`, `* + ? {n} {n,} {n,m}` greedy or lazy,
`^ $ \\A \\z \\b \\B \\d \\w \\s \\Q...\\E \\101 \\xHH \\x{...} \\pN \\p{Nd}` and their opposites. Flags: i, m, s, U.

1. What RE2 does not have (backreferences, look-around, possessive repeats, \\C) is refused, and of what it has, scripts
   (\\p{Greek}), which have no use on names. Nothing is guessed.
2. Case is folded before anything is negated: (?i)[^a] is neither a nor A.
3. Everything is bounded: the pattern by PATTERN_LIMIT characters, groups by DEPTH_LIMIT, counts by REPEAT_LIMIT.
4. Anything that cannot be read raises InvalidRegularExpression, with RE2's words, because clients see them.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

from ottla.errors import InvalidRegularExpression
from ottla.light_dataclasses import dataclass

PATTERN_LIMIT: Final = 10_000
DEPTH_LIMIT: Final = 100
REPEAT_LIMIT: Final = 1_000
CLASS_MEMORY: Final = 1_000

Matches: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True)
class Chars:
    """One character that passes."""

    matches: Matches


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Choice:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """`most` None is without end. A lazy one prefers fewer; that matters only to who asks what a group matched."""

    part: Node
    least: int
    most: int | None
    is_lazy: bool = False


@dataclass(frozen=True)
class Group:
    """A part that is remembered under a number, counted from 1 by opening parentheses."""

    part: Node
    number: int


@dataclass(frozen=True)
class Place:
    """A condition on the place: "start", "end", "line_start", "line_end", "word_edge" or "no_word_edge"."""

    kind: str


Node: TypeAlias = Chars | Sequence | Choice | Repeat | Group | Place

_DIGITS: Final = frozenset("0123456789")
_LOWER: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
WORD: Final = _DIGITS | _LOWER | _UPPER | {"_"}
_SPACE: Final = frozenset("\t\n\f\r ")
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_PERL: Final = {"d": _DIGITS, "w": WORD, "s": _SPACE}
_NAMED: Final = {
    "alnum": _DIGITS | _LOWER | _UPPER,
    "alpha": _LOWER | _UPPER,
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, [*range(32), 127])),
    "digit": _DIGITS,
    "graph": _DIGITS | _LOWER | _UPPER | _PUNCTUATION,
    "lower": _LOWER,
    "print": _DIGITS | _LOWER | _UPPER | _PUNCTUATION | {" "},
    "punct": _PUNCTUATION,
    "space": _SPACE | {"\v"},
    "upper": _UPPER,
    "word": WORD,
    "xdigit": _DIGITS | frozenset("abcdefABCDEF"),
}
_CONTROL: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_PLACES: Final = {"A": "start", "z": "end", "b": "word_edge", "B": "no_word_edge"}
_COUNT: Final = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
_NAME: Final = re.compile(r"\?P?<([A-Za-z0-9_]+)>")
_FLAGS: Final = re.compile(r"\?([imsU]*)(?:-([imsU]+))?([:)])")
_ESCAPED_CODE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]+)\}|(0[0-7]{0,2}|[1-7][0-7]{1,2}))")
_CATEGORY: Final = re.compile(r"\\[pP](?:([^{])|\{(\^?)([A-Za-z]+)\})")
# Bounded, because a class of nothing but "[:" would be read to its end from each of them.
_NAMED_CLASS: Final = re.compile(r"\[:(\^?)(.{0,20}?):\]", re.DOTALL)
# Letters and their second letters, as Unicode names its general categories; RE2 leaves out Cn, the unassigned.
_MINORS: Final = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
_CATEGORIES: Final = {major + minor for major, minors in _MINORS.items() for minor in ("", *minors)} | {"Any"}
# Characters that are the same but for their case, where there are more than a small and a capital one.
_ORBITS: Final = (
    *("Kk\u212a", "Ss\u017f", "\xb5\u039c\u03bc", "\xc5\xe5\u212b", "\xdf\u1e9e", "\u0131", "\u01c4\u01c5\u01c6"),
    *(
        "\u01c7\u01c8\u01c9",
        "\u01ca\u01cb\u01cc",
        "\u01f1\u01f2\u01f3",
        "\u0345\u0399\u03b9\u1fbe",
        "\u0392\u03b2\u03d0",
    ),
    *(
        "\u0395\u03b5\u03f5",
        "\u0398\u03b8\u03d1\u03f4",
        "\u039a\u03ba\u03f0",
        "\u03a0\u03c0\u03d6",
        "\u03a1\u03c1\u03f1",
    ),
    *("\u03a3\u03c2\u03c3", "\u03a6\u03c6\u03d5", "\u03a9\u03c9\u2126", "\u0412\u0432\u1c80", "\u0414\u0434\u1c81"),
    *(
        "\u041e\u043e\u1c82",
        "\u0421\u0441\u1c83",
        "\u0422\u0442\u1c84\u1c85",
        "\u042a\u044a\u1c86",
        "\u0462\u0463\u1c87",
    ),
    *("\u1c88\ua64a\ua64b", "\u1e60\u1e61\u1e9b"),
)
_ORBIT_OF: Final = {char: orbit for orbit in _ORBITS for char in orbit}


def parse(pattern: str) -> Node:
    """The tree of a pattern."""
    if len(pattern) > PATTERN_LIMIT:
        raise InvalidRegularExpression(
            f"expression is too large: {len(pattern)} characters, the limit is {PATTERN_LIMIT}"
        )
    reader = _Reader(pattern)
    node = reader.choice()
    if reader.at < len(pattern):
        raise InvalidRegularExpression("unexpected )")
    return node


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self._depth = 0
        self._flags: frozenset[str] = frozenset()
        self._names: set[str] = set()
        self._groups = 0

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _take(self, text: str) -> bool:
        if not self.pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def _match(self, wanted: re.Pattern[str]) -> re.Match[str] | None:
        found = wanted.match(self.pattern, self.at)
        if found is not None:
            self.at = found.end()
        return found

    # -- choices, sequences, repeats ---------------------------------------------------------------------------------

    def choice(self) -> Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._next() not in ("", "|", ")"):
            begin = self.at
            parts += self._atoms()
            # Flags and empty quotes are not there for a repeat that follows: it means what stands before them.
            start = self.at
            bounds = self._bounds()
            if bounds is None:
                continue
            if not parts:
                raise self._refused("missing argument to repetition operator", start)
            is_lazy = self._take("?") != ("U" in self._flags)
            # A `{` that counts nothing is itself, but RE2 on Java remembers it as a repeat.
            if self._bounds() is not None or self.pattern[begin:start] == "{":
                raise self._refused("invalid nested repetition operator", start)
            parts.append(Repeat(parts.pop(), *bounds, is_lazy=is_lazy))
        return Sequence(tuple(parts))

    def _bounds(self) -> tuple[int, int | None] | None:
        for text, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(text):
                return bounds
        found = self._match(_COUNT)
        if found is None:
            return None  # RE2 takes `{` as itself then
        if max(len(found[1]), len(found[3] or "")) > len(str(REPEAT_LIMIT)):
            raise self._refused("invalid repeat count", found.start())
        least = int(found[1])
        most = int(found[3]) if found[3] else None if found[2] else least
        if max(least, most or 0) > REPEAT_LIMIT or (most is not None and most < least):
            raise self._refused("invalid repeat count", found.start())
        return least, most

    def _refused(self, why: str, start: int) -> InvalidRegularExpression:
        return InvalidRegularExpression(f"{why}: `{self.pattern[start : self.at]}`")

    # -- groups ------------------------------------------------------------------------------------------------------

    def _group(self) -> list[Node]:
        """Nothing when it was only flags, which hold to the end of the group around them."""
        flags = self._flags
        is_remembered = self.pattern.startswith(("?<", "?P<"), self.at) or self._next() != "?"
        if self._next() == "?" and not self._opened():
            return []
        self._groups += is_remembered
        number = self._groups
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            raise InvalidRegularExpression(f"expression nests too deeply: the limit is {DEPTH_LIMIT}")
        node = self.choice()
        if not self._take(")"):
            raise InvalidRegularExpression("missing closing )")
        self._depth -= 1
        self._flags = flags
        return [Group(node, number) if is_remembered else node]

    def _opened(self) -> bool:
        """Read a name or flags; whether a group begins after them."""
        if self.pattern.startswith(("?<", "?P<"), self.at):
            name = self._match(_NAME)
            if name is None:
                raise InvalidRegularExpression("invalid named capture")
            if name[1] in self._names:
                raise InvalidRegularExpression(f"duplicate capture group name: `{name[1]}`")
            self._names.add(name[1])
            return True
        found = self._match(_FLAGS)
        if found is None:
            raise InvalidRegularExpression("invalid or unsupported Perl syntax: `(?`")
        self._flags = (self._flags | set(found[1])) - set(found[2] or "")
        return found[3] == ":"

    # -- one character or place --------------------------------------------------------------------------------------

    def _atoms(self) -> list[Node]:
        """What stands next: a group, a character or a place; many for a quote, none for a repeat, which needs one."""
        char = self._next()
        if char in "*+?" or (char == "{" and _COUNT.match(self.pattern, self.at)):
            return []
        if char == "\\":
            return self._escape()
        self.at += 1
        if char == "(":
            return self._group()
        if char == "[":
            return [Chars(self._class())]
        if char == ".":
            return [Chars(_anything if "s" in self._flags else "\n".__ne__)]
        if char == "^":
            return [Place("line_start" if "m" in self._flags else "start")]
        if char == "$":
            return [Place("line_end" if "m" in self._flags else "end")]
        return [self._literal(char)]

    def _literal(self, char: str) -> Chars:
        return Chars(frozenset(_orbit(char)).__contains__ if "i" in self._flags else char.__eq__)

    def _escape(self) -> list[Node]:
        if self._take("\\Q"):
            end = self.pattern.find("\\E", self.at)
            text = self.pattern[self.at : end if end >= 0 else None]
            self.at += len(text) + (2 if end >= 0 else 0)
            return [self._literal(char) for char in text]
        kind = self.pattern[self.at + 1 : self.at + 2]
        if kind in _PLACES:
            self.at += 2
            return [Place(_PLACES[kind])]
        matches = self._escaped_class()
        return [self._literal(self._escaped_char()) if matches is None else Chars(matches)]

    def _escaped_class(self) -> Matches | None:
        """\\d, \\W, \\pL and the like; None when the escape stands for one character."""
        kind = self.pattern[self.at + 1 : self.at + 2]
        if kind and kind in "dDsSwW":
            self.at += 2
            return _unless(kind.isupper(), self._cased(_PERL[kind.lower()].__contains__))
        if kind not in ("p", "P"):
            return None
        found = self._match(_CATEGORY)
        category = (found[1] or found[3]) if found else ""
        if found is None or category not in _CATEGORIES:
            raise InvalidRegularExpression(f"invalid character class range: `\\{kind}{{{category}}}`")
        return _unless((kind == "P") != (found[2] == "^"), self._cased(_in_category(category)))

    def _escaped_char(self) -> str:
        found = self._match(_ESCAPED_CODE)
        if found is not None:
            digits = (found[1] or found[2] or "0").lstrip("0")
            code = int(found[3], 8) if found[3] else int(digits[:7] or "0", 16)
            if code > 0x10FFFF:
                raise self._refused("invalid escape sequence", found.start())
            return chr(code)
        kind = self.pattern[self.at + 1 : self.at + 2]
        if not kind:
            raise InvalidRegularExpression("trailing backslash at end of expression")
        if kind in WORD and kind not in _CONTROL and kind != "_":
            raise InvalidRegularExpression(f"invalid escape sequence: `\\{kind}`")
        self.at += 2
        return _CONTROL.get(kind, kind)

    def _cased(self, matches: Matches) -> Matches:
        return (lambda char: any(map(matches, _orbit(char)))) if "i" in self._flags else matches

    # -- classes -----------------------------------------------------------------------------------------------------

    def _class(self) -> Matches:
        is_negated = self._take("^")
        ranges: list[tuple[str, str]] = []
        kinds: dict[str, Matches] = {}  # by how they are written: a class may name the same one thousands of times
        while not (self._next() == "]" and (ranges or kinds)):
            start = self.at
            kind = self._class_kind()
            if kind is None:
                ranges.append(self._class_range())
            else:
                kinds[self.pattern[start : self.at]] = kind
        self.at += 1
        parts = (self._cased(_in_ranges(ranges)), *kinds.values()) if ranges else tuple(kinds.values())
        # Remembered, because a class that is repeated would be asked as often for every character.
        return lru_cache(CLASS_MEMORY)(_unless(is_negated, lambda char: any(matches(char) for matches in parts)))

    def _class_kind(self) -> Matches | None:
        """[:alpha:], \\d and the like; None when a character or a range stands next."""
        if self._next() == "[" and (found := self._match(_NAMED_CLASS)) is not None:
            if found[2] not in _NAMED:
                raise InvalidRegularExpression(f"invalid character class range: `{found[0]}`")
            return _unless(bool(found[1]), self._cased(_NAMED[found[2]].__contains__))
        return self._escaped_class() if self._next() == "\\" else None

    def _class_range(self) -> tuple[str, str]:
        start = self.at
        first = last = self._class_char()
        if self._next() == "-" and self.pattern[self.at + 1 : self.at + 2] != "]":
            self.at += 1
            last = self._class_char()
            if last < first:
                raise self._refused("invalid character class range", start)
        return first, last

    def _class_char(self) -> str:
        if not self._next():
            raise InvalidRegularExpression("missing closing ]")
        if self._next() == "\\":
            return self._escaped_char()
        self.at += 1
        return self.pattern[self.at - 1]


def _anything(char: str) -> bool:
    return True


def _in_ranges(ranges: list[tuple[str, str]]) -> Matches:
    """By a binary search, because a class can have thousands of ranges."""
    merged: list[tuple[str, str]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    firsts = [first for first, _ in merged]
    lasts = [last for _, last in merged]

    def matches(char: str) -> bool:
        at = bisect_right(firsts, char) - 1
        return at >= 0 and char <= lasts[at]

    return matches


def _in_category(name: str) -> Matches:
    if name == "Any":
        return _anything
    return lambda char: (found := unicodedata.category(char)).startswith(name) and found != "Cn"


def _unless(is_negated: bool, matches: Matches) -> Matches:
    return (lambda char: not matches(char)) if is_negated else matches


def _orbit(char: str) -> str:
    """The character in all its cases; what becomes longer with its case (as the German sharp s) does not count."""
    if (found := _ORBIT_OF.get(char)) is not None:
        return found
    return "".join({each for each in (char, char.lower(), char.upper(), char.title()) if len(each) == 1})
