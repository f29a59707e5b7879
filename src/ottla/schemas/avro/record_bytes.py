"""The bytes of one Avro record, read from the left and bounded, whatever they say.

A few bytes may claim an array of a billion nulls: a record has at most VALUES_PER_BYTE values for each of its bytes and
SPARE_VALUES, never more than its reader allows at all, nested NESTING_MAX deep.
"""

from __future__ import annotations

from typing import Final

VALUES_PER_BYTE: Final = 10
SPARE_VALUES: Final = 1_000
NESTING_MAX: Final = 100
LONGEST_VARINT: Final = 10


class UnreadableRecord(ValueError):
    """The bytes are not a record of the schema."""


class RecordBytes:
    """Where a reader, who allows so many values, is within a record."""

    def __init__(self, content: bytes, values_max: int) -> None:
        self._content = content
        self._at = 0
        self._count = 0
        self.values_max = min(values_max, SPARE_VALUES + VALUES_PER_BYTE * len(content))

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def count_value(self, depth: int) -> None:
        """One value more, so deep inside others."""
        self._count += 1
        if self._count > self.values_max:
            raise UnreadableRecord(f"it has more than {self.values_max} values in {len(self._content)} bytes")
        if depth > NESTING_MAX:
            raise UnreadableRecord(f"it is nested more than {NESTING_MAX} deep")

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise UnreadableRecord(f"it wants {count} bytes more, and has {self.left}")
        self._at += count
        return self._content[self._at - count : self._at]

    def long(self) -> int:
        raw = 0
        for shift in range(0, 7 * LONGEST_VARINT, 7):
            byte = self.take(1)[0]
            raw |= (byte & 0x7F) << shift
            if byte < 0x80 and raw < 1 << 64:
                return raw >> 1 ^ -(raw & 1)
        raise UnreadableRecord("a number in it is too long")

    def text(self) -> str:
        try:
            return self.take(self.long()).decode()
        except UnicodeDecodeError as error:
            raise UnreadableRecord(f"a text in it is not UTF-8 ({error.reason})") from None

    def block(self) -> int:
        """How many items the next block of an array or a map has, 0 at its end. A negative count is followed by the
        size of the block in bytes. No more are counted than there may be values."""
        count = self.long()
        if count < 0:
            self.long()
        return min(abs(count), self.values_max + 1)

    def index(self, count: int, word: str) -> int:
        """Which of so many branches or symbols."""
        index = self.long()
        if not 0 <= index < count:
            raise UnreadableRecord(f"it chooses {word} {index}, and there are {count}")
        return index
