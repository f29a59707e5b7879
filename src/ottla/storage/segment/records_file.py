"""The .log file of a segment: batches one after the other, nothing between them.

1. `size_bytes` is what was appended; bytes beyond it, if a failed write left any, are never read and will be
   written over.
2. `headers` walks from batch to batch in bounded reads, without a record or a CRC: a damaged frame is CorruptMessage.
   A batch is found at most one read after its index entry when batches are small, one read each when they are big.
3. `SoundBatches` walks everything with CRCs, in chunks of CHUNK_BYTES, and stops where the first byte is wrong: at a
   cut, at a flipped bit, at offsets that go back or do not fit the segment. A batch bigger than a chunk is summed in
   pieces, so a false size costs no memory.
4. A file that has become large has room ahead of its end (reserving.py), until `trim` or `truncate`.
5. Messages of the formats before v2 are refused by name and never mistaken for damage: they are somebody's records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ottla.errors import CorruptMessage, UnsupportedForMessageFormat
from ottla.records import BatchInfo, RecordBatch, crc32c, scan
from ottla.records.layout import (
    ATTRIBUTES_AT,
    DECOMPRESSED_LIMIT_BYTES,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    MAGIC_KNOWN_BYTES,
)
from ottla.records.legacy import read_message_set
from ottla.storage.files import Buffer, File
from ottla.storage.index.sparse_index import INT32_MAX

HEADERS_READ_BYTES: Final = 4096 + HEADER_BYTES
HEADERS_READ_BYTES_MAX: Final = 64 * 1024
CHUNK_BYTES: Final = 1024 * 1024
RESERVES_FROM_BYTES: Final = 8 * 1024 * 1024
NEVER: Final = INT32_MAX + 1

_length: Final = struct.Struct(">i")


class FileSlice:
    """Bytes of a file, to be sent without being read here."""

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file: File, position: int, size_bytes: int) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def read(self) -> bytes:
        """The bytes themselves, for a caller that cannot send a file."""
        return self.file.read_at(self.position, self.size_bytes)


class RecordsFile:
    """The records of one segment. Owned by the segment."""

    def __init__(self, file: File, size_bytes: int) -> None:
        self.file = file
        self.size_bytes = size_bytes
        self._reserves_at = max(size_bytes, RESERVES_FROM_BYTES)
        self._has_reserved = False

    @property
    def path(self) -> Path:
        return self.file.path

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write whole batches at the end; returns the position of the first."""
        position = self.size_bytes
        self.size_bytes = end = position + self.file.write_at(position, buffers)
        if end >= self._reserves_at:
            self._reserve(end)
        return position

    def _reserve(self, end: int) -> None:
        """Let the next appends find room that is theirs already; whoever is refused once does not ask again."""
        from ottla.storage.reserving import room_ahead  # few brokers have a file that is so large at their start

        size_bytes = room_ahead(end)
        if self.file.reserve(end, size_bytes):
            self._has_reserved = True
            self._reserves_at = end + size_bytes
        else:
            self._reserves_at = NEVER

    def trim(self) -> None:
        """Nothing will be appended for now: give back the room behind the end."""
        if self._has_reserved:
            self.truncate(self.size_bytes)

    def truncate(self, size_bytes: int) -> int:
        """Cut the file; returns how many bytes are gone."""
        cut_bytes = self.size_bytes - size_bytes
        self.file.truncate(size_bytes)
        self.size_bytes = size_bytes
        self._reserves_at = max(size_bytes, RESERVES_FROM_BYTES)
        self._has_reserved = False
        return cut_bytes

    def rewrite(self) -> Iterator[int]:
        """Write every byte again where it is, so that the next sync has all of them, also those that a failed one
        left in the kernel's memory only; returns the position reached after every chunk."""
        for position in range(0, self.size_bytes, CHUNK_BYTES):
            size_bytes = min(CHUNK_BYTES, self.size_bytes - position)
            yield position + self.file.write_at(position, [self.file.read_at(position, size_bytes)])

    def headers(self, position: int = 0, read_bytes: int = HEADERS_READ_BYTES) -> Iterator[tuple[int, BatchInfo]]:
        """Position and header of every batch from the one at `position` on; the info's own position means nothing."""
        end = self.size_bytes
        chunk, start = b"", position
        while position < end:
            at = position - start
            if at + HEADER_BYTES > len(chunk):
                chunk, start, at = self.file.read_at(position, min(read_bytes, end - position)), position, 0
            if len(chunk) - at < HEADER_BYTES:
                raise self._damage(position)
            batch = BatchInfo(chunk, at)
            size_bytes = batch.size_bytes
            if batch.magic != MAGIC or not HEADER_BYTES <= size_bytes <= end - position:
                raise self._damage(position)
            yield position, batch
            position += size_bytes

    def batch(self, position: int, size_bytes: int) -> RecordBatch:
        """The whole batch at `position`, checked."""
        batch = RecordBatch(self.file.read_at(position, size_bytes))
        batch.check()
        return batch

    def _damage(self, position: int) -> CorruptMessage:
        refuse_old_messages(self, position)
        return CorruptMessage(f"no whole batch begins at position {position} of {self.path} ({self.size_bytes} bytes)")


def refuse_old_messages(records: RecordsFile, position: int) -> None:
    """Raise if what stands there is a sound message of format v0 or v1."""
    start = records.file.read_at(position, MAGIC_KNOWN_BYTES)
    if len(start) < MAGIC_KNOWN_BYTES or start[MAGIC_AT] not in (0, 1):
        return
    size_bytes = LOG_OVERHEAD_BYTES + _length.unpack_from(start, LENGTH_AT)[0]
    if not MAGIC_KNOWN_BYTES <= size_bytes <= records.size_bytes - position:
        return
    try:
        read_message_set(records.file.read_at(position, size_bytes), DECOMPRESSED_LIMIT_BYTES)
    except CorruptMessage:
        return
    raise UnsupportedForMessageFormat(
        f"position {position} of {records.path} holds a message of format v{start[MAGIC_AT]}"
    )


class SoundBatches:
    """Returns the batches of a records file, a list per chunk, as far as everything is sound.

    Control batches come as RecordBatch, because the replay of transactions must read the marker inside; all others
    are BatchInfo. When it has ended, `valid_bytes` is where the sound batches that begin at `position` end, and
    `damage` says what comes after them, None if nothing does. `next_offset` is what the first batch must not be
    below; without `has_gaps` every batch must begin where the one before it ends.
    """

    def __init__(
        self,
        records: RecordsFile,
        next_offset: int,
        *,
        position: int = 0,
        offset_max: int | None = None,
        has_gaps: bool = True,
    ) -> None:
        self.valid_bytes = position
        self.next_offset = next_offset
        self.damage: str | None = None
        self._records = records
        self._offset_max = next_offset + INT32_MAX if offset_max is None else offset_max
        self._has_gaps = has_gaps

    def __iter__(self) -> Iterator[list[BatchInfo]]:
        while self.damage is None and self.valid_bytes < self._records.size_bytes:
            position = self.valid_bytes
            batches = self._in_order(self._next_batches(position))
            if batches:
                self.valid_bytes += batches[-1].position + batches[-1].size_bytes
                yield batches

    def _next_batches(self, position: int) -> list[BatchInfo]:
        chunk = self._records.file.read_at(position, min(CHUNK_BYTES, self._records.size_bytes - position))
        whole_bytes = framed_bytes(chunk)
        if not whole_bytes:
            return self._big_batch(position, chunk)
        try:
            batches = scan(chunk, 0, whole_bytes)
        except CorruptMessage:
            batches = self._sound_prefix(position, chunk, whole_bytes)
        return [RecordBatch(chunk, batch.position) if batch.is_control else batch for batch in batches]

    def _sound_prefix(self, position: int, chunk: bytes, framed_bytes: int) -> list[BatchInfo]:
        """The batches of the chunk before the damaged one, which is the first that is left."""
        batches: list[BatchInfo] = []
        at = 0
        while at < framed_bytes:
            try:
                batches += scan(chunk, at, at + BatchInfo(chunk, at).size_bytes)
            except CorruptMessage:
                if not batches:
                    self._stop_at(position, f"the batch at position {position} fails its CRC or its layout")
                break
            at += batches[-1].size_bytes
        return batches

    def _big_batch(self, position: int, chunk: bytes) -> list[BatchInfo]:
        """A batch that does not fit in a chunk; or the end of what can be understood."""
        available_bytes = self._records.size_bytes - position
        if len(chunk) < HEADER_BYTES:
            return self._stop_at(position, f"the last {available_bytes} bytes are no batch")
        batch = BatchInfo(chunk)
        if not CHUNK_BYTES < batch.size_bytes <= available_bytes or batch.magic != MAGIC:
            said = f"a batch of magic {batch.magic} claims {batch.size_bytes} bytes, {available_bytes} are there"
            return self._stop_at(position, said)
        if self._sum(position, batch.size_bytes) != batch.crc:
            return self._stop_at(position, f"the batch at position {position} fails its CRC")
        return [batch]

    def _sum(self, position: int, size_bytes: int) -> int:
        found = 0
        end = position + size_bytes
        position += ATTRIBUTES_AT
        while position < end:
            piece = self._records.file.read_at(position, min(CHUNK_BYTES, end - position))
            if not piece:
                break  # the file was cut behind our back; the sum will be wrong
            found = crc32c(piece, found)
            position += len(piece)
        return found

    def _in_order(self, batches: list[BatchInfo]) -> list[BatchInfo]:
        """The batches before the first whose offsets go back or leave the segment: the CRC does not cover them."""
        next_offset, offset_max = self.next_offset, self._offset_max
        for number, batch in enumerate(batches):
            base_offset, last_offset = batch.base_offset, batch.last_offset
            follows = next_offset <= base_offset if self._has_gaps else next_offset == base_offset
            if not (follows and base_offset <= last_offset <= offset_max):
                self.damage = f"offsets {base_offset} to {last_offset} cannot follow {next_offset - 1} here"
                batches = batches[:number]
                break
            next_offset = last_offset + 1
        self.next_offset = next_offset
        return batches

    def _stop_at(self, position: int, said: str) -> list[BatchInfo]:
        refuse_old_messages(self._records, position)
        self.damage = said
        return []


def framed_bytes(chunk: bytes) -> int:
    """How much of the chunk is batches that are all there, going by nothing but their lengths."""
    position, last = 0, len(chunk) - HEADER_BYTES
    read_length = _length.unpack_from
    while position <= last:
        end = position + LOG_OVERHEAD_BYTES + read_length(chunk, position + LENGTH_AT)[0]
        if not position + HEADER_BYTES <= end <= len(chunk):
            break
        position = end
    return position
