"""The words of a .proto file: names, numbers, strings and signs, without comments and spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.schemas.model import InvalidSchema

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]+|//[^\n]*)
      | (?P<comment>/\*)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
      | (?P<string>"(?:[^"\\\n]++|\\.)*+"|'(?:[^'\\\n]++|\\.)*+')
      | (?P<sign>[{}\[\]()<>=;:,.+/-])""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(rb"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_NAMED_ESCAPES: Final = {b"a": 7, b"b": 8, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11}
TOKENS_MAX: Final = 500_000


class Token(NamedTuple):
    kind: str
    text: str
    at: int


def tokens(text: str) -> Iterator[Token]:
    """The words of a text; InvalidSchema where it has something that is none."""
    position = count = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise InvalidSchema(f"line {line_of(text, position)}: {text[position : position + 20]!r} is no Protobuf")
        position = found.end()
        if found.lastgroup == "comment":  # its end is searched, and not matched character by character
            end = text.find("*/", position)
            if end < 0:
                raise InvalidSchema(f"line {line_of(text, found.start())}: the comment that begins here has no end")
            position = end + len("*/")
        elif found.lastgroup != "space":
            count += 1
            if count > TOKENS_MAX:
                raise InvalidSchema(f"it has more than {TOKENS_MAX} words")
            yield Token(found.lastgroup or "", found.group(), found.start())


def words_of(text: str) -> str:
    """The words with single spaces between them: the same for texts that differ in comments and spaces."""
    return " ".join(each.text for each in tokens(text))


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def string_bytes(literal: str) -> bytes:
    """What stands between the quotes, with its escapes read."""

    def escaped(found: re.Match[bytes]) -> bytes:
        if found[1] is not None:
            return bytes([int(found[1], 16)])
        if found[2] is not None:
            return bytes([int(found[2], 8) & 0xFF])
        return bytes([_NAMED_ESCAPES.get(found[3], found[3][0])])

    return _ESCAPE.sub(escaped, literal[1:-1].encode())


def quoted(content: bytes) -> str:
    """A string literal of these bytes."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return (
            '"'
            + "".join(chr(each) if 32 <= each < 127 and each not in b'"\\' else f"\\{each:03o}" for each in content)
            + '"'
        )
    for plain, literal in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(plain, literal)
    return f'"{text}"'
