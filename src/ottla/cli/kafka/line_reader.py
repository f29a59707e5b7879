"""How kafka-console-producer reads lines: org.apache.kafka.tools.LineMessageReader and its properties.

    parse.key=true key.separator=:          alice:hello
    parse.headers=true                      trace:7f,user:7<TAB>hello

A line without what it should have is refused with its number; with ignore.error=true the rest is taken for the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ottla.cli.record_lines import LineRecord


class UnreadableLine(Exception):
    """A line, or a property, that cannot be meant."""


class LineReader:
    """Lines to records."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._key = _is_true(properties, "parse.key")
        self._headers = _is_true(properties, "parse.headers")
        self._ignore = _is_true(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._delimiter = properties.get("headers.delimiter", "\t")
        self._separator = properties.get("headers.separator", ",")
        self._header_separator = properties.get("headers.key.separator", ":")
        self._null = properties.get("null.marker")
        self._check()

    def _check(self) -> None:
        names = {
            "headers.delimiter": self._delimiter,
            "headers.separator": self._separator,
            "headers.key.separator": self._header_separator,
        }
        for first, second in (
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
        ):
            if names[first] == names[second]:
                raise UnreadableLine(f"{first} and {second} may not be equal")
        for name in ("key.separator", "headers.separator", "headers.delimiter", "headers.key.separator"):
            if self._null == {**names, "key.separator": self._key_separator}[name]:
                raise UnreadableLine(f"null.marker and {name} may not be equal")

    def records(self, lines: Iterable[bytes]) -> Iterator[LineRecord]:
        for number, line in enumerate(lines, start=1):
            yield self._record(line.decode("utf-8", "replace"), number)

    def _record(self, line: str, number: int) -> LineRecord:
        headers, rest = self._cut(self._headers, line, self._delimiter, "headers delimiter", number, line)
        key, text = self._cut(self._key, rest, self._key_separator, "key separator", number, line)
        parsed = [] if headers is None or headers == self._null else list(self._parse_headers(headers, number))
        return LineRecord(None if key is None else self._bytes(key), self._bytes(text), parsed)

    def _cut(
        self, enabled: bool, text: str, separator: str, name: str, number: int, line: str
    ) -> tuple[str | None, str]:
        if not enabled:
            return None, text
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self._ignore:
            return None, text
        raise UnreadableLine(f"No {name} found on line number {number}: '{line}'")

    def _parse_headers(self, text: str, number: int) -> Iterator[tuple[str, bytes | None]]:
        for pair in re.split(self._separator, text):
            name, found, content = pair.partition(self._header_separator)
            if not found and not self._ignore:
                raise UnreadableLine(f"No header key separator found in pair '{pair}' on line number {number}")
            if found and name == self._null:
                raise UnreadableLine(
                    f"Header keys should not be equal to the null marker '{self._null}' as they can't be null"
                )
            yield name, self._bytes(content) if found else None

    def _bytes(self, text: str) -> bytes | None:
        return None if text == self._null else text.encode()


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"
