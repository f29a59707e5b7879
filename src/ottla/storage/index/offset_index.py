"""Sparse map from offset to file position, one per segment.

    8 bytes per entry, big-endian: int32 offset relative to the segment's base offset | int32 position

An entry stands for one batch: the last offset in it, and where in the records file it starts.

1. Entries grow in both columns; the last entry is never beyond the end of the records file.
2. `lookup` returns the last entry at or below an offset, or (base offset, 0) when there is none: a scan from
   there finds the offset. A missing entry costs a longer scan, never a wrong answer.
3. Everything about reading, writing and trusting the file is in sparse_index.py.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import ClassVar

from ottla.light_tuples import NamedTuple
from ottla.storage.index.sparse_index import INT32_MAX, CorruptIndex, SparseIndex, in_machine_order

__all__ = ["CorruptIndex", "OffsetIndex", "OffsetPosition"]


class OffsetPosition(NamedTuple):
    """Where in the records file to start looking for an offset."""

    offset: int
    position: int


class OffsetIndex(SparseIndex):
    """The .index file of one segment."""

    entry_bytes: ClassVar[int] = 8

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry whose offset is at most `offset`."""
        if not self._loaded:
            self.load()
        slot = bisect_right(self._keys, offset - self.base_offset) - 1
        if slot < 0:
            return OffsetPosition(self.base_offset, 0)
        return OffsetPosition(self.base_offset + self._keys[slot], self._values[slot])

    def first_at_or_after_position(self, position: int) -> OffsetPosition | None:
        """The first entry whose batch starts at `position` or later: an upper bound for what a fetch may hold."""
        self.load()
        slot = bisect_left(self._values, position)
        if slot == len(self._values):
            return None
        return OffsetPosition(self.base_offset + self._keys[slot], self._values[slot])

    def last_before_position(self, position: int) -> OffsetPosition:
        """The last entry whose batch starts at `position` or earlier; (base offset, 0) when there is none."""
        self.load()
        slot = bisect_right(self._values, position) - 1
        if slot < 0:
            return OffsetPosition(self.base_offset, 0)
        return OffsetPosition(self.base_offset + self._keys[slot], self._values[slot])

    @property
    def last_entry(self) -> OffsetPosition:
        """The last entry, or (base offset, 0) when there is none."""
        last = self._last()
        if last is None:
            return OffsetPosition(self.base_offset, 0)
        return OffsetPosition(self.base_offset + last[0], last[1])

    def entries(self) -> list[OffsetPosition]:
        """All of them; none if the file cannot be trusted."""
        try:
            self.load()
        except CorruptIndex:
            return []
        return [
            OffsetPosition(self.base_offset + key, value) for key, value in zip(self._keys, self._values, strict=True)
        ]

    def append(self, offset: int, position: int) -> None:
        """Add an entry after the last one. See `make_ready`."""
        if not self.append_unless_full(offset, position):
            raise ValueError(f"{self.path} is full with {len(self._keys)} entries; roll the segment first")

    def append_unless_full(self, offset: int, position: int) -> bool:
        """The same for whoever can do without the entry: False when there is no room for it."""
        if not self._loaded:
            self.load()
        keys, relative = self._keys, offset - self.base_offset
        if len(keys) >= self._full_at:
            return False
        if not 0 <= relative <= INT32_MAX or not 0 <= position <= INT32_MAX:
            raise ValueError(f"{self.path} has no room for offset {offset} at position {position} in 31 bits")
        if keys and (relative <= keys[-1] or position <= self._values[-1]):
            raise ValueError(f"{self.path} ends with {self.last_entry}, which ({offset}, {position}) does not follow")
        keys.append(relative)
        self._values.append(position)
        return True

    def truncate_to(self, offset: int) -> None:
        """Forget every entry at `offset` or later."""
        self.load()
        self._keep(bisect_left(self._keys, offset - self.base_offset))

    def _pack(self, keys: Iterable[int], values: Iterable[int]) -> bytes:
        keys, values = array("i", keys), array("i", values)
        entries = array("i", bytes(len(keys) * self.entry_bytes))
        entries[0::2], entries[1::2] = keys, values
        return in_machine_order(entries).tobytes()

    def _unpack(self, content: bytes) -> tuple[array[int], array[int]]:
        entries = in_machine_order(array("i", content))
        return entries[0::2], entries[1::2]
