"""The metadata log: grows by whole batches, is cut but never below what is committed, forgets what snapshots have."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.metadata.reading import golden_files

from ottla.cluster.metadata_log.batches import control_batch, data_batch, read_batches
from ottla.cluster.raft.log import CommittedRecordsLost, LogLimits, MetadataLog
from ottla.cluster.raft.snapshots import DamagedSnapshot, SnapshotId, Voters, write_snapshot
from ottla.errors import OffsetOutOfRange
from ottla.protocol.metadata_log import encode_record
from ottla.protocol.metadata_log.control import LeaderChangeMessage
from ottla.protocol.metadata_log.transactions import NoOpRecord
from ottla.storage.log.leader_epochs import EpochEnd
from ottla.testing.files import MemoryFiles

DATA = Path("/data")
HERE = DATA / "__cluster_metadata-0"
VALUE = encode_record(NoOpRecord(), 0)
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(DATA)
    files.sync_directory(DATA.parent)
    return files


LIMITS = LogLimits()


def open_log(files: MemoryFiles, limits: LogLimits = LIMITS) -> MetadataLog:
    return MetadataLog.open(files, DATA, now_ms=0, limits=limits)


@pytest.fixture
def log(files: MemoryFiles) -> MetadataLog:
    return open_log(files)


def grow(log: MetadataLog, records: int, epoch: int = 1, *, value: bytes = VALUE) -> None:
    """A batch of so many records, synced."""
    batch = data_batch([value] * records, base_offset=log.end_offset, epoch=epoch, timestamp_ms=5)
    log.append(batch, epoch=epoch, now_ms=0)
    job = log.flush_job()
    job.run()
    log.flushed(job, 0)


def snapshot(log: MetadataLog, end_offset: int, epoch: int = 1) -> None:
    steps = log.write_snapshot(
        SnapshotId(end_offset, epoch), [VALUE], last_timestamp_ms=5, now_ms=lambda: 0, voters=Voters()
    )
    list(steps)


# --- Kafka's files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", ["controller", "broker"])
def test_apaches_directory_is_opened_with_its_snapshots(files: MemoryFiles, node: str) -> None:
    files.make_directory(HERE)
    golden = {name.rpartition("/")[2]: data for name, data in golden_files().items() if f"{node}/__cluster" in name}
    for name, data in golden.items():
        files.replace_bytes(HERE / name, data)
    log = open_log(files)
    assert (log.start_offset, log.last_epoch) == (0, 1)
    assert log.end_offset == {"controller": 197, "broker": 194}[node]
    assert [each.file_name for each in log.snapshots] == sorted(
        name for name in golden if "checkpoint" in name and "-0" in name
    )
    assert log.high_watermark == log.snapshots[-1].end_offset
    assert files.read_bytes(HERE / "partition.metadata") == golden["partition.metadata"]
    assert files.read_bytes(HERE / "leader-epoch-checkpoint") == golden["leader-epoch-checkpoint"]


@pytest.mark.parametrize("node", ["controller", "broker"])
def test_what_apache_appended_makes_apaches_file(files: MemoryFiles, log: MetadataLog, node: str) -> None:
    golden = golden_files()
    content = golden[f"{node}/__cluster_metadata-0/00000000000000000000.log"]
    log.append(content, epoch=1, now_ms=0)
    assert files.read_bytes(HERE / "00000000000000000000.log") == content
    log.flush_job().run()
    for name in ("leader-epoch-checkpoint", "partition.metadata"):
        assert files.read_bytes(HERE / name) == golden[f"{node}/__cluster_metadata-0/{name}"]


# --- growing ---------------------------------------------------------------------------------------------------------


def test_what_is_synced_survives_a_crash(files: MemoryFiles, log: MetadataLog) -> None:
    grow(log, 3)
    assert log.flushed_offset == log.end_offset == 3
    batch = data_batch([VALUE] * 2, base_offset=3, epoch=2, timestamp_ms=0)
    log.append(batch, epoch=2, now_ms=0)
    assert (log.flushed_offset, log.end_offset, log.last_epoch) == (3, 5, 2)
    files.crash("nothing")
    found = open_log(files)
    assert found.end_offset == 3
    assert found.last_epoch == 1


def test_a_gap_is_refused(log: MetadataLog) -> None:
    grow(log, 3)
    with pytest.raises(OffsetOutOfRange, match="from offset 5 cannot follow on 3"):
        log.append(data_batch([VALUE], base_offset=5, epoch=1, timestamp_ms=0), epoch=1, now_ms=0)
    assert log.end_offset == 3


def test_batches_of_a_newer_epoch_than_the_leaders_are_not_taken(log: MetadataLog) -> None:
    assert log.append(data_batch([VALUE], base_offset=0, epoch=3, timestamp_ms=0), epoch=2, now_ms=0) == 0


def test_control_batches_and_uncommitted_ones_are_read(log: MetadataLog) -> None:
    change = LeaderChangeMessage(leader_id=1, voters=[], granting_voters=[])
    log.append(control_batch([change], base_offset=0, epoch=4, timestamp_ms=0), epoch=4, now_ms=0)
    data = log.read(0, 1 << 20).slice.read()
    assert [batch.controls for batch in read_batches(data)] == [(change,)]
    assert log.high_watermark == 0


def test_where_epochs_end(log: MetadataLog) -> None:
    grow(log, 3, epoch=1)
    grow(log, 2, epoch=4)
    assert log.end_offset_for_epoch(1) == EpochEnd(1, 3)
    assert log.end_offset_for_epoch(3) == EpochEnd(1, 3)
    assert log.end_offset_for_epoch(4) == EpochEnd(4, 5)


# --- getting shorter -------------------------------------------------------------------------------------------------


def test_it_is_cut_at_its_end_but_never_below_the_high_watermark(files: MemoryFiles, log: MetadataLog) -> None:
    grow(log, 3, epoch=1)
    grow(log, 2, epoch=2)
    log.update_high_watermark(3)
    log.truncate_to(3, 0)
    assert (log.end_offset, log.last_epoch) == (3, 1)
    with pytest.raises(CommittedRecordsLost, match="everything up to 3 is committed"):
        log.truncate_to(2, 0)
    assert log.end_offset == 3
    files.crash("nothing")
    assert open_log(files).end_offset == 3


def test_a_cut_in_the_middle_of_a_committed_batch_is_refused(log: MetadataLog) -> None:
    grow(log, 3)
    log.update_high_watermark(2)
    with pytest.raises(CommittedRecordsLost):
        log.truncate_to(2, 0)


def test_the_high_watermark_only_grows_and_stays_within_the_log(log: MetadataLog) -> None:
    grow(log, 3)
    assert [log.update_high_watermark(offset) for offset in (2, 1, 9)] == [2, 2, 3]


# --- snapshots -------------------------------------------------------------------------------------------------------


def test_a_snapshot_is_only_made_of_what_is_committed(files: MemoryFiles, log: MetadataLog) -> None:
    grow(log, 5)
    log.update_high_watermark(3)
    with pytest.raises(OffsetOutOfRange, match="only what is before 3 is committed"):
        snapshot(log, 4)
    snapshot(log, 3)
    assert log.snapshots == (SnapshotId(3, 1),)
    assert open_log(files).snapshots == (SnapshotId(3, 1),)


def test_leftovers_of_snapshots_are_removed_at_the_start(files: MemoryFiles) -> None:
    files.make_directory(HERE)
    for name in (
        "00000000000000000003-0000000001.checkpoint.deleted",
        "00000000000000000003-0000000001-7.checkpoint.part",
    ):
        files.replace_bytes(HERE / name, b"x")
    assert open_log(files).snapshots == ()
    assert not [name for name in files.list_directory(HERE) if "checkpoint." in name]


def fill(log: MetadataLog, snapshots: int) -> None:
    """Ten records of a mebibyte and a snapshot, several times."""
    for _ in range(snapshots):
        for _ in range(5):
            grow(log, 2, value=VALUE.ljust(1 << 20, b"\0"))
        log.update_high_watermark(log.end_offset)
        snapshot(log, log.end_offset)


def test_what_snapshots_have_is_forgotten_when_there_is_too_much(files: MemoryFiles) -> None:
    limits = LogLimits(segment_bytes=8 << 20, retention_bytes=20 << 20, retention_ms=DAY_MS)
    log = open_log(files, limits)
    fill(log, 4)
    assert [each.end_offset for each in log.snapshots] == [10, 20, 30, 40]
    discarded = list(log.clean_up(0))
    assert [each.end_offset for each in log.snapshots] == [30, 40]
    assert log.start_offset == 30
    assert any(name.endswith(".checkpoint.deleted") for name in files.list_directory(HERE))
    for part in discarded:
        part.remove(files)
    assert not any(name.endswith(".deleted") for name in files.list_directory(HERE))
    found = open_log(files, limits)
    assert found.start_offset in [each.end_offset for each in found.snapshots]
    assert found.end_offset == 40


def test_old_snapshots_go_and_the_newest_stays(files: MemoryFiles) -> None:
    log = open_log(files, LogLimits(retention_ms=DAY_MS))
    for _ in range(3):
        grow(log, 2)
        log.update_high_watermark(log.end_offset)
        snapshot(log, log.end_offset)
    written_ms = files.modified_ms(log.snapshot_path(log.snapshots[0]))
    assert list(log.clean_up(written_ms + DAY_MS)) == []
    assert len(list(log.clean_up(written_ms + DAY_MS + 1))) == 2
    assert log.snapshots == (SnapshotId(6, 1),)
    assert log.start_offset == 6


def fetched(files: MemoryFiles, newer: SnapshotId) -> None:
    """A snapshot came from the leader, and then the power failed."""
    path, voters = HERE / newer.file_name, Voters()
    list(write_snapshot(files, path, [VALUE], epoch=2, last_timestamp_ms=0, now_ms=lambda: 0, voters=voters))


def test_a_log_that_ends_before_its_newest_snapshot_begins_anew_there(files: MemoryFiles, log: MetadataLog) -> None:
    grow(log, 3)
    newer = SnapshotId(9, 2)
    fetched(files, newer)
    found = open_log(files)
    assert (found.start_offset, found.end_offset, found.high_watermark, found.last_epoch) == (9, 9, 9, 2)
    assert found.end_offset_for_epoch(2) == EpochEnd(2, 9)
    grow(found, 1, epoch=2)
    assert open_log(files).end_offset == 10


def test_a_longer_log_of_an_earlier_epoch_begins_anew_at_a_fetched_snapshot(
    files: MemoryFiles, log: MetadataLog
) -> None:
    grow(log, 12, epoch=1)
    fetched(files, SnapshotId(9, 2))
    found = open_log(files)
    assert (found.start_offset, found.end_offset, found.last_epoch) == (9, 9, 2)


def test_what_is_committed_is_not_given_up_for_a_snapshot_of_a_leader(files: MemoryFiles, log: MetadataLog) -> None:
    grow(log, 12, epoch=1)
    log.update_high_watermark(10)
    fetched(files, SnapshotId(9, 2))
    log.add_snapshot(SnapshotId(9, 2))
    with pytest.raises(CommittedRecordsLost, match="ends at 9, but everything up to 10 is committed"):
        log.truncate_to_newest_snapshot(0)


def test_a_log_is_not_given_up_for_a_snapshot_that_is_not_whole(files: MemoryFiles, log: MetadataLog) -> None:
    grow(log, 5)
    job = log.flush_job()
    job.run()
    log.flushed(job, 0)
    log.close()
    path = log.snapshot_path(SnapshotId(99, 2))
    files.replace_bytes(path, b"torn")
    with pytest.raises(DamagedSnapshot):
        open_log(files)
    files.remove(path)
    assert open_log(files).end_offset == 5


def test_a_log_whose_beginning_nobody_has_is_refused(files: MemoryFiles, log: MetadataLog) -> None:
    grow(log, 3)
    newer = SnapshotId(9, 2)
    fetched(files, newer)
    found = open_log(files)
    grow(found, 1, epoch=2)
    files.remove(HERE / newer.file_name)
    with pytest.raises(DamagedSnapshot, match="begins at 9, and no snapshot has what was before"):
        open_log(files)
