"""The text of a regular expression becomes a tree; the syntax is RE2's.

Whatever RE2 does not have (back references, looking around, possessive repetition) and what we do not have (scripts in
\\p, \\C) is refused with RE2's words. Lazy repetition is read and means nothing: a name matches or it does not.
"""

from __future__ import annotations

import string
import unicodedata
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")
REPEAT_LIMIT: Final = 1000
DEPTH_LIMIT: Final = 100
TEXT_LIMIT: Final = 10_000


class PatternError(ValueError):
    """The text is not a regular expression."""


class Edge(Enum):
    BEGIN = 1
    END = 2
    WORD = 3
    NO_WORD = 4


@dataclass(frozen=True, slots=True)
class Characters:
    characters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Assertion:
    edge: Edge


@dataclass(frozen=True, slots=True)
class Sequence:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    node: Node
    least: int
    most: int | None


Node: TypeAlias = "Characters | Assertion | Sequence | Alternatives | Repeat"

_DIGITS: Final = frozenset(string.digits)
_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_PERL: Final = {"d": _DIGITS, "w": _WORD, "s": frozenset[str]()}
_POSIX: Final = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": ALPHABET,
    "blank": frozenset[str](),
    "cntrl": frozenset[str](),
    "digit": _DIGITS,
    "graph": ALPHABET,
    "lower": frozenset(string.ascii_lowercase),
    "print": ALPHABET,
    "punct": frozenset("._-"),
    "space": frozenset[str](),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
# Letters and their second letters, as Unicode names its general categories.
_CATEGORIES: Final = frozenset(
    major + minor
    for major, minors in {
        "C": "cfnos",
        "L": "lmotu",
        "M": "cen",
        "N": "dlo",
        "P": "cdefios",
        "S": "ckmo",
        "Z": "lps",
    }.items()
    for minor in ("", *minors)
) | {"Any"}
_EDGES: Final = {"A": Edge.BEGIN, "z": Edge.END, "b": Edge.WORD, "B": Edge.NO_WORD}
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Parser:
    def __init__(self, text: str) -> None:
        if len(text) > TEXT_LIMIT:
            raise PatternError("expression is too large")
        self._text = text
        self._at = 0
        self._depth = 0
        self._folds_case = False

    def parse(self) -> Node:
        tree = self._alternatives()
        if self._at < len(self._text):
            raise PatternError("unexpected )")
        return tree

    # -- reading -----------------------------------------------------------------------------------------------------

    def _takes(self, what: str) -> bool:
        found = self._text.startswith(what, self._at)
        self._at += len(what) if found else 0
        return found

    def _next(self, why: str) -> str:
        if self._at >= len(self._text):
            raise PatternError(why)
        self._at += 1
        return self._text[self._at - 1]

    def _until(self, end: str, why: str) -> str:
        found = self._text.find(end, self._at)
        if found < 0:
            raise PatternError(why)
        taken = self._text[self._at : found]
        self._at = found + len(end)
        return taken

    # -- structure ---------------------------------------------------------------------------------------------------

    def _alternatives(self) -> Node:
        ways = [self._sequence()]
        while self._takes("|"):
            ways.append(self._sequence())
        return ways[0] if len(ways) == 1 else Alternatives(tuple(ways))

    def _sequence(self) -> Node:
        nodes: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._takes("\\Q"):
                nodes += [self._literal(each) for each in self._quoted()] or [Sequence(())]
                nodes.append(self._repeated(nodes.pop()))
                continue
            node = self._atom()
            # Flags are not there for what follows them: a repetition means what stands before them.
            before = node or (nodes.pop() if nodes else None)
            if before is not None:
                nodes.append(self._repeated(before))
            elif self._bounds() is not None:
                raise PatternError("missing argument to repetition operator")
        return Sequence(tuple(nodes))

    def _quoted(self) -> str:
        end = self._text.find("\\E", self._at)
        stop = len(self._text) if end < 0 else end
        taken = self._text[self._at : stop]
        self._at = stop if end < 0 else end + 2
        return taken

    def _repeated(self, node: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        self._takes("?")
        before = self._at
        if self._bounds() is not None:
            raise PatternError(f"invalid nested repetition operator: `{self._text[before - 1 : self._at]}`")
        return Repeat(node, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._takes(sign):
                return least, most
        end = self._text.find("}", self._at)
        if not self._text.startswith("{", self._at) or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            return None  # RE2 takes `{` as itself then
        self._at = end + 1
        bounds = int(low), (int(high) if high else None) if comma else int(low)
        if bounds[0] > REPEAT_LIMIT or (bounds[1] is not None and not bounds[0] <= bounds[1] <= REPEAT_LIMIT):
            raise PatternError(f"invalid repeat count: `{{{low}{comma}{high}}}`")
        return bounds

    # -- atoms -------------------------------------------------------------------------------------------------------

    def _atom(self) -> Node | None:
        """None when it was nothing but flags."""
        start = self._at
        if self._bounds() is not None:
            raise PatternError(f"missing argument to repetition operator: `{self._text[start : self._at]}`")
        sign = self._next("missing argument")
        match sign:
            case "(":
                return self._group()
            case "[":
                return Characters(self._class())
            case ".":
                return Characters(ALPHABET)
            case "^":
                return Assertion(Edge.BEGIN)
            case "$":
                return Assertion(Edge.END)
            case "\\":
                return self._escaped()
        return self._literal(sign)

    def _literal(self, character: str) -> Characters:
        return Characters(self._folded(frozenset([character])) & ALPHABET)

    def _folded(self, characters: frozenset[str]) -> frozenset[str]:
        if not self._folds_case:
            return characters
        return characters | {each.swapcase() for each in characters}

    def _group(self) -> Node | None:
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            raise PatternError("expression nests too deeply")
        folds_case = self._folds_case
        tree: Node | None = None
        if not self._takes("?") or self._named() or self._flags():
            tree = self._alternatives()
            if not self._takes(")"):
                raise PatternError("missing closing )")
            self._folds_case = folds_case
        # else: (?i) was all of it, and holds to the end of the group around it
        self._depth -= 1
        return tree

    def _named(self) -> bool:
        if not self._takes("P<") and not (
            self._text.startswith("<", self._at) and self._text[self._at + 1 : self._at + 2] not in ("=", "!")
        ):
            return False
        self._takes("<")
        name = self._until(">", "invalid named capture")
        if not name or not all(each in _WORD for each in name):
            raise PatternError(f"invalid named capture: `{name}`")
        return True

    def _flags(self) -> bool:
        """Read flags; True when they are followed by an expression of their own."""
        is_on = True
        while True:
            flag = self._next("missing closing )")
            if flag == "i":
                self._folds_case = is_on
            elif flag == "-" and is_on:
                is_on = False
            elif flag in ":)":
                return flag == ":"
            elif flag not in "msU":  # a name has no lines, and laziness means nothing
                raise PatternError("invalid or unsupported Perl syntax: `(?`")

    def _escaped(self) -> Node:
        sign = self._next("trailing backslash at end of expression")
        if sign in _EDGES:
            return Assertion(_EDGES[sign])
        found = self._escaped_set(sign)
        return self._literal(self._escaped_character(sign)) if found is None else Characters(found)

    def _escaped_set(self, sign: str) -> frozenset[str] | None:
        if sign.lower() in _PERL:
            found = _PERL[sign.lower()] & ALPHABET
            return found if sign.islower() else ALPHABET - found
        if sign in "pP":
            return self._category(negated=sign == "P")
        return None

    def _escaped_character(self, sign: str) -> str:
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign == "x":
            digits = (
                self._until("}", "invalid escape sequence") if self._takes("{") else self._next("") + self._next("")
            )
            return _code_point(digits, 16)
        if sign == "0" or (sign in "1234567" and self._text[self._at : self._at + 1] in tuple("01234567")):
            digits = sign
            while len(digits) < 3 and self._text[self._at : self._at + 1] in tuple("01234567"):
                digits += self._next("")
            return _code_point(digits, 8)
        if sign.isascii() and sign.isalnum():
            raise PatternError(f"invalid escape sequence: `\\{sign}`")
        return sign

    def _category(self, *, negated: bool) -> frozenset[str]:
        name = self._until("}", "invalid character class range") if self._takes("{") else self._next("missing argument")
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if name not in _CATEGORIES:
            raise PatternError(f"invalid character class range: `\\p{{{name}}}`")
        known = (each for each in ALPHABET if name == "Any" or unicodedata.category(each).startswith(name))
        found = self._folded(frozenset(known)) & ALPHABET
        return ALPHABET - found if negated else found

    # -- classes -----------------------------------------------------------------------------------------------------

    def _class(self) -> frozenset[str]:
        negated = self._takes("^")
        found: frozenset[str] = frozenset()
        is_first = True
        while is_first or not self._takes("]"):
            is_first = False
            found |= self._class_item()
        found = self._folded(found) & ALPHABET
        return ALPHABET - found if negated else found

    def _class_item(self) -> frozenset[str]:
        why = "missing closing ]"
        if self._takes("[:"):
            negated = self._takes("^")
            name = self._until(":]", why)
            if name not in _POSIX:
                raise PatternError(f"invalid character class range: `[:{name}:]`")
            return ALPHABET - _POSIX[name] if negated else _POSIX[name] & ALPHABET
        sign = self._next(why)
        if sign == "\\":
            sign = self._next(why)
            known = self._escaped_set(sign)
            if known is not None:
                return known
            sign = self._escaped_character(sign)
        if not self._text.startswith("-", self._at) or self._text[self._at + 1 : self._at + 2] in ("", "]"):
            return frozenset([sign])
        self._at += 1
        end = self._next(why)
        end = self._escaped_character(self._next(why)) if end == "\\" else end
        if end < sign:
            raise PatternError(f"invalid character class range: `{sign}-{end}`")
        return frozenset(each for each in ALPHABET if sign <= each <= end)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6


def _code_point(digits: str, base: int) -> str:
    try:
        return chr(int(digits, base))
    except (ValueError, OverflowError):
        raise PatternError(f"invalid escape sequence: `{digits}`") from None
