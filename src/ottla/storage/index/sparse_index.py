"""What the offset index and the time index share: a sorted file of small entries, and its copy in memory.

    entry 0 | entry 1 | ... | entry n-1 | zeros up to segment.index.bytes, only while the segment is active

1. Nothing is read before the first question, and then the whole file once, into two arrays: no object per entry.
   The last entry alone is read alone, so a clean start touches a few bytes per log at most. `unload` returns the
   memory back.
2. Entries are appended to memory and written behind, WRITE_BEHIND_ENTRIES at a time. `write_pending`, `flush`, `trim`
   and `close` write the rest. A crash loses at most what was not flushed, and recovery rebuilds that segment anyway.
   After `make_ready` an append touches no disk and so cannot fail between the records and their entry.
3. The file is pre-sized with zeros when it first grows (sparse, so it costs nothing), and cut to its entries by `trim`
   when the segment rolls or closes. It is never written through a map: a full disk would kill the process.
4. The padding rule: Kafka takes every entry of the file for real and relies on recovery after a crash. Here trailing
   entries of only zeros are padding and not counted, unless the file holds a single entry: no real entry but that one
   can be all zeros, because both columns grow. So a file that was never trimmed opens as its written prefix.
5. A file that is missing, whose size is no multiple of the entry, or whose columns do not grow, is CorruptIndex. What
   is left, an entry that was torn into another plausible one, is found by the segment when it looks where it points.
6. Owned by the segment; only the active segment's index grows.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, Final

from ottla.errors import OttlaError
from ottla.storage.files import File, Files

INT32_MAX: Final = 2**31 - 1
WRITE_BEHIND_ENTRIES: Final = 64


class CorruptIndex(OttlaError):
    """An index does not fit the records it is for.
    Nothing is lost: it can be built again from the records of its segment."""


class SparseIndex:
    """Entries (key, value), sorted by both; what they mean and how they are packed is defined by the two kinds."""

    entry_bytes: ClassVar[int]
    key_typecode: ClassVar[str] = "i"
    value_may_repeat: ClassVar[bool] = False
    # Entries kept free of the limit, for what is added when the segment rolls.
    reserved_entries: ClassVar[int] = 0

    def __init__(self, files: Files, path: Path, base_offset: int, size_limit_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._files = files
        self._entries_max = size_limit_bytes // self.entry_bytes
        self._full_at = self._entries_max - self.reserved_entries
        self._keys = array(self.key_typecode)
        self._values = array("i")
        self._loaded = False
        self._written = 0
        self._file: File | None = None
        self._presized = False

    # --- how the two kinds differ -------------------------------------------------------------------------------------

    def _pack(self, keys: Iterable[int], values: Iterable[int]) -> bytes:
        raise NotImplementedError

    def _unpack(self, content: bytes) -> tuple[array[int], array[int]]:
        raise NotImplementedError

    # --- what is in it ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        self.load()
        return len(self._keys)

    @property
    def is_full(self) -> bool:
        """Whether the segment must roll before more entries are added."""
        if not self._loaded:
            self.load()
        return len(self._keys) >= self._full_at

    @property
    def size_bytes(self) -> int:
        """Bytes of its entries, without padding."""
        return len(self) * self.entry_bytes

    def load(self) -> None:
        """Read and check the file, once."""
        if not self._loaded:
            keys, values = self._unpack(self._without_padding(self._content()))
            self._check_order(keys, values)
            self._keys, self._values, self._written, self._loaded = keys, values, len(keys), True

    def unload(self) -> None:
        """Give the memory back; the next question reads the file again."""
        self.write_pending()
        self._keys, self._values, self._loaded = array(self.key_typecode), array("i"), False

    def sanity_check(self) -> None:
        """CorruptIndex unless the file can be trusted, promise 5."""
        if self._written == len(self._keys):
            self._loaded = False  # what is in memory may be older than the damage
        self.load()

    def _content(self) -> bytes:
        try:
            content = self._files.read_bytes(self.path)
        except FileNotFoundError as error:
            raise CorruptIndex(f"{self.path} is missing") from error
        if len(content) % self.entry_bytes:
            raise CorruptIndex(f"{self.path} has {len(content)} bytes, which is no multiple of {self.entry_bytes}")
        return content

    def _without_padding(self, content: bytes) -> bytes:
        if len(content) == self.entry_bytes:
            return content
        used = len(content.rstrip(b"\0"))
        return content[: -(-used // self.entry_bytes) * self.entry_bytes]

    def _check_order(self, keys: array[int], values: array[int]) -> None:
        if not grows(keys, step=1) or not grows(values, step=0 if self.value_may_repeat else 1):
            raise CorruptIndex(f"{self.path} has entries out of order, or below its base offset {self.base_offset}")

    def _last(self) -> tuple[int, int] | None:
        """Key and value of the last entry, read alone if it can be."""
        if not self._loaded:
            if (peeked := self._peeked()) is not None:
                return peeked
            self.load()
        return (self._keys[-1], self._values[-1]) if self._keys else None

    def _peeked(self) -> tuple[int, int] | None:
        """The last entry of a file that was trimmed; None if it must be read as a whole."""
        try:
            file = self._files.open(self.path, read_only=True)
        except FileNotFoundError as error:
            raise CorruptIndex(f"{self.path} is missing") from error
        try:
            size_bytes = file.size()
            entry = file.read_at(max(0, size_bytes - self.entry_bytes), self.entry_bytes)
        finally:
            file.close()
        if size_bytes % self.entry_bytes or not any(entry):
            return None
        keys, values = self._unpack(entry)
        if keys[0] < 0 or values[0] < 0:
            raise CorruptIndex(f"{self.path} ends below its base offset {self.base_offset} or before time")
        return keys[0], values[0]

    # --- how it grows and shrinks -------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the file of a new segment, empty and pre-sized."""
        self.reset()
        self._presize()

    def make_ready(self) -> None:
        """Everything that could fail in an append, done before it."""
        if not self._presized:
            self.load()
            self._presize()
        if len(self._keys) - self._written >= WRITE_BEHIND_ENTRIES:
            self.write_pending()

    def write_pending(self) -> None:
        """Write the entries that are only in memory so far."""
        if len(self._keys) > self._written:
            pending = self._pack(self._keys[self._written :], self._values[self._written :])
            self._open_file().write_at(self._written * self.entry_bytes, [pending])
            self._written = len(self._keys)

    def flush(self) -> None:
        """Return when all entries are on the disk. An index that was only read has nothing to flush."""
        self.write_pending()
        for sync in self.pending_syncs():
            sync()

    def pending_syncs(self) -> list[Callable[[], None]]:
        """What a flush has to call after `write_pending`; any thread may."""
        return [] if self._file is None else [self._file.sync]

    def trim(self) -> None:
        """Cut the padding off; an index that was never read was not padded by us."""
        if self._loaded:
            self.write_pending()
            self._open_file().truncate(len(self._keys) * self.entry_bytes)
            self._presized = False

    def reset(self) -> None:
        """Forget all entries, whatever state the file is in."""
        self._keys, self._values = array(self.key_typecode), array("i")
        self._open_file().truncate(0)
        self._written, self._loaded, self._presized = 0, True, False

    def _keep(self, count: int) -> None:
        """Forget all entries from `count` on, in memory and in the file."""
        del self._keys[count:]
        del self._values[count:]
        self._written = min(self._written, count)
        self._open_file().truncate(self._written * self.entry_bytes)
        self._presized = False

    def close(self) -> None:
        """Trim if it has grown, and let the file go."""
        file = self._file
        if file is not None:
            if self._presized or self._written < len(self._keys):
                self.trim()
            self._file, self._presized = None, False
            file.close()

    def abandon(self) -> None:
        """Let the file go without writing: for a directory that has failed, or a segment about to be deleted."""
        file, self._file = self._file, None
        self._keys, self._values = array(self.key_typecode), array("i")
        self._written, self._loaded, self._presized = 0, False, False
        if file is not None:
            file.close()

    def rename(self, path: Path) -> None:
        """Give the file another name."""
        self._files.rename(self.path, path)
        self.path = path

    def delete(self) -> None:
        """Remove the file; fine if there is none."""
        self.abandon()
        self._files.remove(self.path, missing_ok=True)

    def _presize(self) -> None:
        file = self._open_file()
        size_bytes = self._entries_max * self.entry_bytes
        if file.size() < size_bytes:
            file.truncate(size_bytes)
        self._presized = True

    def _open_file(self) -> File:
        if self._file is None:
            self._file = self._files.open(self.path, create=True)
        return self._file


def grows(column: array[int], step: int) -> bool:
    """Whether no number is negative and each is at least `step` above the one before it.

    A first question may come to an index of a million entries, and the loop must not stand still for it. So all
    numbers are compared at once, as the digits of one long number: with its top bit set, no digit borrows from its
    neighbour in the subtraction, and the top bit is still there exactly where the difference was not negative.
    """
    digit_bytes, pairs = column.itemsize, max(0, len(column) - 1)
    digit_bits = 8 * digit_bytes
    number = int.from_bytes(column.tobytes(), sys.byteorder)
    if number & _repeated(1 << digit_bits - 1, digit_bytes, len(column)):
        return False
    upper, lower = number >> digit_bits, number & (1 << digit_bits * pairs) - 1
    later, earlier = (upper, lower) if sys.byteorder == "little" else (lower, upper)
    top_bits = _repeated(1 << digit_bits - 1, digit_bytes, pairs)
    return ((later | top_bits) - earlier - _repeated(step, digit_bytes, pairs)) & top_bits == top_bits


def _repeated(digit: int, digit_bytes: int, count: int) -> int:
    return int.from_bytes(digit.to_bytes(digit_bytes, "little") * count, "little")


def in_machine_order(column: array[int]) -> array[int]:
    """Numbers of a file (big-endian) as the machine wants them, or the other way round."""
    if sys.byteorder == "little":
        column.byteswap()
    return column
