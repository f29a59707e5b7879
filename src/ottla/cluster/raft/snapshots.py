"""Snapshots of the metadata: files that have in them what a log said up to an offset.

    00000000000000000155-0000000001.checkpoint            offset after the last record, and epoch of that record
    00000000000000000155-0000000001.checkpoint.part       being written or fetched; removed at the next start
    00000000000000000155-0000000001.checkpoint.deleted    no longer needed; removed a while later
    bootstrap.checkpoint                                  what a new cluster begins with, from kafka-storage format

    control batch   header (time of the last record), and with kraft.version 1 that level and the voters
    batches         records that make the image out of nothing; their offsets are the snapshot's own, from 0
    control batch   footer

1. A snapshot without its footer is not whole: DamagedSnapshot. So is one with anything behind the footer.
2. A file is written under its name with .part, synced and renamed; a crash leaves all of it or nothing.
3. It is read-only and for its owner alone from the beginning, as Kafka's is when it is whole: users' keys are in it.
4. Writing and reading go in steps (generators), so that a loop is not held by a cluster of a hundred thousand
   partitions: a step is STEP_RECORDS records or one piece of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from ottla.cluster.metadata_log.batches import (
    BATCH_BYTES_MAX,
    MetadataBatch,
    control_batch,
    data_batch,
    read_batch,
)
from ottla.errors import CorruptMessage, KafkaStorageError
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.metadata_log.control import (
    ControlMessage,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from ottla.records import RecordBatch
from ottla.records.layout import HEADER_BYTES, LENGTH_AT, LOG_OVERHEAD_BYTES
from ottla.storage.files import Buffer, File, Files

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".part"
DELETED_SUFFIX: Final = ".deleted"
BOOTSTRAP: Final = "bootstrap" + SUFFIX
STEP_RECORDS: Final = 500
RECORD_OVERHEAD_BYTES: Final = 24
"""More than a record takes besides its value."""
_NAME: Final = re.compile(r"(\d{20})-(\d{10})[^.]*\.checkpoint(\.part|\.deleted)?")


class DamagedSnapshot(KafkaStorageError):
    """A snapshot of the metadata is damaged or not whole, so it is not used.
    Remove it if the node has an older one or its whole log, or copy one from another node of the cluster."""


class SnapshotId(NamedTuple):
    """What a snapshot is of: everything before `end_offset`, whose last record is of `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020}-{self.epoch:010}{SUFFIX}"


class SnapshotFile(NamedTuple):
    """A file that has the name of a snapshot, with what its name says besides."""

    id: SnapshotId
    suffix: str = ""


def parse_name(name: str) -> SnapshotFile | None:
    """What the name of a file says; None for other files."""
    parts = _NAME.fullmatch(name)
    return None if parts is None else SnapshotFile(SnapshotId(int(parts[1]), int(parts[2])), parts[3] or "")


@dataclass(frozen=True, slots=True)
class Voters:
    """What a log says of its quorum: the level of kraft.version, and from level 1 on who votes."""

    kraft_version: int = 0
    record: VotersRecord | None = None

    def controls(self) -> list[ControlMessage]:
        """How a snapshot says it; level 0 is said by nothing."""
        if not self.kraft_version:
            return []
        return [KRaftVersionRecord(k_raft_version=self.kraft_version), self.record or VotersRecord(voters=[])]

    def after(self, controls: Iterable[ControlMessage]) -> Voters:
        """What holds after these control records."""
        version, record = self.kraft_version, self.record
        for control in controls:
            if isinstance(control, KRaftVersionRecord):
                version = control.k_raft_version
            elif isinstance(control, VotersRecord):
                record = control
        return Voters(version, record)


# --- writing ---------------------------------------------------------------------------------------------------------


def write_snapshot(
    files: Files,
    path: Path,
    values: Iterable[bytes],
    *,
    epoch: int,
    last_timestamp_ms: int,
    now_ms: Callable[[], int],
    voters: Voters,
) -> Iterator[None]:
    """Write a snapshot of encoded records, in steps; it is there, under its name and on the disk, after the last
    one."""
    part = path.with_name(path.name + PART_SUFFIX)
    files.remove(part, missing_ok=True)
    file = _new_file(files, part)
    try:
        end = 0
        for batch in _batches(values, voters, epoch, last_timestamp_ms, now_ms):
            end += file.write_at(end, [batch]) if batch else 0
            yield
        file.sync(metadata=True)
    finally:
        file.close()
    files.rename(part, path)
    files.sync_directory(path.parent)


def _new_file(files: Files, part: Path) -> File:
    file = files.open(part, create=True)
    files.make_read_only(part)
    return file


def _batches(
    values: Iterable[bytes], voters: Voters, epoch: int, last_timestamp_ms: int, now_ms: Callable[[], int]
) -> Iterator[bytes]:
    """The batches of a snapshot; an empty one where only the step is over."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms)
    controls = [header, *voters.controls()]
    yield control_batch(controls, base_offset=0, epoch=epoch, timestamp_ms=now_ms())
    offset = len(controls)
    gathered: list[bytes] = []
    size_bytes = 0
    for number, value in enumerate(values, 1):
        if size_bytes + len(value) + RECORD_OVERHEAD_BYTES > BATCH_BYTES_MAX:
            yield data_batch(gathered, base_offset=offset, epoch=epoch, timestamp_ms=now_ms())
            offset, size_bytes = offset + len(gathered), 0
            gathered.clear()
        gathered.append(value)
        size_bytes += len(value) + RECORD_OVERHEAD_BYTES
        if number % STEP_RECORDS == 0:
            yield b""
    if gathered:
        yield data_batch(gathered, base_offset=offset, epoch=epoch, timestamp_ms=now_ms())
    footer = offset + len(gathered)
    yield control_batch([SnapshotFooterRecord()], base_offset=footer, epoch=epoch, timestamp_ms=now_ms())


class FetchedSnapshot:
    """A snapshot that comes from the leader in pieces, which end anywhere. Nothing counts before `finish`."""

    def __init__(self, files: Files, path: Path) -> None:
        self.position = 0
        self._files = files
        self._path = path
        self._part = path.with_name(path.name + PART_SUFFIX)
        files.remove(self._part, missing_ok=True)
        self._file = _new_file(files, self._part)

    def add(self, piece: Buffer) -> None:
        self.position += self._file.write_at(self.position, [piece]) if len(piece) else 0

    def finish(self) -> Iterator[None]:
        """Prove that it is whole, in steps, and give it its name; DamagedSnapshot when it is not."""
        self._file.sync(metadata=True)
        self._file.close()
        for _ in read_snapshot(self._files, self._part):
            yield
        self._files.rename(self._part, self._path)
        self._files.sync_directory(self._path.parent)

    def drop(self) -> None:
        self._file.close()
        self._files.remove(self._part, missing_ok=True)


# --- reading ---------------------------------------------------------------------------------------------------------


def read_snapshot(files: Files, path: Path) -> Iterator[MetadataBatch]:
    """The batches of a snapshot, header and footer among them. DamagedSnapshot comes where it is found out: what was
    read before it must not be used."""
    file = files.open(path, read_only=True)
    try:
        yield from _checked(_read(file, path), path)
    finally:
        file.close()


def _checked(batches: Iterator[MetadataBatch], path: Path) -> Iterator[MetadataBatch]:
    has_footer, next_offset = False, 0
    for batch in batches:
        if batch.base_offset != next_offset:
            raise DamagedSnapshot(f"{path} goes on at offset {batch.base_offset}; {next_offset} is the next one")
        if next_offset == 0 and not (batch.controls and isinstance(batch.controls[0], SnapshotHeaderRecord)):
            raise DamagedSnapshot(f"{path} does not begin with a header")
        if has_footer:
            raise DamagedSnapshot(f"{path} goes on after its footer")
        has_footer = any(isinstance(control, SnapshotFooterRecord) for control in batch.controls)
        next_offset = batch.last_offset + 1
        yield batch
    if not has_footer:
        raise DamagedSnapshot(f"{path} has no footer, so it was not written to its end")


def _read(file: File, path: Path) -> Iterator[MetadataBatch]:
    position, size_bytes = 0, file.size()
    while position < size_bytes:
        head = file.read_at(position, HEADER_BYTES)
        length = int.from_bytes(head[LENGTH_AT:LOG_OVERHEAD_BYTES], "big", signed=True) + LOG_OVERHEAD_BYTES
        if len(head) < HEADER_BYTES or not HEADER_BYTES <= length <= size_bytes - position:
            raise DamagedSnapshot(f"{path} ends in the middle of a batch, at byte {position}")
        try:
            batch = read_batch(RecordBatch(file.read_at(position, length)))
        except CorruptMessage as problem:
            raise DamagedSnapshot(f"{path} is damaged at byte {position}: {problem.detail}") from problem
        position += length
        yield batch
