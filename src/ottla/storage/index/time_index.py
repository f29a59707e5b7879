"""Sparse map from timestamp to offset, one per segment.

    12 bytes per entry, big-endian: int64 timestamp in ms | int32 offset relative to the segment's base offset

An entry (timestamp, offset) says: no record up to `offset` is later than `timestamp`. It is the latest timestamp seen
so far and the last offset of the batch it came in, so a batch with older timestamps adds nothing.

1. Timestamps grow strictly, offsets never shrink. `maybe_append` ignores what is not later than the last entry.
2. `lookup` returns the last entry at or before a timestamp, or (-1, base offset) when there is none: the first record
   at or after that timestamp is not before the offset it gives.
3. One entry is kept free of the limit: when the segment rolls, its latest timestamp must still get in.
4. Everything about reading, writing and trusting the file is in sparse_index.py.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import ClassVar, Final

from ottla.light_tuples import NamedTuple
from ottla.storage.index.sparse_index import INT32_MAX, SparseIndex, in_machine_order

__all__ = ["NO_TIMESTAMP", "TimeIndex", "TimestampOffset"]

NO_TIMESTAMP: Final = -1


class TimestampOffset(NamedTuple):
    """The latest timestamp up to an offset."""

    timestamp_ms: int
    offset: int


class TimeIndex(SparseIndex):
    """The .timeindex file of one segment."""

    entry_bytes: ClassVar[int] = 12
    key_typecode: ClassVar[str] = "q"
    value_may_repeat: ClassVar[bool] = True
    reserved_entries: ClassVar[int] = 1

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """The last entry whose timestamp is at most `timestamp_ms`."""
        self.load()
        slot = bisect_right(self._keys, timestamp_ms) - 1
        if slot < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(self._keys[slot], self.base_offset + self._values[slot])

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, or (-1, base offset) when there is none."""
        last = self._last()
        if last is None:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(last[0], self.base_offset + last[1])

    def maybe_append(self, timestamp_ms: int, offset: int, *, at_roll: bool = False) -> None:
        """Add an entry if it is later than the last one. Only `at_roll` may take the entry kept free."""
        if not self._loaded:
            self.load()
        keys, relative = self._keys, offset - self.base_offset
        if len(keys) >= self._full_at and not at_roll:
            raise ValueError(f"{self.path} is full with {len(self._keys)} entries; roll the segment first")
        last_timestamp_ms = keys[-1] if keys else NO_TIMESTAMP
        if timestamp_ms == last_timestamp_ms:
            return
        if not 0 <= relative <= INT32_MAX:
            raise ValueError(f"{self.path} has no room for offset {offset} in 31 bits")
        if timestamp_ms < last_timestamp_ms or (keys and relative < self._values[-1]):
            raise ValueError(
                f"{self.path} ends with {self.last_entry}, which ({timestamp_ms}, {offset}) does not follow"
            )
        keys.append(timestamp_ms)
        self._values.append(relative)

    def truncate_to(self, offset: int) -> None:
        """Forget every entry at `offset` or later."""
        self.load()
        self._keep(bisect_left(self._values, offset - self.base_offset))

    def _pack(self, keys: Iterable[int], values: Iterable[int]) -> bytes:
        keys, values = in_machine_order(array("q", keys)), in_machine_order(array("i", values))
        halves = array("i", keys.tobytes())
        entries = array("i", bytes(len(values) * self.entry_bytes))
        entries[0::3], entries[1::3], entries[2::3] = halves[0::2], halves[1::2], values
        return entries.tobytes()

    def _unpack(self, content: bytes) -> tuple[array[int], array[int]]:
        entries = array("i", content)
        halves = array("i", bytes(len(entries) // 3 * 8))
        halves[0::2], halves[1::2] = entries[0::3], entries[1::3]
        return in_machine_order(array("q", halves.tobytes())), in_machine_order(entries[2::3])
