"""Avro records read with the schema that wrote them, for somebody who looks at them: bounded, whatever the bytes say.

    read_avro_record(parsed.type, content)      dicts, lists, texts, numbers, bytes; ValueError says what is wrong

1. A record is bounded by its bytes (record_bytes.py).
2. All bytes must be used, and none beyond them.
3. Dates and times are texts as ISO 8601 has them, decimals and UUIDs are texts; what is out of their range stays a
   number, or bytes. The digits of a decimal are bounded by the precision of its schema and by DIGITS_MAX: writing a
   number in tens takes the square of its length, and holds the interpreter's lock meanwhile.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from ottla.schemas.avro.record_bytes import RecordBytes, UnreadableRecord
from ottla.schemas.avro.types import AvroType

VALUES_MAX: Final = 200_000
DIGITS_MAX: Final = 1_000
BYTES_PER_DIGIT: Final = 0.4153  # log2(10) / 8
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_PARTS: Final = {"millis": 1_000, "micros": 1, "nanos": 0}


def read_avro_record(kind: AvroType, content: bytes) -> Any:
    """The value that these bytes are."""
    reading = _Reading(content, VALUES_MAX)
    found = reading.value(kind, 0)
    if reading.left:
        raise UnreadableRecord(f"{reading.left} bytes are left after the record")
    return found


class _Reading(RecordBytes):
    def value(self, kind: AvroType, depth: int) -> Any:
        self.count_value(depth)
        match kind.kind:
            case "record":
                return {field.name: self.value(field.type, depth + 1) for field in kind.fields}
            case "union":
                return self.value(kind.branches[self.index(len(kind.branches), "branch")], depth + 1)
            case "array":
                return list(self._items(kind, depth))
            case "map":
                return dict(self._entries(kind, depth))
            case "enum":
                return kind.symbols[self.index(len(kind.symbols), "symbol")]
        return shown(kind, self._plain(kind))

    def _plain(self, kind: AvroType) -> Any:
        match kind.kind:
            case "null":
                return None
            case "boolean":
                return self.take(1) != b"\0"
            case "int" | "long":
                return self.long()
            case "float":
                return struct.unpack("<f", self.take(4))[0]
            case "double":
                return struct.unpack("<d", self.take(8))[0]
            case "fixed":
                return self.take(kind.size)
            case "string":
                return self.text()
        return self.take(self.long())

    def _items(self, kind: AvroType, depth: int) -> Iterator[Any]:
        assert kind.items is not None, "arrays have items"
        while count := self.block():
            for _ in range(count):
                yield self.value(kind.items, depth + 1)

    def _entries(self, kind: AvroType, depth: int) -> Iterator[tuple[str, Any]]:
        assert kind.items is not None, "maps have items"
        while count := self.block():
            for _ in range(count):
                yield self.text(), self.value(kind.items, depth + 1)


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
