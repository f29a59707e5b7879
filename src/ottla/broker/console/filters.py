"""A small language for choosing records: comparisons of paths and values, joined by and, or, not.

    value.user.country == "CZ" and value.total >= 100
    key startswith "user-" or headers.trace contains "beef"
    not value.items[0].sku in ("A1", "A2") and offset > 5000

    paths       key, value, headers.NAME, offset, partition, timestamp, size; value and key go into JSON by .name,
                ["name"] and [0]; a path that leads nowhere is null
    values      "text" or 'text', numbers, true, false, null, lists of them in brackets after `in`
    operators   == != < <= > >= contains startswith endswith in; a path alone asks whether it is there and not false

1. It is parsed into functions of this file and nothing else: there are no names but the paths, no calls, no patterns.
   A record cannot make it fail: what cannot be compared is not equal and not smaller.
2. Bounded: LENGTH_LIMIT characters, DEPTH_LIMIT brackets and nots within each other.
3. JSON is read once for a record, when the first path goes into it; so are records that name a schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.bounded_json import read_json
from ottla.broker.http.parts import Json
from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.registry.readers import ReadRecord

LENGTH_LIMIT: Final = 1_000
DEPTH_LIMIT: Final = 40
JSON_LIMIT_BYTES: Final = 1024 * 1024
FRAME_BYTES: Final = 5

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_-]*)
      | (?P<sign>==|!=|<=|>=|<|>|\(|\)|\[|\]|,|\.)
    )""",
    re.VERBOSE,
)
_WORDS: Final = {"true": True, "false": False, "null": None}
_COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=", "contains", "startswith", "endswith", "in")
_ROOTS: Final = ("key", "value", "headers", "offset", "partition", "timestamp", "size")


class BadFilter(OttlaError):
    """The filter cannot be read. Correct it where the message points."""


class BothRead(NamedTuple):
    """What key and value are by the schemas that they name; None where they name none."""

    key: ReadRecord | None = None
    value: ReadRecord | None = None


NOTHING_READ: Final = BothRead()


class Candidate:
    """A record as filters see it."""

    __slots__ = ("_read", "headers", "key", "offset", "partition", "read", "timestamp_ms", "value")

    def __init__(
        self,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        read: BothRead = NOTHING_READ,
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self._read: dict[str, Json] = {}
        self.read = read

    def root(self, name: str) -> Json:
        if name in ("key", "value"):
            if name not in self._read:
                self._read[name] = self._value(
                    *((self.key, self.read.key) if name == "key" else (self.value, self.read.value))
                )
            return self._read[name]
        if name == "headers":
            return {header: as_text(content) for header, content in self.headers}
        if name == "timestamp":
            return self.timestamp_ms
        if name == "size":
            return len(self.key or b"") + len(self.value or b"")
        return self.offset if name == "offset" else self.partition

    @staticmethod
    def _value(content: bytes | None, found: ReadRecord | None) -> Json:
        return found.value if found is not None and found.is_read else json_or_text(content)

    def text(self, name: str) -> str:
        return as_text(self.key if name == "key" else self.value) or ""


def as_text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")


def json_or_text(content: bytes | None) -> Json:
    """What a key or value holds: JSON where it is, otherwise its text."""
    if content is None:
        return None
    if content[:1] == b"\x00" and content[FRAME_BYTES : FRAME_BYTES + 1] in (b"{", b"["):
        content = content[FRAME_BYTES:]  # the frame of a schema registry
    if content[:1] in b'{["-0123456789tfn' and len(content) <= JSON_LIMIT_BYTES:
        try:
            found: Json = read_json(content)
            return found
        except (ValueError, RecursionError):
            pass
    return as_text(content)


Value: TypeAlias = Callable[[Candidate], Json]
Test: TypeAlias = Callable[[Candidate], bool]


def text_filter(text: str) -> Test:
    """Records that have this text in key, value or a header, whatever its case."""
    wanted = text.lower().encode()

    def holds(record: Candidate) -> bool:
        return (
            wanted in (record.key or b"").lower()
            or wanted in (record.value or b"").lower()
            or any(
                wanted in name.lower().encode() or wanted in (value or b"").lower() for name, value in record.headers
            )
        )

    return holds


def parse_filter(text: str) -> Test:
    """The test that a filter says; BadFilter with the place where it cannot be read."""
    if len(text) > LENGTH_LIMIT:
        raise BadFilter(f"a filter has at most {LENGTH_LIMIT} characters")
    parser = _Parser(_tokens(text))
    test = parser.either(0)
    parser.end()
    return test


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise BadFilter(f"{text[position:].strip()[:20]!r} at character {position + 1} means nothing here")
        kind = match.lastgroup or ""
        found.append(_Token(kind, match[kind], match.start(kind) + 1))
        position = match.end()
    return [*found, _Token("end", "", len(text) + 1)]


class _Parser:
    """One token after the other, by the rule that its method is named for."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _accept(self, *texts: str) -> str | None:
        token = self._token
        if token.kind in ("name", "sign") and token.text in texts:
            self._next += 1
            return token.text
        return None

    def _expect(self, text: str) -> None:
        if self._accept(text) is None:
            raise self._wrong(f"{text!r} is missing")

    def _wrong(self, what: str) -> BadFilter:
        token = self._token
        where = "at the end" if token.kind == "end" else f"before {token.text[:20]!r}, character {token.at}"
        return BadFilter(f"{what} {where}")

    def end(self) -> None:
        if self._token.kind != "end":
            raise self._wrong("there is too much")

    def either(self, depth: int) -> Test:
        tests = [self._both(depth)]
        while self._accept("or"):
            tests.append(self._both(depth))
        return tests[0] if len(tests) == 1 else lambda record: any(test(record) for test in tests)

    def _both(self, depth: int) -> Test:
        tests = [self._one(depth)]
        while self._accept("and"):
            tests.append(self._one(depth))
        return tests[0] if len(tests) == 1 else lambda record: all(test(record) for test in tests)

    def _one(self, depth: int) -> Test:
        if depth > DEPTH_LIMIT:
            raise self._wrong("there are too many brackets and nots")
        if self._accept("not"):
            test = self._one(depth + 1)
            return lambda record: not test(record)
        if self._accept("("):
            test = self.either(depth + 1)
            self._expect(")")
            return test
        return self._comparison()

    def _comparison(self) -> Test:
        left = self._value()
        operator = self._accept(*_COMPARISONS)
        if operator is None:
            return lambda record: left(record) not in (None, False)
        if operator == "in":
            members = self._members()
            return lambda record: any(_is_same(left(record), each) for each in members)
        right = self._value()
        compare = _OPERATORS[operator]
        return lambda record: compare(left(record), right(record))

    def _members(self) -> list[Json]:
        self._expect("(")
        members = [self._literal()]
        while self._accept(","):
            members.append(self._literal())
        self._expect(")")
        return members

    def _value(self) -> Value:
        token = self._token
        if token.kind == "name" and token.text in _ROOTS:
            return self._path()
        literal = self._literal()
        return lambda record: literal

    def _literal(self) -> Json:
        token = self._token
        self._next += token.kind != "end"
        if token.kind == "text":
            return _unquoted(token)
        if token.kind == "number":
            number: Json = json.loads(token.text) if not token.text.lstrip("-").startswith("0") else float(token.text)
            return number
        if token.kind == "name" and token.text in _WORDS:
            return _WORDS[token.text]
        self._next -= token.kind != "end"
        raise self._wrong(f"a value or one of {', '.join(_ROOTS)} is missing")

    def _path(self) -> Value:
        root = self._token.text
        self._next += 1
        steps: list[str | int] = []
        while sign := self._accept(".", "["):
            token = self._token
            if sign == "." and token.kind == "name":
                self._next += 1
                steps.append(token.text)
            elif sign == "[" and token.kind in ("number", "text"):
                self._next += 1
                steps.append(_unquoted(token) if token.kind == "text" else _index(token))
                self._expect("]")
            else:
                raise self._wrong("a name or a number is missing")
        return lambda record: _follow(record.root(root), steps)


def _unquoted(token: _Token) -> str:
    return re.sub(r"\\(.)", r"\1", token.text[1:-1])


def _index(token: _Token) -> int:
    try:
        return int(token.text)
    except ValueError:
        raise BadFilter(f"{token.text} at character {token.at} is no place in a list") from None


def _follow(found: Json, steps: Sequence[str | int]) -> Json:
    for step in steps:
        if isinstance(step, str) and isinstance(found, Mapping):
            found = found.get(step)
        elif isinstance(step, int) and isinstance(found, list) and -len(found) <= step < len(found):
            found = found[step]
        else:
            return None
    return found


# -- comparing --------------------------------------------------------------------------------------------------------


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(left: Json, right: Json) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _order(left: Json, right: Json) -> int | None:
    """-1, 0 or 1; None where two values have no order."""
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    if isinstance(left, int | float) and isinstance(right, int | float) and _is_number(left) and _is_number(right):
        return (left > right) - (left < right)
    return None


def _contains(left: Json, right: Json) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    if isinstance(left, Mapping):
        return isinstance(right, str) and right in left
    return isinstance(left, list) and any(_is_same(each, right) for each in left)


_OPERATORS: Final[dict[str, Callable[[Json, Json], bool]]] = {
    "==": _is_same,
    "!=": lambda left, right: not _is_same(left, right),
    "<": lambda left, right: _order(left, right) == -1,
    "<=": lambda left, right: _order(left, right) in (-1, 0),
    ">": lambda left, right: _order(left, right) == 1,
    ">=": lambda left, right: _order(left, right) in (1, 0),
    "contains": _contains,
    "startswith": lambda left, right: isinstance(left, str) and isinstance(right, str) and left.startswith(right),
    "endswith": lambda left, right: isinstance(left, str) and isinstance(right, str) and left.endswith(right),
}
