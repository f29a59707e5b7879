"""What a formatted directory has: Apache's files are read, and ours are Apache's."""

from __future__ import annotations

from pathlib import Path

from tests.golden.metadata.reading import golden_files

from ottla.cluster.metadata_log.writing import VersionedRecord
from ottla.cluster.raft.format import read_bootstrap, write_bootstrap, write_first_voters
from ottla.cluster.raft.log import LogLimits, MetadataLog
from ottla.cluster.raft.snapshots import SnapshotId, Voters, read_snapshot
from ottla.protocol.metadata_log.control import KRaftVersionRecord, SnapshotHeaderRecord, VotersRecord
from ottla.protocol.metadata_log.settings import FeatureLevelRecord
from ottla.storage.directory.checkpoints import MetaProperties, write_clean_shutdown, write_meta_properties
from ottla.testing.files import MemoryFiles
from ottla.values import uuid_from_text

DATA = Path("/data")
GOLDEN = golden_files()


def directory() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(DATA)
    return files


def test_apaches_bootstrap_records_are_read() -> None:
    files = directory()
    assert read_bootstrap(files, DATA) is None
    files.replace_bytes(DATA / "bootstrap.checkpoint", GOLDEN["controller/bootstrap.checkpoint"])
    records = read_bootstrap(files, DATA)
    assert records is not None
    assert records[0] == FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert len(records) == 7


def test_our_bootstrap_file_is_apaches() -> None:
    files = directory()
    files.replace_bytes(DATA / "bootstrap.checkpoint", GOLDEN["broker/bootstrap.checkpoint"])
    batches = list(read_snapshot(files, DATA / "bootstrap.checkpoint"))
    times = iter([batch.timestamp_ms for batch in batches])
    records = [VersionedRecord(record) for batch in batches for record in batch.records]
    write_bootstrap(files, DATA, records, lambda: next(times))
    assert files.read_bytes(DATA / "bootstrap.checkpoint") == GOLDEN["broker/bootstrap.checkpoint"]


def test_the_first_voters_are_in_a_snapshot_of_nothing() -> None:
    files = directory()
    voters = Voters(1, VotersRecord(voters=[]))
    write_first_voters(files, DATA, voters, lambda: 5)
    log = MetadataLog.open(files, DATA, now_ms=0, limits=LogLimits())
    assert log.snapshots == (SnapshotId(0, 0),)
    header, _ = read_snapshot(files, log.snapshot_path(SnapshotId(0, 0)))
    assert header.controls == (
        SnapshotHeaderRecord(last_contained_log_timestamp=5),
        KRaftVersionRecord(k_raft_version=1),
        VotersRecord(voters=[]),
    )
    assert log.end_offset == 0


def test_the_small_files_are_apaches() -> None:
    files = directory()
    write_clean_shutdown(files, DATA, 18)
    assert files.read_bytes(DATA / ".kafka_cleanshutdown") == GOLDEN["broker/.kafka_cleanshutdown"]
    properties = MetaProperties(1, "b3R0bGEtZ29sZGVuLTAwMw", 2, uuid_from_text("ua0HTaz380a2mXBvYsWcdg"))
    write_meta_properties(files, DATA, properties)
    ours = files.read_bytes(DATA / "meta.properties").splitlines()[1:]
    theirs = GOLDEN["broker/meta.properties"].splitlines()[2:]  # the second line is the date
    assert sorted(ours) == sorted(theirs)


def test_the_first_voters_survive_a_power_cut() -> None:
    files = directory()
    files.sync_directory(DATA.parent)
    write_first_voters(files, DATA, Voters(1, VotersRecord(voters=[])), lambda: 5)
    files.crash("nothing")
    assert MetadataLog.open(files, DATA, now_ms=0, limits=LogLimits()).snapshots == (SnapshotId(0, 0),)
