"""Snapshots: Kafka's bytes, whole or refused, in steps."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.golden.metadata.reading import golden_files, records_of

from ottla.cluster.metadata_log.batches import MetadataBatch, data_batch, read_batches
from ottla.cluster.raft.snapshots import (
    STEP_RECORDS,
    DamagedSnapshot,
    FetchedSnapshot,
    SnapshotFile,
    SnapshotId,
    Voters,
    parse_name,
    read_snapshot,
    write_snapshot,
)
from ottla.errors import CorruptMessage
from ottla.protocol.metadata_log import encode_record
from ottla.protocol.metadata_log.control import SnapshotHeaderRecord
from ottla.protocol.metadata_log.transactions import NoOpRecord
from ottla.records import RecordStream
from ottla.storage.files import DiskFiles
from ottla.testing.files import MemoryFiles

HERE = Path("/data/__cluster_metadata-0")
PATH = HERE / SnapshotId(155, 1).file_name
GOLDEN = {name: data for name, data in golden_files().items() if name.endswith(".checkpoint")}
VALUE = encode_record(NoOpRecord(), 0)


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(HERE)
    return files


def write(files: MemoryFiles, values: Iterable[bytes], path: Path = PATH) -> int:
    times: Iterator[int] = iter(range(10**9))
    steps = write_snapshot(
        files, path, values, epoch=1, last_timestamp_ms=7, now_ms=lambda: next(times), voters=Voters()
    )
    return sum(1 for _ in steps)


def put(files: MemoryFiles, content: bytes) -> None:
    files.replace_bytes(PATH, content)


def batches(files: MemoryFiles) -> list[MetadataBatch]:
    return list(read_snapshot(files, PATH))


# --- Kafka's files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOLDEN)
def test_apaches_snapshot_is_written_again_byte_for_byte(files: MemoryFiles, name: str) -> None:
    put(files, GOLDEN[name])
    found = batches(files)
    header = found[0].controls[0]
    assert isinstance(header, SnapshotHeaderRecord)
    times = iter([batch.timestamp_ms for batch in found])
    values = [record.value or b"" for batch, record in records_of(GOLDEN[name]) if not batch.is_control]
    steps = write_snapshot(
        files,
        PATH,
        values,
        epoch=found[0].epoch,
        last_timestamp_ms=header.last_contained_log_timestamp,
        now_ms=lambda: next(times),
        voters=Voters().after(found[0].controls),
    )
    list(steps)
    assert files.read_bytes(PATH) == GOLDEN[name]


def test_a_name_says_the_end_offset_and_the_epoch() -> None:
    assert SnapshotId(155, 1).file_name == "00000000000000000155-0000000001.checkpoint"
    assert parse_name("00000000000000000155-0000000001.checkpoint") == SnapshotFile(SnapshotId(155, 1))
    of_kafka = "00000000000000000155-0000000001-8813904871.checkpoint.part"
    assert parse_name(of_kafka) == SnapshotFile(SnapshotId(155, 1), ".part")
    assert parse_name("00000000000000000155-0000000001.checkpoint.deleted") == SnapshotFile(
        SnapshotId(155, 1), ".deleted"
    )
    for other in ("bootstrap.checkpoint", "00000000000000000155.log", "155-1.checkpoint", "quorum-state"):
        assert parse_name(other) is None


# --- whole or refused ------------------------------------------------------------------------------------------------


def test_a_snapshot_that_is_cut_anywhere_is_refused(files: MemoryFiles) -> None:
    write(files, [VALUE] * 3)
    whole = files.read_bytes(PATH)
    assert len(batches(files)) == 3
    for length in range(len(whole)):
        put(files, whole[:length])
        with pytest.raises(DamagedSnapshot, match=r"has no footer|in the middle of a batch"):
            batches(files)


def test_a_flipped_bit_is_found(files: MemoryFiles) -> None:
    write(files, [VALUE] * 3)
    whole = files.read_bytes(PATH)
    starts = [batch.position for batch in RecordStream(whole)]
    under_no_sum = {start + position for start in starts for position in range(12, 16)}  # the epoch
    for position in set(range(len(whole))) - under_no_sum:
        put(files, whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises((DamagedSnapshot, CorruptMessage)):
            batches(files)


def test_what_has_no_header_or_goes_on_behind_its_footer_is_refused(files: MemoryFiles) -> None:
    write(files, [VALUE])
    more = data_batch([VALUE], base_offset=3, epoch=1, timestamp_ms=0)
    put(files, files.read_bytes(PATH) + more)
    with pytest.raises(DamagedSnapshot, match="goes on after its footer"):
        batches(files)
    put(files, data_batch([VALUE], base_offset=0, epoch=1, timestamp_ms=0))
    with pytest.raises(DamagedSnapshot, match="does not begin with a header"):
        batches(files)


def test_a_crash_while_it_is_written_leaves_no_snapshot(files: MemoryFiles) -> None:
    steps = write_snapshot(files, PATH, [VALUE] * 3, epoch=1, last_timestamp_ms=7, now_ms=lambda: 0, voters=Voters())
    next(steps)
    assert not files.exists(PATH)
    assert files.list_directory(HERE) == [PATH.name + ".part"]


def test_a_snapshot_is_for_its_owner_to_read_while_and_after_it_is_written(tmp_path: Path) -> None:
    steps = write_snapshot(
        DiskFiles(), tmp_path / PATH.name, [VALUE], epoch=1, last_timestamp_ms=7, now_ms=lambda: 0, voters=Voters()
    )
    next(steps)
    fetched = FetchedSnapshot(DiskFiles(), tmp_path / SnapshotId(200, 1).file_name)
    assert modes(tmp_path) == {PATH.name + ".part": 0o400, SnapshotId(200, 1).file_name + ".part": 0o400}
    for _ in steps:
        pass
    fetched.add((tmp_path / PATH.name).read_bytes())
    for _ in fetched.finish():
        pass
    assert modes(tmp_path) == {PATH.name: 0o400, SnapshotId(200, 1).file_name: 0o400}


def modes(directory: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


# --- steps -----------------------------------------------------------------------------------------------------------


def test_a_large_snapshot_is_written_in_steps_and_one_batch(files: MemoryFiles) -> None:
    assert write(files, (VALUE for _ in range(10 * STEP_RECORDS))) >= 10
    assert [len(batch.records) for batch in batches(files)] == [0, 10 * STEP_RECORDS, 0]


def test_batches_stay_below_the_largest_that_kafka_reads(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.cluster.raft.snapshots.BATCH_BYTES_MAX", 400)
    write(files, [VALUE] * 100)
    found = list(read_batches(files.read_bytes(PATH)))
    assert sum(len(batch.records) for batch in found) == 100
    assert len(found) > 5
    assert [batch.base_offset for batch in found[1:]] == [batch.last_offset + 1 for batch in found[:-1]]
