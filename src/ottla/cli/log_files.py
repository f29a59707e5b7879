"""What is inside the files of a log, as rows: for people who look, read-only and without a broker.

1. Nothing is repaired, locked or written: a running broker's files can be looked at. What it is writing just then may
   show as an unfinished batch at the end; that is said, not raised.
2. A file is read in pieces of READ_BYTES, so a segment of any size can be looked at; a batch is read whole.
3. The kind of a file is told by its name, as Kafka names them. A suffix of a file on its way out (.deleted, .cleaned,
   .swap) is passed over.
4. `problems` of a segment are: a batch that fails its CRC or shape, offsets that go back, index entries that point to
   no batch. Each is a sentence with the position.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.errors import CorruptMessage
from ottla.light_tuples import NamedTuple
from ottla.records import MessageSet, RecordBatch, RecordStream
from ottla.records.layout import HEADER_BYTES, LOG_OVERHEAD_BYTES
from ottla.storage.segment.names import (
    ABORTED_INDEX_SUFFIX,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    RECORDS_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
)

READ_BYTES: Final = 4 * 1024 * 1024
BATCH_BYTES_LIMIT: Final = 256 * 1024 * 1024
_LENGTH: Final = struct.Struct(">qi")
_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_ABORTED_ENTRY: Final = struct.Struct(">hqqqq")


class FoundBatch(NamedTuple):
    """A batch and where it stands; `problem` says what is wrong with it."""

    position: int
    batch: RecordBatch | MessageSet
    problem: str | None


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class TimeEntry(NamedTuple):
    timestamp_ms: int
    offset: int


class AbortedEntry(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def kind_of(path: Path) -> str:
    """The suffix that tells what the file holds: ".log", ".index", ...; the whole name for files that have no other."""
    name = path.name
    for passing in (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX):
        name = name.removesuffix(passing)
    stem, dot, ending = name.rpartition(".")
    return f".{ending}" if dot and stem.isdigit() else name


def base_offset_of(path: Path) -> int:
    """The number in the name of a segment's file."""
    return int(path.name.partition(".")[0])


# --- records ---------------------------------------------------------------------------------------------------------


def batches(path: Path, *, check: bool = True) -> Iterator[FoundBatch]:
    """Every batch of a segment file in order. Ends with CorruptMessage where no batch can be told any more."""
    with path.open("rb", buffering=0) as file:
        size_bytes = path.stat().st_size
        position = 0
        while position < size_bytes:
            piece = _whole_batches(file.fileno(), position, size_bytes)
            if not piece:
                raise CorruptMessage(f"{size_bytes - position} bytes at position {position} are no whole batch")
            yield from _found(piece, position, check)
            position += len(piece)


def _whole_batches(number: int, position: int, size_bytes: int) -> bytes:
    """As many whole batches as fit in a piece, at least one; empty when not even one is whole."""
    import os

    piece = os.pread(number, READ_BYTES, position)
    end = 0
    while len(piece) - end >= LOG_OVERHEAD_BYTES:
        length = LOG_OVERHEAD_BYTES + _LENGTH.unpack_from(piece, end)[1]
        if length <= LOG_OVERHEAD_BYTES or length > min(size_bytes - position - end, BATCH_BYTES_LIMIT):
            return piece[:end]
        if end + length > len(piece):
            return piece[:end] if end else os.pread(number, length, position)
        end += length
    return piece[:end]


def _found(piece: bytes, start: int, check: bool) -> Iterator[FoundBatch]:
    position = start
    for batch in RecordStream(piece):
        yield FoundBatch(position, batch, _problem_of(batch) if check else None)
        position += batch.size_bytes


def _problem_of(batch: RecordBatch | MessageSet) -> str | None:
    try:
        batch.check()
        if isinstance(batch, RecordBatch):
            batch.tuples()
    except CorruptMessage as error:
        return error.detail or str(error)
    return None


# --- indexes ---------------------------------------------------------------------------------------------------------


def offset_entries(path: Path) -> list[OffsetEntry]:
    base = base_offset_of(path)
    entries = _OFFSET_ENTRY.iter_unpack(_without_padding(path.read_bytes(), _OFFSET_ENTRY.size))
    return [OffsetEntry(base + relative, position) for relative, position in entries]


def time_entries(path: Path) -> list[TimeEntry]:
    base = base_offset_of(path)
    entries = _TIME_ENTRY.iter_unpack(_without_padding(path.read_bytes(), _TIME_ENTRY.size))
    return [TimeEntry(timestamp_ms, base + relative) for timestamp_ms, relative in entries]


def aborted_entries(path: Path) -> list[AbortedEntry]:
    content = path.read_bytes()
    whole = content[: len(content) - len(content) % _ABORTED_ENTRY.size]
    return [AbortedEntry(*entry[1:]) for entry in _ABORTED_ENTRY.iter_unpack(whole)]


def _without_padding(content: bytes, entry_bytes: int) -> bytes:
    """The entries that are written; an index of an active segment is padded with zeros."""
    whole = content[: len(content) - len(content) % entry_bytes]
    if len(whole) == entry_bytes:
        return whole
    return whole[: -(-len(whole.rstrip(b"\0")) // entry_bytes) * entry_bytes]


# --- is it sound? ----------------------------------------------------------------------------------------------------


class Verified(NamedTuple):
    """What reading a whole segment gave."""

    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None
    problems: list[str]


def verify_segment(path: Path) -> Verified:
    """Read every batch of a segment and hold its indexes against them."""
    problems: list[str] = []
    starts: dict[int, int] = {}
    batch_count = record_count = 0
    first: int | None = None
    last: int | None = None
    try:
        for position, batch, problem in batches(path):
            batch_count += 1
            if problem is not None:
                problems.append(f"position {position}: {problem}")
            base, end, count = _range_of(batch)
            if last is not None and base <= last:
                problems.append(f"position {position}: offset {base} comes after {last}")
            record_count += count
            first = base if first is None else first
            last = end
            starts[position] = end
    except CorruptMessage as error:
        problems.append(error.detail or str(error))
    problems += _index_problems(path, starts)
    return Verified(batch_count, record_count, first, last, problems)


def _range_of(batch: RecordBatch | MessageSet) -> tuple[int, int, int]:
    if isinstance(batch, RecordBatch):
        return batch.base_offset, batch.last_offset, batch.record_count
    records = batch.records()
    return records[0].offset, records[-1].offset, len(records)


def _index_problems(path: Path, starts: dict[int, int]) -> Iterator[str]:
    index = path.with_suffix(OFFSET_INDEX_SUFFIX)
    if not index.exists():
        yield f"{index.name} is missing"
        return
    before = OffsetEntry(-1, -1)
    for entry in offset_entries(index):
        if entry.offset <= before.offset or entry.position <= before.position:
            yield f"{index.name}: entry {tuple(entry)} does not grow beyond {tuple(before)}"
        elif entry.position not in starts:
            yield f"{index.name}: offset {entry.offset} points to position {entry.position}, where no batch begins"
        elif starts[entry.position] < entry.offset:
            yield f"{index.name}: offset {entry.offset} is not in the batch at position {entry.position}"
        before = entry


# --- a data directory ------------------------------------------------------------------------------------------------


class PartitionFiles(NamedTuple):
    """A partition directory at a glance; the last offset comes from its newest segment."""

    name: str
    segments: int
    size_bytes: int
    first_offset: int | None
    next_offset: int | None


def partitions(directory: Path) -> list[PartitionFiles]:
    """The logs in a data directory, by name."""
    inside = sorted(path for path in directory.iterdir() if path.is_dir())
    return [_at_a_glance(path) for path in inside if segments(path)]


def segments(directory: Path) -> list[Path]:
    """The segment files of one log, oldest first; a broker's own change log is none."""
    return sorted(path for path in directory.glob(f"*{RECORDS_SUFFIX}") if path.stem.isdigit())


def _at_a_glance(directory: Path) -> PartitionFiles:
    files = segments(directory)
    size_bytes = sum(path.stat().st_size for path in files)
    return PartitionFiles(directory.name, len(files), size_bytes, base_offset_of(files[0]), _next_offset(files[-1]))


def _next_offset(segment: Path) -> int:
    """Where the log goes on: from the last index entry on, batch by batch, headers only."""
    import os

    position, next_offset = _last_indexed(segment), base_offset_of(segment)
    with segment.open("rb", buffering=0) as file:
        while len(header := os.pread(file.fileno(), HEADER_BYTES, position)) == HEADER_BYTES:
            base, length = _LENGTH.unpack_from(header)
            if length <= 0:
                break
            next_offset = base + int.from_bytes(header[23:27], "big") + 1
            position += LOG_OVERHEAD_BYTES + length
    return next_offset


def _last_indexed(segment: Path) -> int:
    """The position of the last entry of the index; an index may be 10 MiB of room for entries, so it is not read."""
    import os

    index = segment.with_suffix(OFFSET_INDEX_SUFFIX)
    if not index.exists():
        return 0
    with index.open("rb", buffering=0) as file:
        low, high, position = 0, index.stat().st_size // _OFFSET_ENTRY.size, 0
        while low < high:
            middle = (low + high) // 2
            entry = _OFFSET_ENTRY.unpack(os.pread(file.fileno(), _OFFSET_ENTRY.size, middle * _OFFSET_ENTRY.size))
            if entry == (0, 0):
                high = middle
            else:
                low, position = middle + 1, entry[1]
    return position if 0 <= position < segment.stat().st_size else 0


SUFFIXES: Final = (RECORDS_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX, ".snapshot")
