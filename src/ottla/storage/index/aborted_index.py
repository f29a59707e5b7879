"""The aborted transactions of one segment, for readers who want only what was committed.

    34 bytes per entry, big-endian:
    int16 version, 0 | int64 producer id | int64 first offset | int64 last offset | int64 last stable offset

`first offset` is where the transaction began (maybe in an older segment), `last offset` is its abort marker, which is
in this segment, and `last stable offset` is what the log's was when the marker had been written.

1. The file is made with its first entry: most segments have none.
2. Last offsets grow strictly from entry to entry; stable offsets never shrink. So a search begins by bisection and may
   stop at the first entry whose stable offset has reached its bound: no later transaction begins below it.
3. Entries are written as they are appended, behind the markers they tell of. What a crash takes away, recovery writes
   again; a file that is cut inside an entry, names an unknown version or goes backwards is CorruptIndex.
4. The file is read once and kept in memory, 34 bytes for each aborted transaction, until the segment is closed: it has
   no sum of its own, so what rots on the disk after that must not reach a reader. Before that the sums beside the log
   tell (directory/checksums.py).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.storage.files import File, Files
from ottla.storage.index.sparse_index import CorruptIndex

VERSION: Final = 0
_entry: Final = struct.Struct(">hqqqq")
_last_offset: Final = struct.Struct(">q")
_LAST_OFFSET_AT: Final = 18


class AbortedTransaction(NamedTuple):
    """An aborted transaction; readers of committed records leave out what its producer wrote in it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedSearch(NamedTuple):
    """What one segment's index knows; unless complete, the next segment must be asked too."""

    transactions: list[AbortedTransaction]
    is_complete: bool


class AbortedIndex:
    """The .txnindex file of one segment."""

    def __init__(self, files: Files, path: Path, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._files = files
        self._file: File | None = None
        self._content: bytearray | None = None
        self._name_is_new = False
        self.was_written = False  # in this life

    def __len__(self) -> int:
        return len(self.content) // _entry.size

    @property
    def content(self) -> bytearray:
        """The entries as they stand in the file."""
        if self._content is None:
            found = bytearray(self._files.read_bytes(self.path) if self._files.exists(self.path) else b"")
            if len(found) % _entry.size:
                raise CorruptIndex(f"{self.path} has {len(found)} bytes, which is no multiple of {_entry.size}")
            self._content = found
        return self._content

    def append(self, transaction: AbortedTransaction) -> None:
        """Add a transaction whose abort marker was written to this segment just now."""
        count = len(self)
        if count and transaction.last_offset <= self._last_offset_at(count - 1):
            raise ValueError(
                f"{self.path} ends at offset {self._last_offset_at(count - 1)}, which {transaction} does not follow"
            )
        packed = _entry.pack(VERSION, *transaction)
        self._open_file().write_at(count * _entry.size, [packed])
        self.content.extend(packed)
        self.was_written = True

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> AbortedSearch:
        """The transactions that reach into [fetch_offset, upper_bound_offset)."""
        found: list[AbortedTransaction] = []
        start = bisect_left(range(len(self)), fetch_offset, key=self._last_offset_at)
        # The entry before is too old to be returned, but its stable offset may show that the search is complete.
        for transaction in self._entries(max(0, start - 1)):
            if transaction.last_offset >= fetch_offset and transaction.first_offset < upper_bound_offset:
                found.append(transaction)
            if transaction.last_stable_offset >= upper_bound_offset:
                return AbortedSearch(found, is_complete=True)
        return AbortedSearch(found, is_complete=False)

    def transactions(self) -> list[AbortedTransaction]:
        """All of them, oldest first."""
        return list(self._entries(0))

    def sanity_check(self) -> None:
        """CorruptIndex unless every entry is of a known version, in this segment and in order."""
        self._content = None
        previous = self.base_offset - 1
        for transaction in self._entries(0):
            if transaction.last_offset <= previous or transaction.first_offset > transaction.last_offset:
                raise CorruptIndex(f"{self.path} has {transaction} after offset {previous}")
            previous = transaction.last_offset

    def truncate_to(self, offset: int) -> None:
        """Forget every transaction whose marker is at `offset` or later."""
        keep = bisect_left(range(len(self)), offset, key=self._last_offset_at)
        if keep < len(self):
            self._open_file().truncate(keep * _entry.size)
            del self.content[keep * _entry.size :]
            self.was_written = True

    def reset(self) -> None:
        """Forget all of them, whatever state the file is in."""
        if self._file is not None or self._files.exists(self.path):
            self._open_file().truncate(0)
        self._content = bytearray()

    def flush(self) -> None:
        """Return when everything appended is on the disk."""
        for sync in self.pending_syncs():
            sync()

    def pending_syncs(self) -> list[Callable[[], None]]:
        """What a flush has to call; any thread may."""
        if self._file is None:
            return []
        syncs: list[Callable[[], None]] = [self._file.sync]
        if self._name_is_new:
            syncs.append(partial(self._files.sync_directory, self.path.parent))
            self._name_is_new = False
        return syncs

    def close(self) -> None:
        """Let the file go."""
        file, self._file, self._content = self._file, None, None
        if file is not None:
            file.close()

    def rename(self, path: Path) -> None:
        """Give the file another name, if there is one."""
        if self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.path = path

    def delete(self) -> None:
        """Remove the file; fine if there is none."""
        self.close()
        self._files.remove(self.path, missing_ok=True)

    def _entries(self, start: int) -> Iterator[AbortedTransaction]:
        for position in range(start * _entry.size, len(self.content), _entry.size):
            version, *facts = _entry.unpack_from(self.content, position)
            if version != VERSION:
                raise CorruptIndex(f"{self.path} has an entry of version {version}, known is {VERSION}")
            yield AbortedTransaction(*facts)

    def _last_offset_at(self, slot: int) -> int:
        return int(_last_offset.unpack_from(self.content, slot * _entry.size + _LAST_OFFSET_AT)[0])

    def _open_file(self) -> File:
        if self._file is None:
            self._name_is_new = not self._files.exists(self.path)
            self._file = self._files.open(self.path, create=True)
        return self._file
