r"""How a consumed record is printed: kcat's letters, JSON, or the value alone.

    %s value      %S its length, -1 when there is none    %R its length as four bytes, big-endian
    %k key        %K its length
    %t topic      %p partition    %o offset    %T timestamp in milliseconds
    %h headers as name=value,name=value        %% a percent sign
    \n \t \r \\ \0 and \xHH stand for the bytes they name

1. A format is read once into parts and then only joined; a letter that does not exist is refused when it is read.
2. Bytes come out as they are: the output of `ottla consume` is what was produced, not a picture of it.
3. JSON has one object per line. Bytes that are no text are in base64 and say so by the name ("value_base64").
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from ottla.cli.output import Failure


class Printable(Protocol):
    """What is printed of a record."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Any: ...


Part = Callable[[Printable], bytes]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(record: Printable) -> bytes:
    return b",".join(key.encode() + b"=" + (b"NULL" if value is None else value) for key, value in record.headers)


LETTERS: Final[Mapping[str, Part]] = {
    "s": lambda record: record.value or b"",
    "v": lambda record: record.value or b"",
    "S": lambda record: b"%d" % _length(record.value),
    "R": lambda record: struct.pack(">i", _length(record.value)),
    "k": lambda record: record.key or b"",
    "K": lambda record: b"%d" % _length(record.key),
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "h": _headers,
}
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}
_TOKEN: Final = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)


def formatter(text: str) -> Part:
    """A function that prints a record as `text` says."""
    parts: list[bytes | Part] = [_part(found, text) for found in _TOKEN.finditer(text)]

    def printed(record: Printable) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in parts])

    return printed


def _part(found: re.Match[str], text: str) -> bytes | Part:
    letter, code, escape, plain, _ = found.groups()
    if letter == "%":
        return b"%"
    if letter in LETTERS:
        return LETTERS[letter]
    if code is not None:
        return bytes.fromhex(code)
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    if plain is not None:
        return plain.encode()
    known = ", ".join(f"%{each}" for each in LETTERS)
    raise Failure(f"the format {text!r} has {found[0]!r}, which means nothing. Known are {known}, %% and \\n \\t \\xHH")


def as_json(record: Printable) -> bytes:
    """The record as one line of JSON."""
    shown: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    _put(shown, "key", record.key)
    _put(shown, "value", record.value)
    if headers := list(record.headers):
        shown["headers"] = [_header(key, value) for key, value in headers]
    return json.dumps(shown, ensure_ascii=False).encode() + b"\n"


def _header(key: str, value: bytes | None) -> dict[str, object]:
    shown: dict[str, object] = {"key": key}
    _put(shown, "value", value)
    return shown


def _put(shown: dict[str, object], name: str, data: bytes | None) -> None:
    try:
        shown[name] = None if data is None else data.decode()
    except UnicodeDecodeError:
        shown[f"{name}_base64"] = base64.b64encode(data or b"").decode()
