"""LogManager: many logs in several directories, from the start to a clean stop, and what a failing disk takes along."""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from ottla.errors import DiskFull, InconsistentTopicId, KafkaStorageError, UnknownTopicOrPartition
from ottla.records import BatchBuilder, RecordStream
from ottla.storage.directory.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    ForeignDirectory,
)
from ottla.storage.directory.loading import DuplicateDirectory, DuplicateLog, ProducerLimits, recovery_summary
from ottla.storage.directory.manager import LogManager, NoLogDirectory
from ottla.storage.directory.stopping import AHEAD
from ottla.storage.files import DirectoryInUse, DiskFile, DiskFiles, Files
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.retention import SEGMENTS_PER_STEP
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

A, B = Path("/data/a"), Path("/data/b")
NOW_MS = 1_000_000
DELAY_MS = 60_000
TOPIC_ID = bytes(range(16))
SETTINGS = TopicSettings({"internal.segment.bytes": 400, "segment.index.bytes": 240, "index.interval.bytes": 0})


def manager(files: Files, *directories: Path, seed: int = 0, broker_id: int = 1) -> LogManager:
    return LogManager(
        directories or (A, B),
        files=files,
        default_settings=SETTINGS,
        cluster_id="c",
        broker_id=broker_id,
        producer_limits=ProducerLimits(verification_required=False),
        random_bytes=Random(seed).randbytes,
    )


def started(files: Files, *directories: Path, seed: int = 0) -> LogManager:
    made = manager(files, *directories, seed=seed)
    made.open(NOW_MS)
    return made


def name(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


def create(logs: LogManager, number: int = 0, settings: TopicSettings = SETTINGS) -> PartitionLog:
    return logs.create(name(number), TOPIC_ID, settings, NOW_MS)


def append(log: PartitionLog, count: int = 1, *, commit: bool = True, epoch: int = 0) -> None:
    for _ in range(count):
        builder = BatchBuilder()
        builder.append(NOW_MS, b"k", b"%d" % log.log_end_offset * 20)
        log.append_as_leader(builder.close(), leader_epoch=epoch, now_ms=NOW_MS)
    if commit:
        log.update_high_watermark(log.log_end_offset)


def flush(log: PartitionLog) -> None:
    job = log.flush_job()
    job.run()
    log.flushed(job, NOW_MS)


def checkpoint(logs: LogManager) -> None:
    for job in logs.checkpoint_jobs():
        job.run()


def delete_due(logs: LogManager, now_ms: int, *, limit: int = 10) -> int:
    """Remove what is due, and say how many removals that were."""
    removals = logs.removals_due(now_ms, limit=limit)
    for removal in removals:
        removal.run()
    return len(removals)


def records(log: PartitionLog) -> list[bytes | None]:
    found: list[bytes | None] = []
    for segment in log.segments:
        for batch in RecordStream(segment.records.file.read_at(0, segment.size_bytes)):
            batch.check()
            found += [record.value for record in batch.records() if record.offset >= log.log_start_offset]
    return found


def contents(files: MemoryFiles, path: Path) -> dict[Path, bytes]:
    found: dict[Path, bytes] = {}
    for each in files.list_directory(path):
        below = path / each
        found |= contents(files, below) if files.is_directory(below) else {below: files.read_bytes(below)}
    return found


class CountedFile(DiskFile):
    """Counts reads of content and never syncs."""

    reads: ClassVar[Counter[str]] = Counter()

    def read_at(self, position: int, size_bytes: int) -> bytes:
        self.reads[self.path.suffix] += 1
        return super().read_at(position, size_bytes)

    def sync(self, *, metadata: bool = False) -> None: ...


class CountedFiles(DiskFiles):
    """A real disk for a thousand partitions, with the operations counted."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> DiskFile:
        self.opened[path.suffix] += 1
        return CountedFile(path, os.open(path, os.O_RDWR | (os.O_CREAT if create else 0)))

    def read_bytes(self, path: Path) -> bytes:
        CountedFile.reads[path.suffix] += 1
        return super().read_bytes(path)

    def sync_directory(self, path: Path) -> None: ...


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(Path("/data"))
    files.sync_directory(Path("/"))
    return files


# --- start and stop --------------------------------------------------------------------------------------------------


def test_logs_come_back_with_their_records_and_high_watermarks(files: MemoryFiles) -> None:
    logs = started(files)
    for number in range(4):
        append(create(logs, number), 5)
    logs.log(name(2)).update_high_watermark(3)  # type: ignore[union-attr]
    logs.close()
    assert not files.open_files
    again = started(files)
    assert sorted(str(log.topic_partition) for log in again.logs()) == ["t-0", "t-1", "t-2", "t-3"]
    assert {log.topic_partition.partition: log.high_watermark for log in again.logs()} == {0: 5, 1: 5, 2: 3, 3: 5}
    assert all(len(records(log)) == 5 and log.topic_id == TOPIC_ID for log in again.logs())


@pytest.mark.parametrize("pool", [None, ThreadPoolExecutor(2)])
def test_an_unclean_stop_is_recovered_from_the_recovery_point(pool: ThreadPoolExecutor | None, tmp_path: Path) -> None:
    disk = DiskFiles()
    logs = started(disk, tmp_path / "a", tmp_path / "b")
    for number in range(4):
        append(create(logs, number), 7)
        flush(logs.log(name(number)))  # type: ignore[arg-type]
    checkpoint(logs)
    logs.close(is_clean=False)
    again = manager(disk, tmp_path / "a", tmp_path / "b")
    loaded = again.open(NOW_MS, pool=pool)
    assert [(each.done, each.total) for each in loaded] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert all(len(records(log)) == 7 for log in again.logs())
    assert all(each.recovered_segments == 1 for each in loaded), "only the segment of the recovery point is read"
    again.close()
    if pool is not None:
        pool.shutdown()


def test_one_sentence_tells_of_all_that_was_recovered(files: MemoryFiles, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    logs = started(files)
    for number in range(3):
        append(create(logs, number))
    logs.close(is_clean=False)
    again = manager(files)
    assert recovery_summary(again.open(NOW_MS), 1250) == "recovered 3 partitions in 1.2 s: 3 segments read"
    assert "recovered" not in caplog.text
    again.close()
    assert recovery_summary(manager(files).open(NOW_MS), 5) is None


def test_a_second_recovery_changes_nothing(files: MemoryFiles) -> None:
    logs = started(files)
    append(create(logs), 7)
    flush(create(logs))
    logs.close(is_clean=False)
    started(files).close(is_clean=False)
    before = contents(files, A)
    started(files).close(is_clean=False)
    assert contents(files, A) == before


@pytest.mark.parametrize("damage", [b"", b"0\n2\nt 0 "])
@pytest.mark.parametrize("is_clean", [True, False])
def test_records_that_were_deleted_stay_deleted_when_the_table_of_starts_is_damaged(
    is_clean: bool, damage: bytes, files: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    logs = started(files, A)
    log = create(logs)
    append(log, 3)
    log.advance_log_start(2)
    flush(log)
    for job in logs.checkpoint_jobs():
        job.run()
    logs.close(is_clean=is_clean)
    files.replace_bytes(A / LOG_STARTS, damage)
    again = started(files, A).log(name(0))
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset) == (2, 3)
    assert f"{A / LOG_STARTS}" in caplog.text


def test_a_damaged_table_of_high_watermarks_hides_and_loses_nothing(
    files: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    logs = started(files, A)
    append(create(logs), 3)
    logs.close()
    files.replace_bytes(A / HIGH_WATERMARKS, b"0\n7\n")
    again = started(files, A).log(name(0))
    assert again is not None
    assert (again.log_end_offset, len(records(again))) == (3, 3)
    assert again.update_high_watermark(3) == 3, "who knows better says so"
    assert f"{A / HIGH_WATERMARKS}" in caplog.text


def test_gaps_that_compaction_left_are_no_damage_when_its_table_is_lost(files: MemoryFiles) -> None:
    logs = started(files, A)
    log = create(logs)
    append(log, 2)
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v")
    batch = bytearray(builder.close())
    batch[:8] = (9).to_bytes(8, "big")  # compaction took what was between
    log.append_as_follower(batch, leader_epoch=0, now_ms=NOW_MS)
    flush(log)
    logs.close(is_clean=False)
    files.replace_bytes(A / CLEANER_OFFSETS, b"0\n1\nt 0 ")
    again = started(files, A).log(name(0))
    assert again is not None
    assert again.log_end_offset == 10


def test_the_mark_of_a_clean_stop_comes_last_and_only_when_all_went_well(files: MemoryFiles) -> None:
    logs = started(files, A)
    append(create(logs))
    files.fail(lambda each: each.kind == "sync" and each.path.suffix == ".log")
    logs.close()
    assert not files.exists(A / CLEAN_SHUTDOWN)
    assert not files.open_files
    again = started(files, A)
    assert again.log(name(0)) is not None
    again.close()
    assert files.exists(A / CLEAN_SHUTDOWN)


class PoolInHand(Executor):
    """Does nothing until somebody asks for a result; then everything that was submitted, the last first."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.most = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        pool = self

        class Asked(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                pool.most = max(pool.most, len(pool.waiting))
                while pool.waiting:
                    pool.waiting.pop()()
                return super().result(timeout)

        asked = Asked()
        self.waiting.append(lambda: asked.set_result(fn(*args, **kwargs)))
        return asked


@pytest.mark.parametrize("count", [3, 2 * AHEAD])
def test_a_clean_stop_syncs_many_logs_at_a_time_and_says_how_many_are_left(files: MemoryFiles, count: int) -> None:
    logs = started(files, A)
    for number in range(count):
        append(create(logs, number))
    pool, left = PoolInHand(), []
    logs.close(pool=pool, closed=left.append)
    assert pool.most == min(count, AHEAD)
    assert left == list(range(count - 1, -1, -1))
    files.crash(keep="none")
    again = manager(files, A)
    assert sum(loaded.recovered_segments for loaded in again.open(NOW_MS)) == 0
    assert [len(records(log)) for log in again.logs()] == [1] * count
    again.close()


def test_a_thousand_partitions_start_without_a_look_at_their_records(tmp_path: Path) -> None:
    files = CountedFiles()
    logs = started(files, tmp_path)
    for number in range(1000):
        append(create(logs, number), 2)
    logs.close()
    files.opened.clear()
    CountedFile.reads.clear()
    began = time.perf_counter()
    again = started(files, tmp_path)
    print(f"1,000 logs were opened in {(time.perf_counter() - began) * 1000:.0f} ms")
    assert len(again.logs()) == 1000
    assert all(log.log_end_offset == 2 for log in again.logs())
    assert CountedFile.reads[".log"] == CountedFile.reads[".index"] == CountedFile.reads[".timeindex"] == 0
    assert files.opened[".log"] == 1000
    assert files.opened.total() <= 1000 + 10, "one file stays open per log"
    again.close(is_clean=False)


def test_directories_in_use_foreign_or_named_twice_stop_the_start(files: MemoryFiles) -> None:
    first = started(files, A)
    with pytest.raises(DirectoryInUse):
        started(files, B, A)
    first.close()
    with pytest.raises(ForeignDirectory):
        manager(files, A, broker_id=2).open(NOW_MS)
    with pytest.raises(DuplicateDirectory):
        started(files, A, A)
    files.make_directory(B)
    files.replace_bytes(B / "meta.properties", files.read_bytes(A / "meta.properties"))
    with pytest.raises(DuplicateDirectory, match=r"directory\.id"):
        started(files, A, B)
    assert len(started(files, A).directories) == 1, "all locks were given back"


def test_who_never_had_a_directory_does_not_say_that_it_was_closed_in_order(files: MemoryFiles) -> None:
    """A second broker that is turned away must not take the recovery from the one that runs and is killed later."""
    first = started(files, A)
    append(create(first))
    second = manager(files, A, B)
    with pytest.raises(DirectoryInUse):
        second.open(NOW_MS)
    before = contents(files, A)
    second.close()
    assert contents(files, A) == before
    assert not files.exists(A / CLEAN_SHUTDOWN)
    first.close(is_clean=False)
    foreign = manager(files, A, broker_id=2)
    with pytest.raises(ForeignDirectory):
        foreign.open(NOW_MS)
    foreign.close()
    assert contents(files, A) == before, "it was killed before, and nobody has recovered it"
    (recovered,) = manager(files, A).open(NOW_MS)
    assert recovered.log is not None
    assert recovered.log.log_end_offset == 1
    assert recovered.recovered_segments == 1


def test_the_same_partition_in_two_directories_stops_the_start(files: MemoryFiles) -> None:
    logs = started(files)
    create(logs)
    logs.close()
    for directory in (A, B):
        files.make_directory(directory / "t-0")
    with pytest.raises(DuplicateLog, match="t-0 is in both /data/a/t-0 and /data/b/t-0"):
        started(files)


def test_old_deletions_futures_and_strays_are_told_apart(files: MemoryFiles, caplog: pytest.LogCaptureFixture) -> None:
    logs = started(files, A)
    create(logs)
    logs.close()
    for directory in ("x-0.1a-delete", "t-0.1b-future", "x-1.1c-stray", "lost+found"):
        files.make_directory(A / directory)
    again = started(files, A)
    assert [str(log.topic_partition) for log in again.logs()] == ["t-0"]
    assert again.future_log(name(0)) is not None
    assert "x-1.1c-stray belongs to no partition" in caplog.text
    assert delete_due(again, NOW_MS + DELAY_MS - 1) == 0
    assert delete_due(again, NOW_MS + DELAY_MS) == 1
    assert not files.exists(A / "x-0.1a-delete")
    assert files.exists(A / "x-1.1c-stray")


# --- create and delete -----------------------------------------------------------------------------------------------


def test_new_logs_go_where_the_fewest_are(files: MemoryFiles) -> None:
    logs = started(files)
    assert [create(logs, number).directory.parent for number in range(4)] == [A, B, A, B]
    logs.delete(name(1), NOW_MS)
    assert create(logs, 9).directory.parent == B
    logs.cordoned = {B}
    assert create(logs, 10).directory.parent == A


def test_a_log_belongs_to_one_topic(files: MemoryFiles) -> None:
    logs = started(files)
    log = create(logs)
    assert create(logs) is log
    with pytest.raises(InconsistentTopicId):
        logs.create(name(0), bytes(15) + b"x", SETTINGS, NOW_MS)
    with pytest.raises(UnknownTopicOrPartition):
        logs.delete(name(7), NOW_MS)


def test_a_deleted_log_leaves_the_disk_after_its_delay(files: MemoryFiles) -> None:
    logs = started(files, A)
    log = create(logs)
    append(log, 9)
    piece = log.read(0, 100).slice
    logs.delete(name(0), NOW_MS)
    assert logs.log(name(0)) is None
    assert len(piece.read()) == 100, "answers under way go on"
    assert any(each.endswith("-delete") for each in files.list_directory(A))
    assert create(logs) is not log
    assert delete_due(logs, NOW_MS + DELAY_MS) == 1
    assert not any(each.endswith("-delete") for each in files.list_directory(A))
    logs.close()
    assert not files.open_files


def test_a_young_log_is_not_measured_by_the_offsets_of_a_deleted_one(files: MemoryFiles) -> None:
    logs = started(files, A)
    log = create(logs)
    append(log, 9)
    log.advance_log_start(8)
    flush(log)
    checkpoint(logs)
    logs.delete(name(0), NOW_MS)
    young = create(logs)
    append(young, 3)
    flush(young)
    files.crash("nothing")
    again = started(files, A)
    assert len(records(again.log(name(0)))) == 3  # type: ignore[arg-type]


def test_a_stray_log_is_kept_aside(files: MemoryFiles) -> None:
    logs = started(files, A)
    append(create(logs))
    path = logs.make_stray(name(0))
    assert path.name.startswith("t-0.")
    assert path.name.endswith("-stray")
    assert logs.logs() == []
    logs.close()
    assert started(files, A).logs() == []
    assert files.exists(path)


# --- what is due -----------------------------------------------------------------------------------------------------


def test_retention_goes_in_steps_and_its_files_wait(files: MemoryFiles) -> None:
    logs = started(files, A)
    settings = SETTINGS.for_topic({"retention.bytes": 0})
    for number in range(3):
        append(create(logs, number, settings), 9)
    done = list(logs.clean_up(NOW_MS))
    assert done.count(None) == 3, "every log was looked at"
    told = [each for each in done if each is not None]
    assert [each.topic_partition for each in told] == sorted(name(number) for number in range(3) for _ in range(2))
    assert all(each.error is None and each.segment_count for each in told)
    assert any(".deleted" in each for each in files.list_directory(A / "t-0"))
    assert delete_due(logs, NOW_MS + DELAY_MS, limit=2) == 2
    while delete_due(logs, NOW_MS + DELAY_MS):
        pass
    assert not any(".deleted" in each for each in files.list_directory(A / "t-0"))


def test_logs_may_go_between_two_steps_of_retention(files: MemoryFiles) -> None:
    logs = started(files, A)
    settings = SETTINGS.for_topic({"retention.bytes": 0})
    for number in range(3):
        append(create(logs, number, settings), 9)
    steps = logs.clean_up(NOW_MS)
    next(steps)
    logs.delete(name(0), NOW_MS)
    logs.delete(name(1), NOW_MS)
    assert {each.topic_partition for each in steps if each is not None} == {name(2)}


def test_a_step_of_retention_takes_a_bounded_number_of_segments(files: MemoryFiles) -> None:
    logs = started(files, A)
    log = create(logs, 0, SETTINGS.for_topic({"retention.bytes": 0}))
    append(log, 400)
    assert len(log.segments) > 3 * SEGMENTS_PER_STEP
    counts = [each.segment_count for each in logs.clean_up(NOW_MS) if each is not None]
    assert max(counts) == SEGMENTS_PER_STEP
    assert log.log_start_offset == 400


def test_retention_waits_for_no_sync(files: MemoryFiles) -> None:
    logs = started(files, A)
    log = create(logs, 0, SETTINGS.for_topic({"retention.bytes": 0}))
    append(log, 9)
    flush(log)
    files.trace.clear()
    assert list(logs.clean_up(NOW_MS))
    assert not [each for each in files.trace if each.kind.startswith("sync")]


@pytest.mark.parametrize("seed", range(20))
def test_a_power_failure_after_retention_costs_no_epoch(seed: int) -> None:
    files = MemoryFiles(seed=seed)
    files.make_directory(Path("/data"))
    files.sync_directory(Path("/"))
    logs = started(files, A)
    log = create(logs, 0, SETTINGS.for_topic({"retention.bytes": 900}))
    for epoch in range(6):
        append(log, 3, epoch=epoch)
    flush(log)
    checkpoint(logs)
    assert [each for each in logs.clean_up(NOW_MS) if each is not None]
    expected = log.epochs.entries
    files.crash()
    again = started(files, A).log(name(0))
    assert again is not None
    kept = [each for each in again.epochs.entries if each.start_offset >= log.log_start_offset]
    assert tuple(kept)[-len(expected) + 1 :] == expected[1:]
    assert again.epochs.epoch_for_offset(log.log_start_offset) == expected[0].epoch


def test_flushes_are_due_by_count_and_by_time(files: MemoryFiles) -> None:
    logs = started(files, A)
    append(create(logs, 0, SETTINGS.for_topic({"flush.messages": 3})), 3)
    append(create(logs, 1, SETTINGS.for_topic({"flush.ms": 50})), 1)
    append(create(logs, 2), 9)

    def due(now_ms: int) -> list[int]:
        return [log.topic_partition.partition for log in logs.logs() if log.flush_is_due(now_ms)]

    assert due(NOW_MS + 49) == [0]
    assert due(NOW_MS + 50) == [0, 1]
    for log in logs.logs():
        flush(log)
    assert due(NOW_MS + 60) == []


def test_a_checkpoint_that_finds_no_room_is_written_the_next_time(files: MemoryFiles) -> None:
    logs = started(files, A)
    append(create(logs))
    files.fill(0)
    for job in logs.checkpoint_jobs():
        with pytest.raises(DiskFull):
            job.run()
    files.fill(1 << 20)
    checkpoint(logs)
    assert logs.checkpoint_jobs() == []
    assert logs.directories[0].offset(HIGH_WATERMARKS, name(0)) == 1


def test_a_truncation_is_written_down_before_it_happens(files: MemoryFiles) -> None:
    logs = started(files, A)
    log = create(logs)
    append(log, 9)
    flush(log)
    checkpoint(logs)
    before = len(files.trace)
    logs.truncate_to(name(0), 4, NOW_MS)
    trace = [(each.kind, each.target or each.path) for each in list(files.trace)[before:]]
    written = trace.index(("rename", A / RECOVERY_POINTS))
    cut = next(number for number, (kind, path) in enumerate(trace) if kind == "truncate" and path.suffix == ".log")
    assert written < cut
    assert log.log_end_offset == 4
    logs.truncate_fully(name(0), 2, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    assert logs.directories[0].offset(RECOVERY_POINTS, name(0)) == 0


def test_the_cleaners_offsets_are_kept_for_logs_that_are_there(files: MemoryFiles) -> None:
    logs = started(files, A)
    for number in range(2):
        create(logs, number)
        logs.write_cleaner_offset(name(number), 5)
    logs.delete(name(0), NOW_MS)
    logs.write_cleaner_offset(name(1), 6)
    assert (logs.cleaner_offset(name(0)), logs.cleaner_offset(name(1))) == (None, 6)


# --- failing disks ---------------------------------------------------------------------------------------------------


def fail_on(directory: Path, kind: str) -> Callable[[object], bool]:
    return lambda each: each.kind == kind and each.path.is_relative_to(directory)  # type: ignore[attr-defined]


def test_a_failed_directory_takes_its_logs_along_and_no_others(files: MemoryFiles) -> None:
    logs = started(files)
    in_a, in_b = create(logs, 0), create(logs, 1)
    append(in_a)
    append(in_b)
    files.fail(fail_on(A, "sync"))
    with pytest.raises(KafkaStorageError):
        flush(in_a)
    (failure,) = logs.failures()
    assert (failure.directory, failure.partitions, failure.is_last) == (A, (name(0),), False)
    assert logs.failures() == []
    with pytest.raises(KafkaStorageError, match="offline"):
        append(in_a)
    with pytest.raises(KafkaStorageError, match="offline"):
        logs.log(name(0))
    append(in_b)
    flush(in_b)
    assert logs.logs() == [in_b]
    with pytest.raises(KafkaStorageError, match="may be in /data/a"):
        create(logs, 7)
    assert logs.create(name(8), TOPIC_ID, SETTINGS, NOW_MS, is_new=True).directory.parent == B
    logs.close()
    assert not files.exists(A / CLEAN_SHUTDOWN)
    assert files.exists(B / CLEAN_SHUTDOWN)
    assert not files.open_files


def test_the_last_directory_is_told_as_the_last(files: MemoryFiles) -> None:
    logs = started(files)
    logs.take_offline(A, KafkaStorageError("told by somebody else"))
    assert [each.is_last for each in logs.failures()] == [False]
    logs.take_offline(B, KafkaStorageError("and again"))
    assert [each.is_last for each in logs.failures()] == [True]


def test_a_directory_that_fails_at_the_start_leaves_the_others(files: MemoryFiles) -> None:
    logs = started(files)
    for number in range(2):
        append(create(logs, number))
    logs.close()
    files.fail(fail_on(A / "t-0", "list"))
    again = started(files)
    assert [str(log.topic_partition) for log in again.logs()] == ["t-1"]
    assert [each.partitions for each in again.failures()] == [(name(0),)]
    again.close()
    files.fail(lambda each: each.kind == "list", errno.EIO, for_ever=True)
    with pytest.raises(NoLogDirectory):
        started(files)
    assert not files.open_files


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"version: 0\ntopic_id: ?", b"\xff\xfe"])
def test_a_log_whose_topic_cannot_be_read_is_opened_and_told_again(content):
    files = MemoryFiles()
    logs = started(files, A)
    for number in range(3):
        append(create(logs, number))
    logs.close()
    path = A / "t-1" / "partition.metadata"
    written = files.read_bytes(path)
    files.replace_bytes(path, content)
    logs = started(files, A)
    assert {log.topic_partition for log in logs.logs()} == {name(0), name(1), name(2)}
    assert logs.log(name(1)).topic_id is None
    create(logs, 1)
    assert files.read_bytes(path) == written
    assert not logs.failures()


def test_a_table_that_rotted_is_told_from_one_that_was_written():
    now_ms = count(1_000)
    files = MemoryFiles(now_ms=lambda: next(now_ms))
    logs = started(files, A)
    append(create(logs, 0))
    logs.close()
    path = A / "log-start-offset-checkpoint"
    files.replace_bytes(path, b"0\n1\nt 0 0\n")
    logs = started(files, A)
    assert not logs.directories[0].is_damaged(path.name), "somebody else wrote it"
    logs.close()
    logs.directories[0].write(path.name, {name(0): 0})
    files.flip_bit(path, 8 * (files.size(path) - 2))
    logs = started(files, A)
    assert logs.directories[0].is_damaged(path.name), "t 0 0 became t 0 1, and nobody wrote it"
    assert logs.log(name(0)).log_start_offset == 0
    assert logs.log(name(0)).log_end_offset > 0
