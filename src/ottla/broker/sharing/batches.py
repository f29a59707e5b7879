"""What a slice of the log holds, by the headers of its batches: offsets, sizes, and which of them were aborted.

1. Only headers are read, and markers of transactions where only committed records may be seen; the records themselves
   go from the file to the client.
2. A slice may have thousands of batches of which a member gets a few: whoever knows how far it needs says so.
3. A batch that is cut off at the end of the slice is left out.
4. A transactional batch is aborted when an aborted transaction of its producer began at or before its last offset, and
   no ABORT marker of that producer came since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.records import BatchInfo, RecordBatch
from ottla.records.control import read_marker
from ottla.records.layout import HEADER_BYTES, MAGIC
from ottla.storage.index.aborted_index import AbortedTransaction
from ottla.storage.segment.records_file import FileSlice

CHUNK_BYTES: Final = 16 * 1024


class SlicedBatch(NamedTuple):
    """One batch; `position` is that in the slice."""

    first: int
    last: int
    position: int
    size_bytes: int
    is_aborted: bool = False


def read_batches(
    piece: FileSlice, aborted: Sequence[AbortedTransaction] | None = None, until: int | None = None
) -> list[SlicedBatch]:
    """The batches of a slice, up to the one that has the offset `until`; those that were aborted are marked where
    `aborted` says what was."""
    transactions = _Aborted(aborted) if aborted else None
    found: list[SlicedBatch] = []
    for at, info in _headers(piece):
        is_hidden = transactions is not None and transactions.hide(piece, at, info)
        last = info.last_offset
        found.append(SlicedBatch(info.base_offset, last, at, info.size_bytes, is_hidden))
        if until is not None and last >= until:
            break
    return found


def part_of(piece: FileSlice, batches: Iterable[SlicedBatch], first: int, last: int) -> FileSlice:
    """The part of a slice that has the offsets `first` to `last`, in whole batches."""
    found = [each for each in batches if each.last >= first and each.first <= last]
    if not found:
        return FileSlice(piece.file, piece.position, 0)
    start, end = found[0].position, found[-1].position + found[-1].size_bytes
    return FileSlice(piece.file, piece.position + start, end - start)


def _headers(piece: FileSlice) -> Iterator[tuple[int, BatchInfo]]:
    """Position in the slice, and header, of every batch that is whole."""
    end, at = piece.size_bytes, 0
    chunk, chunk_at = b"", 0
    while at + HEADER_BYTES <= end:
        if at + HEADER_BYTES > chunk_at + len(chunk):
            chunk, chunk_at = piece.file.read_at(piece.position + at, min(CHUNK_BYTES, end - at)), at
        info = BatchInfo(chunk, at - chunk_at)
        size_bytes = info.size_bytes
        if info.magic != MAGIC or size_bytes < HEADER_BYTES or at + size_bytes > end:
            return
        yield at, info
        at += size_bytes


class _Aborted:
    """Which transactions are aborted, while the batches are passed in the order of the log."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._open: set[int] = set()

    def hide(self, piece: FileSlice, at: int, info: BatchInfo) -> bool:
        """Whether nobody may see this batch."""
        while self._coming and self._coming[0].first_offset <= info.last_offset:
            self._open.add(self._coming.popleft().producer_id)
        if info.is_control:
            if info.producer_id in self._open and _is_abort(piece, at, info.size_bytes):
                self._open.discard(info.producer_id)
            return False
        return info.is_transactional and info.producer_id in self._open


def _is_abort(piece: FileSlice, at: int, size_bytes: int) -> bool:
    batch = RecordBatch(piece.file.read_at(piece.position + at, size_bytes))
    markers = [read_marker(record.key, record.value) for record in batch]
    return any(marker is not None and not marker.commit for marker in markers)
