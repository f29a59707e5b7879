"""The producer state of one offset as a file: <20 digits>.snapshot, beside the segment that begins there.

    int16   version, 1
    uint32  CRC-32C of all that follows
    int32   number of producers, and for each:
              int64 id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta (of its last batch),
              int64 timestamp of its last append, int32 epoch of the last coordinator, int64 first offset of its open
              transaction; -1 stands for "none", a batch without offset for "no batch in this epoch"

1. A snapshot saves replaying the log from its start: load the newest that is not beyond the end of the log, then
   replay from its offset.
2. A snapshot that is cut, longer than it says, or fails its sum is CorruptSnapshot; loading removes it and takes the
   one before. Nothing but time is lost: the log itself is the truth.
3. Producers are written in the order of their last append, so that the longest silent are known after a restart.
4. One per segment is kept, and the newest behind them all: a clean stop wrote it.
5. encode and decode touch no disk; everything else is a few calls of the door to the disk.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from ottla.errors import OttlaError
from ottla.records.implementation import crc32c
from ottla.records.layout import NO_SEQUENCE
from ottla.storage.files import Files
from ottla.storage.producers.entry import NO_OFFSET, BatchMetadata, ProducerEntry
from ottla.storage.producers.state import ProducerState

SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
OFFSET_DIGITS: Final = 20
VERSION: Final = 1

_head = struct.Struct(">hI")
_count = struct.Struct(">i")
_entry = struct.Struct(">qhiqiqiq")


class CorruptSnapshot(OttlaError):
    """A snapshot of producers is damaged.
    It is removed and the state rebuilt from an older one and the log; look for a faulty disk if it happens again."""


# --- bytes -----------------------------------------------------------------------------------------------------------


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The bytes of a snapshot with these producers."""
    packed = [_encode_entry(entry) for entry in entries]
    body = b"".join((_count.pack(len(packed)), *packed))
    return _head.pack(VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """The producers of a snapshot, or CorruptSnapshot."""
    if len(content) < _head.size + _count.size:
        raise CorruptSnapshot(f"it has {len(content)} bytes, fewer than its head")
    version, crc = _head.unpack_from(content)
    if version != VERSION:
        raise CorruptSnapshot(f"it has version {version}, known is {VERSION}")
    body = memoryview(content)[_head.size :]
    found = crc32c(body)
    if found != crc:
        raise CorruptSnapshot(f"it says its CRC is {crc:#010x}, its bytes give {found:#010x}")
    (count,) = _count.unpack_from(body)
    if count < 0 or len(body) != _count.size + count * _entry.size:
        raise CorruptSnapshot(f"it claims {count} producers in {len(body) - _count.size} bytes")
    return [_decode_entry(*fields) for fields in _entry.iter_unpack(body[_count.size :])]


def _encode_entry(entry: ProducerEntry) -> bytes:
    last_sequence, last_offset, offset_delta = entry.batches[-1][:3] if entry.batches else (NO_SEQUENCE, NO_OFFSET, 0)
    first_offset = entry.transaction_first_offset
    return _entry.pack(
        entry.producer_id,
        entry.epoch,
        last_sequence,
        last_offset,
        offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        NO_OFFSET if first_offset is None else first_offset,
    )


def _decode_entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    first_offset: int,
) -> ProducerEntry:
    batch = BatchMetadata(last_sequence, last_offset, offset_delta, timestamp_ms)
    return ProducerEntry(
        producer_id,
        epoch,
        coordinator_epoch,
        timestamp_ms,
        first_offset if first_offset >= 0 else None,
        (batch,) if last_offset >= 0 else (),
    )


# --- files -----------------------------------------------------------------------------------------------------------


def snapshot_path(directory: Path, offset: int) -> Path:
    """Where the snapshot of this offset is kept."""
    return directory / f"{offset:0{OFFSET_DIGITS}d}{SUFFIX}"


def list_snapshots(files: Files, directory: Path) -> list[int]:
    """The offsets that have a snapshot, the smallest first."""
    stems = [name.removesuffix(SUFFIX) for name in files.list_directory(directory) if name.endswith(SUFFIX)]
    return sorted(int(stem) for stem in stems if len(stem) == OFFSET_DIGITS and stem.isdecimal())


def take_snapshot(state: ProducerState, files: Files, directory: Path) -> int | None:
    """Write a snapshot of the state's end, durably; None when there is one already. Returns its offset."""
    if state.end_offset <= state.snapshot_offset:
        return None
    files.replace_bytes(snapshot_path(directory, state.end_offset), encode_snapshot(state.entries.values()))
    state.snapshot_offset = state.end_offset
    return state.end_offset


def remove_snapshot(files: Files, directory: Path, offset: int) -> None:
    """Remove the snapshot of this offset, if there is one."""
    files.remove(snapshot_path(directory, offset), missing_ok=True)


def mark_snapshot_deleted(files: Files, directory: Path, offset: int) -> Path | None:
    """Set the snapshot of a deleted segment aside, to be removed later with it; None when there is none."""
    path = snapshot_path(directory, offset)
    aside = path.with_name(path.name + DELETED_SUFFIX)
    try:
        files.rename(path, aside)
    except FileNotFoundError:
        return None
    return aside


def remove_snapshots_before(files: Files, directory: Path, offset: int) -> None:
    """Remove those below `offset`: records before it are gone."""
    for found in list_snapshots(files, directory):
        if found < offset:
            remove_snapshot(files, directory, found)


def remove_stray_snapshots(files: Files, directory: Path, segment_base_offsets: Collection[int]) -> None:
    """Remove those without a segment, except the newest one if it is at or beyond the last segment."""
    strays = sorted(set(list_snapshots(files, directory)).difference(segment_base_offsets))
    if strays and strays[-1] >= max(segment_base_offsets, default=0):
        strays.pop()
    for stray in strays:
        remove_snapshot(files, directory, stray)


def load_newest(
    state: ProducerState, files: Files, directory: Path, *, log_start_offset: int, log_end_offset: int, now_ms: int
) -> int:
    """Let the state be what the newest sound snapshot says; returns the offset from which to replay."""
    for offset in reversed(list_snapshots(files, directory)):
        if offset > log_end_offset:
            continue
        try:
            entries = decode_snapshot(files.read_bytes(snapshot_path(directory, offset)))
        except CorruptSnapshot:
            remove_snapshot(files, directory, offset)
            continue
        state.reload(entries, offset, now_ms)
        return offset
    state.reload((), log_start_offset, now_ms)
    return log_start_offset


def truncate_and_reload(
    state: ProducerState, files: Files, directory: Path, *, log_start_offset: int, log_end_offset: int, now_ms: int
) -> int:
    """The log was cut to these bounds: drop snapshots outside and, if its end moved, go back to the newest one inside.

    Returns the offset from which the log must be replayed.
    """
    kept = []
    for offset in list_snapshots(files, directory):
        if log_start_offset < offset <= log_end_offset:
            kept.append(offset)
        else:
            remove_snapshot(files, directory, offset)
    if log_end_offset == state.end_offset:
        state.move_log_start(log_start_offset, kept[-1] if kept else None)
        return state.end_offset
    return load_newest(
        state, files, directory, log_start_offset=log_start_offset, log_end_offset=log_end_offset, now_ms=now_ms
    )


def truncate_fully(state: ProducerState, files: Files, directory: Path, offset: int) -> None:
    """The log is empty and starts at `offset`: forget every producer and remove every snapshot."""
    for found in list_snapshots(files, directory):
        remove_snapshot(files, directory, found)
    state.clear(offset)
