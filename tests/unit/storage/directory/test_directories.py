"""One log directory: lock, identity, tables, names, and the door that closes at the first failure."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from random import Random

import pytest

from ottla.errors import DiskFull, KafkaStorageError
from ottla.storage.directory.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    ForeignDirectory,
    read_meta_properties,
    write_clean_shutdown,
)
from ottla.storage.directory.directories import LogDirectory, LogName, parse_log_name
from ottla.storage.directory.offline import FailStopFiles
from ottla.storage.files import DirectoryInUse
from ottla.testing.files import MemoryFiles, Operation
from ottla.values import TopicPartition

PATH = Path("/data/a")
NAME = TopicPartition("orders", 3)
WAIT_S = 30


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(PATH)
    return files


@pytest.fixture
def directory(files: MemoryFiles) -> LogDirectory:
    return LogDirectory(PATH, files)


def test_a_broker_of_a_zookeeper_cluster_signs_as_kafkas_do() -> None:
    files = MemoryFiles()
    directory = LogDirectory(PATH, files, meta_version=0)
    directory.lock()
    identify(directory, "c", 7)
    text = files.read_bytes(PATH / "meta.properties").decode()
    assert "version=0" in text
    assert "broker.id=7" in text
    assert "node.id" not in text


def identify(directory: LogDirectory, cluster_id: str = "c", broker_id: int = 1) -> None:
    directory.identify(cluster_id=cluster_id, broker_id=broker_id, random_bytes=Random(7).randbytes)


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-3", LogName(NAME)),
        ("a.b-c_d-0", LogName(TopicPartition("a.b-c_d", 0))),
        ("x-delete-0", LogName(TopicPartition("x-delete", 0))),
        ("orders-3.0aF-delete", LogName(NAME, "0aF", "delete")),
        ("orders-3.12-future", LogName(NAME, "12", "future")),
        ("orders-3.12-stray", LogName(NAME, "12", "stray")),
        ("orders", None),
        ("orders-03", None),
        ("orders-x", None),
        ("orders-3-delete", None),
        ("lost+found", None),
        ("-1", None),
    ],
)
def test_the_name_of_a_logs_directory_is_understood(name: str, expected: LogName | None) -> None:
    assert parse_log_name(name) == expected


def test_only_directories_of_logs_are_found(directory: LogDirectory, files: MemoryFiles, caplog: object) -> None:
    for name in ("orders-3", "__cluster_metadata-0", "lost+found"):
        files.make_directory(PATH / name)
    files.replace_bytes(PATH / "notes-1", b"a file")
    assert [each.path.name for each in directory.load()] == ["orders-3"]
    assert "lost+found is not a log's directory" in caplog.text  # type: ignore[attr-defined]
    assert "__cluster_metadata" not in caplog.text  # type: ignore[attr-defined]


# --- whose it is -----------------------------------------------------------------------------------------------------


def test_a_new_directory_gets_an_identity_that_stays(directory: LogDirectory, files: MemoryFiles) -> None:
    identify(directory)
    first = read_meta_properties(files, PATH)
    assert first is not None
    assert (first.cluster_id, first.node_id, first.version) == ("c", 1, 1)
    again = LogDirectory(PATH, files)
    again.identify(cluster_id="c", broker_id=1, random_bytes=Random(8).randbytes)
    assert again.directory_id == directory.directory_id == first.directory_id


@pytest.mark.parametrize(("cluster_id", "broker_id"), [("other", 1), ("c", 2)])
def test_a_foreign_directory_is_refused(
    directory: LogDirectory, files: MemoryFiles, cluster_id: str, broker_id: int
) -> None:
    identify(directory)
    with pytest.raises(ForeignDirectory):
        identify(LogDirectory(PATH, files), cluster_id, broker_id)


def test_an_old_brokers_directory_gets_the_id_it_lacks(directory: LogDirectory, files: MemoryFiles) -> None:
    files.replace_bytes(PATH / META_PROPERTIES, b"version=0\nbroker.id=1\ncluster.id=c\n")
    identify(directory)
    found = read_meta_properties(files, PATH)
    assert found is not None
    assert (found.version, found.directory_id) == (0, directory.directory_id)


def test_a_directory_in_use_is_refused_until_it_is_released(directory: LogDirectory, files: MemoryFiles) -> None:
    directory.lock()
    with pytest.raises(DirectoryInUse):
        LogDirectory(PATH, files).lock()
    directory.release()
    LogDirectory(PATH, files).lock()


# --- tables and the mark of a clean stop -----------------------------------------------------------------------------


def test_the_mark_of_a_clean_stop_is_taken_once(directory: LogDirectory, files: MemoryFiles) -> None:
    write_clean_shutdown(files, PATH, 5)
    directory.load()
    assert directory.was_clean
    assert not files.exists(PATH / CLEAN_SHUTDOWN)
    again = LogDirectory(PATH, files)
    again.load()
    assert not again.was_clean


def test_a_table_is_written_only_when_it_changed(directory: LogDirectory, files: MemoryFiles) -> None:
    directory.load()
    (job,) = directory.checkpoint_jobs({RECOVERY_POINTS: {NAME: 5}, HIGH_WATERMARKS: {}})
    job.run()
    assert directory.checkpoint_jobs({RECOVERY_POINTS: {NAME: 5}}) == []
    again = LogDirectory(PATH, files)
    again.load()
    assert again.offset(RECOVERY_POINTS, NAME) == 5
    again.lower(NAME, 3)
    again.lower(NAME, 4)
    assert again.offset(RECOVERY_POINTS, NAME) == 3


def test_a_job_that_was_made_before_a_truncation_does_not_undo_it(directory: LogDirectory) -> None:
    directory.load()
    (job,) = directory.checkpoint_jobs({RECOVERY_POINTS: {NAME: 5}})
    directory.lower(NAME, 3)
    job.run()
    assert (directory.offset(RECOVERY_POINTS, NAME) or 0) <= 3
    (job,) = directory.checkpoint_jobs({RECOVERY_POINTS: {NAME: 4}})
    job.run()
    assert directory.offset(RECOVERY_POINTS, NAME) == 4


def test_an_older_job_does_not_undo_a_newer_one(directory: LogDirectory) -> None:
    directory.load()
    (older,) = directory.checkpoint_jobs({RECOVERY_POINTS: {NAME: 5}})
    (newer,) = directory.checkpoint_jobs({RECOVERY_POINTS: {NAME: 6}})
    newer.run()
    older.run()
    assert directory.offset(RECOVERY_POINTS, NAME) == 6


def test_a_table_has_one_writer_at_a_time(directory: LogDirectory, files: MemoryFiles) -> None:
    directory.load()
    (first,) = directory.checkpoint_jobs({RECOVERY_POINTS: {NAME: 5}})
    (second,) = directory.checkpoint_jobs({RECOVERY_POINTS: {NAME: 6}})
    attempt, came_in = files.attempt, threading.Event()
    other = threading.Thread(target=second.run)

    def interrupted(operation: Operation, *, may_be_full: bool = True) -> None:
        if threading.current_thread() is other:
            came_in.set()
        elif operation.kind == "sync":
            other.start()
            assert not came_in.wait(0.2), "a second writer came while the first one was at work"
        attempt(operation, may_be_full=may_be_full)

    files.attempt = interrupted  # type: ignore[method-assign]
    first.run()
    other.join(WAIT_S)
    assert came_in.is_set()
    again = LogDirectory(PATH, files)
    again.load()
    assert again.offset(RECOVERY_POINTS, NAME) == 6


@pytest.mark.parametrize("table", [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS])
def test_a_cut_table_is_noticed_and_written_anew(
    table: str, files: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    files.replace_bytes(PATH / table, b"0\n2\norders 3 7\n")
    directory = LogDirectory(PATH, files)
    directory.load()
    assert directory.offset(table, NAME) is None
    assert directory.is_damaged(table)
    assert str(PATH / table) in caplog.text
    (job,) = directory.checkpoint_jobs({table: {}})
    job.run()
    again = LogDirectory(PATH, files)
    again.load()
    assert not again.is_damaged(table)


def test_an_empty_table_is_noticed_where_there_are_logs(files: MemoryFiles, caplog: pytest.LogCaptureFixture) -> None:
    files.replace_bytes(PATH / LOG_STARTS, b"")
    new = LogDirectory(PATH, files)
    new.load()
    assert not new.is_damaged(LOG_STARTS)
    assert caplog.text == "", "Kafka makes its tables empty at first"
    files.make_directory(PATH / str(NAME))
    files.replace_bytes(PATH / CLEANER_OFFSETS, b"")
    used = LogDirectory(PATH, files)
    used.load()
    assert used.is_damaged(LOG_STARTS)
    assert str(PATH / LOG_STARTS) in caplog.text
    assert not used.is_damaged(CLEANER_OFFSETS), "it stays empty where nothing was ever compacted"


def test_copies_that_a_crash_left_beside_a_table_are_removed(files: MemoryFiles) -> None:
    for name in (f"{RECOVERY_POINTS}.tmp", f"{RECOVERY_POINTS}.1.tmp", "mine.tmp"):
        files.replace_bytes(PATH / name, b"half of it")
    LogDirectory(PATH, files).load()
    assert files.list_directory(PATH) == ["mine.tmp"]


# --- the door --------------------------------------------------------------------------------------------------------


def test_after_a_failed_sync_nothing_gets_through(files: MemoryFiles) -> None:
    door = FailStopFiles(files, PATH)
    file, other = door.open(PATH / "x", create=True), door.open(PATH / "y", create=True)
    files.fail(lambda each: each.kind == "sync")
    with pytest.raises(KafkaStorageError, match="cannot sync"):
        file.sync()
    before = len(files.trace)
    for call in (
        file.sync,
        other.size,
        other.fileno,
        lambda: other.write_at(0, [b"x"]),
        lambda: other.read_at(0, 1),
        lambda: other.truncate(0),
        lambda: door.open(PATH / "z", create=True),
        lambda: door.replace_bytes(PATH / "z", b""),
        lambda: door.rename(PATH / "x", PATH / "z"),
        lambda: door.remove(PATH / "x"),
        lambda: door.sync_directory(PATH),
        lambda: door.list_directory(PATH),
    ):
        with pytest.raises(KafkaStorageError, match=r"/data/a is offline: .*cannot sync /data/a/x"):
            call()
    assert len(files.trace) == before, "the disk was asked again"
    file.close()
    other.close()
    assert not files.open_files


def test_a_full_disk_closes_no_door(files: MemoryFiles) -> None:
    door = FailStopFiles(files, PATH)
    file = door.open(PATH / "x", create=True)
    file.write_at(0, [b"12"])
    files.fill(1)
    with pytest.raises(DiskFull):
        file.write_at(2, [b"345"])
    assert file.read_at(0, 9) == b"12"
    files.fill(100)
    assert file.write_at(2, [b"345"]) == 3
    assert door.failure is None


def test_our_own_mistakes_close_no_door(files: MemoryFiles) -> None:
    door = FailStopFiles(files, PATH)
    with pytest.raises(FileNotFoundError):
        door.open(PATH / "missing")
    with pytest.raises(KafkaStorageError, match="removed or renamed"):
        door.sync_directory(PATH / "missing")
    file = door.open(PATH / "x", create=True)
    file.close()
    with pytest.raises(KafkaStorageError):
        file.read_at(0, 1)
    assert door.failure is None


def test_a_close_that_fails_is_told_once(files: MemoryFiles) -> None:
    door = FailStopFiles(files, PATH)
    file, other = door.open(PATH / "x", create=True), door.open(PATH / "y", create=True)
    files.fail(lambda each: each.kind == "close", errno.EIO, for_ever=True)
    with pytest.raises(KafkaStorageError):
        file.close()
    other.close()
    assert door.failure is not None
