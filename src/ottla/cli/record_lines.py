r"""How lines become records to produce: the console producer's rules, read without touching a cluster.

    value
    key<TAB>value                                 with a key separator
    trace:7f,user:7<TAB>key<TAB>value             with headers too
    {"key": "k", "value": "v", "headers": [{"key": "trace", "value": "7f"}], "partition": 0, "timestamp": 1}

1. A line is what stands before the delimiter (a newline, unless another is given). The last one needs none; an empty
   line is a record with an empty value.
2. A line that does not have what it should have is an error with its number and what is missing, or is passed over
   and counted if the user asked for that.
3. The null marker, if there is one, stands for no value (a tombstone), no key, or a header without value.
4. JSON lines are what `ottla consume --format json` prints, so that one can be fed into the other; where they go is
   decided by the command, so "topic" and "offset" are passed over. A name that means nothing here is an error, and so
   is a line without a value: a slip of the keyboard must not become a tombstone, which is written as "value": null.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, Final

from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple

_NAMES: Final = ("key", "value", "key_base64", "value_base64", "headers", "partition", "timestamp", "topic", "offset")
READ_BYTES: Final = 64 * 1024
LINE_BYTES_LIMIT: Final = 64 * 1024 * 1024


class LineError(Exception):
    """A line is no record; the text says why."""


class LineRecord(NamedTuple):
    """What one line says."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LineRules:
    """How a line is cut."""

    key_separator: bytes | None = None
    headers: bool = False
    header_delimiter: bytes = b"\t"
    header_separator: bytes = b","
    header_key_separator: bytes = b":"
    null_marker: bytes | None = None

    def record(self, line: bytes) -> LineRecord:
        """The record of one line, or LineError."""
        headers: list[tuple[str, bytes | None]] = []
        if self.headers:
            text, line = self._cut(line, self.header_delimiter, "headers")
            headers = [self._header(part) for part in text.split(self.header_separator) if part]
        key: bytes | None = None
        if self.key_separator is not None:
            found, line = self._cut(line, self.key_separator, "a key")
            key = self._or_null(found)
        return LineRecord(key, self._or_null(line), headers)

    def _cut(self, line: bytes, separator: bytes, what: str) -> tuple[bytes, bytes]:
        before, found, after = line.partition(separator)
        if not found:
            raise LineError(f"there is no {separator.decode(errors='replace')!r} that would end {what}")
        return before, after

    def _header(self, text: bytes) -> tuple[str, bytes | None]:
        key, value = self._cut(text, self.header_key_separator, "a header's name")
        return key.decode(errors="replace"), self._or_null(value)

    def _or_null(self, data: bytes) -> bytes | None:
        return None if self.null_marker is not None and data == self.null_marker else data


# --- JSON ------------------------------------------------------------------------------------------------------------


def record_of_json(line: bytes) -> LineRecord:
    """The record of one JSON line, or LineError."""
    import json

    try:
        shown = json.loads(line)
    except ValueError as error:
        raise LineError(f"it is no JSON: {error}") from None
    if not isinstance(shown, dict):
        raise LineError(f"it is JSON but no object: {type(shown).__name__}")
    for name in shown:
        if name not in _NAMES:
            raise LineError(f"it has {name!r}; known are {', '.join(_NAMES)}")
    if "value" not in shown and "value_base64" not in shown:
        raise LineError('it has no "value"; a tombstone is written as "value": null')
    headers = _headers_of(shown.get("headers"))
    partition, timestamp_ms = _number(shown, "partition"), _number(shown, "timestamp")
    return LineRecord(_bytes_of(shown, "key"), _bytes_of(shown, "value"), headers, partition, timestamp_ms)


def _headers_of(shown: Any) -> list[tuple[str, bytes | None]]:
    """A list of keys and values, as headers may repeat; an object for those who write them by hand."""
    if isinstance(shown, dict):
        return [(name, _bytes_of({"value": value}, "value")) for name, value in shown.items()]
    if not isinstance(shown, list | None) or any(
        not isinstance(each, dict) or "key" not in each for each in shown or ()
    ):
        raise LineError('"headers" must be a list like [{"key": "trace", "value": "7f"}]')
    return [(str(each["key"]), _bytes_of(each, "value")) for each in shown or ()]


def _bytes_of(shown: dict[str, Any], name: str) -> bytes | None:
    if (packed := shown.get(f"{name}_base64")) is not None:
        try:
            return base64.b64decode(packed, validate=True)
        except (ValueError, TypeError):
            raise LineError(f'"{name}_base64" is no base64') from None
    value = shown.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    import json

    return json.dumps(value, ensure_ascii=False).encode()  # JSON itself (an object, a number) goes on as JSON


def _number(shown: dict[str, Any], name: str) -> int | None:
    value = shown.get(name)
    if value is not None and not isinstance(value, int):
        raise LineError(f"{name!r} must be a whole number, not {value!r}")
    return value


# --- lines -----------------------------------------------------------------------------------------------------------


def lines_of(stream: BinaryIO, delimiter: bytes = b"\n") -> Iterator[bytes]:
    """The lines of a stream as they come; a terminal's line is given as soon as it is typed."""
    if delimiter == b"\n":
        for line in iter(stream.readline, b""):
            yield line.removesuffix(b"\n").removesuffix(b"\r")
        return
    rest = b""
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    while piece := read(READ_BYTES):
        *lines, rest = (rest + piece).split(delimiter)
        yield from lines
        if len(rest) > LINE_BYTES_LIMIT:
            raise LineError(f"no delimiter within {LINE_BYTES_LIMIT} bytes")
    if rest:
        yield rest


def numbered(lines: Iterable[bytes], parse: Callable[[bytes], LineRecord]) -> Iterator[LineRecord | LineError]:
    """The record of each line, or what is wrong with that line, its number included."""
    for number, line in enumerate(lines, start=1):
        try:
            yield parse(line)
        except LineError as error:
            yield LineError(f"line {number}: {error}")
