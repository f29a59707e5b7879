"""RE2's syntax for regular expressions, read into a tree.

What Kafka takes from clients as a pattern (ListTransactions, subscriptions of KIP-848) is written for RE2: Perl's
syntax without what needs backtracking. Read here: literals, `.`, classes with ranges, negation, [[:names:]], escapes,
groups (plain, named, (?:...), (?flags), (?flags:...)), `|`, `* + ? {n} {n,} {n,m}` greedy or lazy,
`^ $ \\A \\z \\b \\B \\d \\w \\s \\Q...\\E \\xHH \\x{...} \\pN \\p{Nd}` and their opposites. Flags: i, m, s, U.

1. Backreferences, look-around, possessive repeats, \\C, octal escapes and scripts (\\p{Greek}) are refused. RE2
   knows the last two; they have no use on names.
2. Everything is bounded: the pattern by PATTERN_LIMIT characters, groups by DEPTH_LIMIT, counts by REPEAT_LIMIT.
3. Anything that cannot be read raises InvalidRegularExpression with the place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.errors import InvalidRegularExpression

PATTERN_LIMIT: Final = 1_000
DEPTH_LIMIT: Final = 50
REPEAT_LIMIT: Final = 1_000

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
    """`most` None is without end."""

    part: Node
    least: int
    most: int | None


@dataclass(frozen=True)
class Place:
    """A condition on the place: "start", "end", "line_start", "line_end", "word_edge" or "no_word_edge"."""

    kind: str


Node: TypeAlias = Chars | Sequence | Choice | Repeat | Place

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
_COUNT: Final = re.compile(r"\{(\d{1,5})(?:(,)(\d{1,5})?)?\}")
_GROUP: Final = re.compile(r"\((?:\?(?:P?<([A-Za-z0-9_]+)>|([imsU]*)(?:-([imsU]+))?([:)])))?")
_HEX: Final = re.compile(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})")
_CATEGORY: Final = re.compile(r"\\[pP](?:([A-Z])|\{(\^?)([A-Z][a-z]?)\})")
_NAMED_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")


def parse(pattern: str) -> Node:
    """The tree of a pattern."""
    if len(pattern) > PATTERN_LIMIT:
        raise InvalidRegularExpression(f"the pattern has {len(pattern)} characters; the limit is {PATTERN_LIMIT}")
    reader = _Reader(pattern)
    node = reader.choice(frozenset(), 0)
    if reader.at < len(pattern):
        raise reader.refused("there is no group to close")
    return node


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def refused(self, why: str) -> InvalidRegularExpression:
        return InvalidRegularExpression(f"at character {self.at + 1} of the pattern: {why}")

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

    def choice(self, flags: frozenset[str], depth: int) -> Node:
        if depth > DEPTH_LIMIT:
            raise self.refused(f"groups are nested deeper than {DEPTH_LIMIT}")
        parts: list[Node] = []
        current: list[Node] = []
        while self._next() not in ("", ")"):
            if self._take("|"):
                parts.append(Sequence(tuple(current)))
                current = []
            elif (group := self._group()) is None:
                current.append(self._repeated(self._atom(flags)))
            elif group[1]:
                flags = _changed(flags, group[0])
            else:
                inner = self.choice(_changed(flags, group[0]), depth + 1)
                if not self._take(")"):
                    raise self.refused("a group is not closed")
                current.append(self._repeated(inner))
        parts.append(Sequence(tuple(current)))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _group(self) -> tuple[tuple[str, str], bool] | None:
        """(flags that come and go, whether they hold for the rest of the group around); None when no group opens."""
        if self._next() != "(":
            return None
        found = self._match(_GROUP)
        if found is None or (found.end() - found.start() == 1 and self._next() == "?"):
            raise self.refused("this kind of group is not known")
        return (found[2] or "", found[3] or ""), found[4] == ")"

    def _repeated(self, node: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        least, most = bounds
        if max(least, most or 0) > REPEAT_LIMIT or (most is not None and most < least):
            raise self.refused(f"a repeat of {least} to {most} times is not possible; the limit is {REPEAT_LIMIT}")
        self._take("?")  # lazy or greedy: what matches as a whole is the same
        if self._bounds() is not None:
            raise self.refused("there is nothing to repeat")
        return Repeat(node, least, most)

    def _bounds(self) -> tuple[int, int | None] | None:
        for text, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(text):
                return bounds
        found = self._match(_COUNT)
        if found is None:
            return None
        least = int(found[1])
        return least, int(found[3]) if found[3] else None if found[2] else least

    # -- one character or place --------------------------------------------------------------------------------------

    def _atom(self, flags: frozenset[str]) -> Node:
        char = self._next()
        if char in "*+?":
            raise self.refused("there is nothing to repeat")
        if char == "[":
            return Chars(_cased(self._class(), flags))
        if char == "\\":
            return self._escape(flags)
        self.at += 1
        if char == ".":
            return Chars(lambda each: "s" in flags or each != "\n")
        if char == "^":
            return Place("line_start" if "m" in flags else "start")
        if char == "$":
            return Place("line_end" if "m" in flags else "end")
        return Chars(_cased(char.__eq__, flags))

    def _escape(self, flags: frozenset[str]) -> Node:
        if self._take("\\Q"):
            end = self.pattern.find("\\E", self.at)
            text = self.pattern[self.at : end if end >= 0 else None]
            self.at += len(text) + (2 if end >= 0 else 0)
            return Sequence(tuple(Chars(_cased(char.__eq__, flags)) for char in text))
        kind = self.pattern[self.at + 1 : self.at + 2]
        if kind in _PLACES:
            self.at += 2
            return Place(_PLACES[kind])
        return Chars(_cased(self._escaped_class() or self._escaped_char().__eq__, flags))

    def _escaped_class(self) -> Matches | None:
        """\\d, \\W, \\pL and the like; None when the escape stands for one character."""
        kind = self.pattern[self.at + 1 : self.at + 2]
        if kind.lower() in _PERL and kind:
            self.at += 2
            return _unless(kind.isupper(), _PERL[kind.lower()].__contains__)
        if kind not in ("p", "P"):
            return None
        found = self._match(_CATEGORY)
        if found is None:
            raise self.refused("only general categories like \\p{Lu} are known")
        category = found[1] or found[3]
        return _unless((kind == "P") != (found[2] == "^"), lambda char: unicodedata.category(char).startswith(category))

    def _escaped_char(self) -> str:
        found = self._match(_HEX)
        if found is not None:
            code = int(found[1] or found[2], 16)
            if code > 0x10FFFF:
                raise self.refused("there is no such character")
            return chr(code)
        kind = self.pattern[self.at + 1 : self.at + 2]
        if not kind or (kind in WORD and kind not in _CONTROL and kind != "_"):
            raise self.refused(f"the escape \\{kind} is not known")
        self.at += 2
        return _CONTROL.get(kind, kind)

    def _class(self) -> Matches:
        self.at += 1
        is_negated = self._take("^")
        parts: list[Matches] = []
        while not (self._next() == "]" and parts):
            if not self._next():
                raise self.refused("a class is not closed")
            parts.append(self._class_part())
        self.at += 1
        return _unless(is_negated, lambda char: any(matches(char) for matches in parts))

    def _class_part(self) -> Matches:
        if self._next() == "[" and (found := self._match(_NAMED_CLASS)) is not None:
            if found[2] not in _NAMED:
                raise self.refused(f"the class {found[2]} is not known")
            return _unless(bool(found[1]), _NAMED[found[2]].__contains__)
        if self._next() == "\\" and (matches := self._escaped_class()) is not None:
            return matches
        first = last = self._class_char()
        if self._next() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
            self.at += 1
            last = self._class_char()
            if last < first:
                raise self.refused(f"the range {first}-{last} goes backwards")
        return lambda char: first <= char <= last

    def _class_char(self) -> str:
        if self._next() == "\\":
            return self._escaped_char()
        self.at += 1
        return self.pattern[self.at - 1]


def _unless(is_negated: bool, matches: Matches) -> Matches:
    return (lambda char: not matches(char)) if is_negated else matches


def _cased(matches: Matches, flags: frozenset[str]) -> Matches:
    if "i" not in flags:
        return matches
    return lambda char: matches(char) or matches(char.lower()) or matches(char.upper())


def _changed(flags: frozenset[str], change: tuple[str, str]) -> frozenset[str]:
    return (flags | set(change[0])) - set(change[1])
