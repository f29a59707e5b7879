"""Avro records read with the schema that wrote them, for somebody who looks at them: bounded, whatever the bytes say.

    read_avro_record(parsed.type, content)      dicts, lists, texts, numbers, bytes; ValueError says what is wrong

1. A few bytes may claim an array of a billion nulls: a record has at most VALUES_PER_BYTE values for each of its bytes
   and SPARE_VALUES, never more than VALUES_MAX, nested NESTING_MAX deep.
2. All bytes must be used, and none beyond them.
3. Dates and times are texts as ISO 8601 has them, decimals and UUIDs are texts; what is out of their range stays a
   number, or bytes. The digits of a decimal are bounded by the precision of its schema and by DIGITS_MAX: writing a
   number in tens takes the square of its length, and holds the interpreter's lock meanwhile.
"""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import Any, Final

from ottla.schemas.avro.types import AvroType

VALUES_MAX: Final = 200_000
VALUES_PER_BYTE: Final = 10
SPARE_VALUES: Final = 1_000
NESTING_MAX: Final = 100
LONGEST_VARINT: Final = 10
DIGITS_MAX: Final = 1_000
BYTES_PER_DIGIT: Final = 0.4153  # log2(10) / 8
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_PARTS: Final = {"millis": 1_000, "micros": 1, "nanos": 0}


class UnreadableRecord(ValueError):
    """The bytes are not a record of the schema."""


def read_avro_record(kind: AvroType, content: bytes) -> Any:
    """The value that these bytes are."""
    reading = _Reading(content)
    found = reading.value(kind, 0)
    if reading.left:
        raise UnreadableRecord(f"{reading.left} bytes are left after the record")
    return found


class _Reading:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._count = 0
        self._most = min(VALUES_MAX, SPARE_VALUES + VALUES_PER_BYTE * len(content))

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def value(self, kind: AvroType, depth: int) -> Any:
        self._count += 1
        if self._count > self._most:
            raise UnreadableRecord(f"it has more than {self._most} values in {len(self._content)} bytes")
        if depth > NESTING_MAX:
            raise UnreadableRecord(f"it is nested more than {NESTING_MAX} deep")
        match kind.kind:
            case "record":
                return {each.name: self.value(each.type, depth + 1) for each in kind.fields}
            case "union":
                return self.value(self._chosen(kind.branches, "branch"), depth + 1)
            case "array":
                return list(self._items(kind, depth, is_map=False))
            case "map":
                return dict(self._items(kind, depth, is_map=True))
            case "enum":
                return self._chosen(kind.symbols, "symbol")
        return shown(kind, self._plain(kind))

    def _plain(self, kind: AvroType) -> Any:
        match kind.kind:
            case "null":
                return None
            case "boolean":
                return self._take(1) != b"\0"
            case "int" | "long":
                return self._long()
            case "float":
                return struct.unpack("<f", self._take(4))[0]
            case "double":
                return struct.unpack("<d", self._take(8))[0]
            case "fixed":
                return self._take(kind.size)
            case "string":
                return self._text()
        return self._take(self._long())

    def _items(self, kind: AvroType, depth: int, *, is_map: bool) -> Any:
        """Blocks of items; a negative count is followed by the size of the block in bytes."""
        assert kind.items is not None, "arrays and maps have items"
        while count := self._long():
            if count < 0:
                self._long()
            for _ in range(min(abs(count), self._most + 1)):
                if is_map:
                    key = self._text()
                    yield key, self.value(kind.items, depth + 1)
                else:
                    yield self.value(kind.items, depth + 1)

    def _chosen(self, choices: Any, word: str) -> Any:
        index = self._long()
        if not 0 <= index < len(choices):
            raise UnreadableRecord(f"it chooses {word} {index}, and there are {len(choices)}")
        return choices[index]

    def _text(self) -> str:
        try:
            return self._take(self._long()).decode()
        except UnicodeDecodeError as error:
            raise UnreadableRecord(f"a text in it is not UTF-8 ({error.reason})") from None

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise UnreadableRecord(f"it wants {count} bytes more, and has {self.left}")
        self._at += count
        return self._content[self._at - count : self._at]

    def _long(self) -> int:
        raw = 0
        for shift in range(0, 7 * LONGEST_VARINT, 7):
            byte = self._take(1)[0]
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                return raw >> 1 ^ -(raw & 1)
        raise UnreadableRecord("a number in it is too long")


def shown(kind: AvroType, value: Any) -> Any:
    """What the value means, as text; the value itself where it means nothing else."""
    word = kind.logical
    if not word or value is None:
        return value
    try:
        if word == "decimal" and isinstance(value, bytes) and len(value) <= _decimal_bytes(kind.precision):
            return str(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-kind.scale))
        if word == "date" and kind.kind == "int":
            return (_EPOCH.date() + datetime.timedelta(days=value)).isoformat()
        if isinstance(value, int) and (part := _PARTS.get(word.rpartition("-")[2])) is not None:
            return _time(word, value * part if part else value // 1_000)
    except (OverflowError, ArithmeticError, ValueError):
        pass
    return value


def _decimal_bytes(precision: int) -> int:
    """How many bytes a number of so many digits can have, and one for those that write a sign of their own."""
    digits = min(precision, DIGITS_MAX) if precision > 0 else DIGITS_MAX
    return int(digits * BYTES_PER_DIGIT) + 2


def _time(word: str, micros: int) -> str:
    passed = datetime.timedelta(microseconds=micros)
    if word.startswith("time-"):
        return (_EPOCH + passed).time().isoformat()
    return (_EPOCH + passed).isoformat() + ("" if word.startswith("local-") else "+00:00")
