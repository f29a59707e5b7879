"""Segments with messages of format v0 and v1, as Kafka wrote them before 0.11: up-converted when their log is opened.

Kafka 4 keeps such segments as they are, reads them, and takes no new ones. Here they become record batches (v2) once,
so that nothing else has to know three formats; offsets, timestamps, keys, values and codecs stay what they were.

1. A compressed message becomes a batch with the same codec; plain messages that follow each other become batches of
   GROUP_BYTES. Equal input gives equal bytes, so replicas that convert stay equal.
2. Old messages are at the beginning of a log, because formats only went up. So one look at the first segment is all
   that a log without them costs.
3. The new file stands beside the old one until it is on the disk, and takes its place as compacted segments do
   (compaction/swap.py): a crash leaves the old one, or the new one.
4. What is damaged ends the segment, as recovery would; after a clean stop it is an error, because nothing may be cut.
5. Old segments are read a chunk at a time; no more than a chunk, or one message, is in memory.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.errors import CorruptMessage
from ottla.records import BatchBuilder
from ottla.records.compression import Compression
from ottla.records.layout import BATCH_BYTES_MAX, LOG_OVERHEAD_BYTES, MAGIC, MAGIC_AT, MAGIC_KNOWN_BYTES
from ottla.records.legacy import CODEC_MASK, LOG_APPEND_TIME_FLAG, SIZE_MIN, LegacyRecord, read_message_set
from ottla.storage.files import File, Files
from ottla.storage.segment.names import CLEANED_SUFFIX, RECORDS_SUFFIX, SWAP_SUFFIX

CHUNK_BYTES: Final = 1 << 20
GROUP_BYTES: Final = 64 * 1024
UNPACKED_LIMIT_BYTES: Final = 512 * 1024 * 1024
OFFSETS_LIMIT: Final = 2**31 - 1
_frame: Final = struct.Struct(">qi")
_ATTRIBUTES_AT: Final = 17

logger = logging.getLogger(__name__)


def old_segments(files: Files, directory: Path, bases: list[int]) -> list[int]:
    """The base offsets of those at the beginning that have old messages."""
    found = []
    for base_offset in sorted(bases):
        if not _begins_old(files, _path(directory, base_offset)):
            break
        found.append(base_offset)
    return found


def convert(files: Files, directory: Path, bases: list[int], *, is_clean: bool) -> Iterator[int]:
    """Write new segments and put them where the next look for leftovers lets them take over; returns the offset
    reached after every batch."""
    for base_offset in bases:
        logger.warning("%s has messages of an old format and is converted", _path(directory, base_offset))
        yield from _convert_segment(files, directory, base_offset, is_clean)
    for base_offset in reversed(bases):
        path = _path(directory, base_offset)
        files.rename(path.with_name(path.name + CLEANED_SUFFIX), path.with_name(path.name + SWAP_SUFFIX))
    files.sync_directory(directory)


def _path(directory: Path, base_offset: int) -> Path:
    return directory / f"{base_offset:020d}{RECORDS_SUFFIX}"


def _begins_old(files: Files, path: Path) -> bool:
    """Whether a sound message of an old format is at the beginning. A magic that rotted is none: what stands there
    would be cut."""
    file = files.open(path, read_only=True)
    try:
        start = file.read_at(0, MAGIC_KNOWN_BYTES)
        if len(start) < MAGIC_KNOWN_BYTES or start[MAGIC_AT] not in (0, 1):
            return False
        size_bytes = LOG_OVERHEAD_BYTES + _frame.unpack_from(start)[1]
        if not MAGIC_KNOWN_BYTES <= size_bytes <= file.size():
            return False
        read_message_set(file.read_at(0, size_bytes), UNPACKED_LIMIT_BYTES)
    except CorruptMessage:
        return False
    finally:
        file.close()
    return True


def _convert_segment(files: Files, directory: Path, base_offset: int, is_clean: bool) -> Iterator[int]:
    path = _path(directory, base_offset)
    old = files.open(path, read_only=True)
    new = files.open(path.with_name(path.name + CLEANED_SUFFIX), create=True)
    position = 0
    try:
        new.truncate(0)
        for last_offset, batch in _Converter(old, base_offset, is_clean).batches():
            position += new.write_at(position, [batch])
            yield last_offset + 1
        new.sync(metadata=True)
    finally:
        old.close()
        new.close()


class _Converter:
    """The batches of one old segment, with the last offset of each."""

    def __init__(self, file: File, base_offset: int, is_clean: bool) -> None:
        self._file = file
        self._is_clean = is_clean
        self._group: list[LegacyRecord] = []
        self._group_bytes = 0
        self._append_time_ms: int | None = None  # of the group
        self._last_offset = base_offset - 1
        self._offset_limit = base_offset + OFFSETS_LIMIT

    def batches(self) -> Iterator[tuple[int, bytes]]:
        try:
            for message in self._messages():
                yield from self._of_message(message)
        except CorruptMessage as error:
            if self._is_clean:
                raise CorruptMessage(f"{self._file.path} cannot be converted: {error}") from error
            logger.warning("%s is cut where its old messages are damaged: %s", self._file.path, error)
        yield from self._close_group()

    def _of_message(self, message: memoryview) -> Iterator[tuple[int, bytes]]:
        if message[MAGIC_AT] == MAGIC:
            yield from self._close_group()
            self._last_offset = _last_offset(message)
            yield self._last_offset, bytes(message)
            return
        records = self._in_order(read_message_set(message, UNPACKED_LIMIT_BYTES).records)
        attributes = message[_ATTRIBUTES_AT]
        is_appended = bool(message[MAGIC_AT] and attributes & LOG_APPEND_TIME_FLAG)
        append_time_ms = records[0].timestamp_ms if is_appended else None
        codec = Compression(attributes & CODEC_MASK)
        if codec is not Compression.NONE:
            yield from self._close_group()
            yield records[-1].offset, _batch(records, codec, append_time_ms)
            return
        if append_time_ms != self._append_time_ms or self._group_bytes >= GROUP_BYTES:
            yield from self._close_group()
        self._append_time_ms = append_time_ms
        self._group += records
        self._group_bytes += len(message)

    def _in_order(self, records: list[LegacyRecord]) -> list[LegacyRecord]:
        """Offsets are outside the sums of old messages, so that they grow, and not beyond what a segment can have, must
        be checked."""
        for record in records:
            if not self._last_offset < record.offset < self._offset_limit:
                raise CorruptMessage(f"offset {record.offset} follows offset {self._last_offset}")
            self._last_offset = record.offset
        return records

    def _close_group(self) -> Iterator[tuple[int, bytes]]:
        group, self._group, self._group_bytes = self._group, [], 0
        if group:
            yield group[-1].offset, _batch(group, Compression.NONE, self._append_time_ms)

    def _messages(self) -> Iterator[memoryview]:
        """Whole messages and batches, one after the other."""
        position, end = 0, self._file.size()
        while position < end:
            chunk = memoryview(self._file.read_at(position, min(CHUNK_BYTES, end - position)))
            at = 0
            while (size_bytes := _size(chunk, at)) is not None and at + size_bytes <= len(chunk):
                yield chunk[at : at + size_bytes]
                at += size_bytes
            if at == 0:
                yield self._large(position, size_bytes, end)
                at = size_bytes or 0
            position += at

    def _large(self, position: int, size_bytes: int | None, end: int) -> memoryview:
        """A message that is larger than a chunk; one that has no end is damage."""
        if size_bytes is None or size_bytes > end - position:
            raise CorruptMessage(f"no whole message begins at position {position}")
        return memoryview(self._file.read_at(position, size_bytes))


def _size(chunk: memoryview, at: int) -> int | None:
    """Of the message that begins there; None when not even its head is whole."""
    if at + MAGIC_KNOWN_BYTES > len(chunk):
        return None
    size_bytes: int = _frame.unpack_from(chunk, at)[1]
    if size_bytes < SIZE_MIN[0] or chunk[at + MAGIC_AT] > MAGIC:
        raise CorruptMessage(f"a message of {size_bytes} bytes in format v{chunk[at + MAGIC_AT]} cannot be")
    return LOG_OVERHEAD_BYTES + size_bytes


def _last_offset(batch: memoryview) -> int:
    from ottla.records import RecordBatch

    found = RecordBatch(batch)
    found.check()
    return found.last_offset


def _batch(records: list[LegacyRecord], codec: Compression, append_time_ms: int | None) -> bytes:
    builder = BatchBuilder(
        compression=codec,
        size_limit_bytes=BATCH_BYTES_MAX,
        base_offset=records[0].offset,
        log_append_time_ms=append_time_ms,
    )
    for record in records:
        builder.append_with_offset(record.offset, record.timestamp_ms, record.key, record.value)
    return bytes(builder.close())
