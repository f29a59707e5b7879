"""A copy takes the place of its log: whole, cut with it, given up, found again, and through a crash at every step."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ottla.errors import KafkaStorageError
from ottla.records import BatchBuilder, RecordStream
from ottla.storage.directory.future_logs import REPLACES
from ottla.storage.directory.loading import DuplicateLog
from ottla.storage.directory.manager import LogManager
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

NOW_MS = 1_700_000_000_000
NAME = TopicPartition("orders", 0)
FIRST, SECOND = Path("/a"), Path("/b")
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
TOPIC_ID = b"t" * 16
BATCHES = 6


def manager_on(files: MemoryFiles) -> LogManager:
    manager = LogManager(
        [FIRST, SECOND],
        files=files,
        default_settings=TopicSettings({"segment.bytes": "1048576"}),
        cluster_id=CLUSTER,
        broker_id=1,
        random_bytes=Random(1).randbytes,
    )
    manager.open(NOW_MS)
    return manager


def batch(number: int) -> bytearray:
    builder = BatchBuilder()
    builder.append(NOW_MS + number, b"k%d" % number, b"v" * 40)
    return bytearray(builder.close())


def flush(log: PartitionLog) -> None:
    job = log.flush_job()
    job.run()
    log.flushed(job, NOW_MS)


def filled(files: MemoryFiles) -> LogManager:
    """A log in the first directory, synced, that starts at offset 2."""
    manager = manager_on(files)
    manager.prefer(NAME, manager.directories[0])
    log = manager.create(NAME, TOPIC_ID, TopicSettings({}), NOW_MS, is_new=True)
    for number in range(BATCHES):
        log.append_as_leader(batch(number), leader_epoch=3, now_ms=NOW_MS)
    flush(log)
    log.update_high_watermark(BATCHES)
    log.advance_log_start(2)
    for job in manager.checkpoint_jobs():
        job.run()
    return manager


def copy_all(manager: LogManager) -> PartitionLog:
    log = manager.log(NAME)
    assert log is not None
    copy = manager.begin_future(NAME, manager.directories[1], NOW_MS)
    manager.restart_future(NAME, log.log_start_offset, NOW_MS)
    found = log.read(log.log_start_offset, 1 << 20, up_to="log_end")
    copy.append_as_follower(bytearray(found.slice.read()), leader_epoch=9, now_ms=NOW_MS)
    flush(copy)
    return copy


def move(manager: LogManager) -> PartitionLog:
    copy_all(manager)
    return manager.promote_future(NAME, NOW_MS)


def keys(log: PartitionLog) -> list[bytes | None]:
    found = log.read(log.log_start_offset, 1 << 20, up_to="log_end").slice.read()
    return [record.key for each in RecordStream(found) for record in each.records()]


ALL_KEYS = [b"k%d" % number for number in range(2, BATCHES)]


def test_the_copy_is_the_log_afterwards_with_everything_it_had() -> None:
    manager = filled(MemoryFiles())
    moved = move(manager)
    assert manager.log(NAME) is moved
    assert moved.directory == SECOND / str(NAME)
    assert (moved.log_start_offset, moved.log_end_offset, moved.high_watermark) == (2, BATCHES, BATCHES)
    assert moved.topic_id == TOPIC_ID
    assert moved.end_offset_for_epoch(3).end_offset == BATCHES
    assert keys(moved) == ALL_KEYS
    assert manager.futures() == []
    manager.close()


def test_after_a_clean_stop_and_after_none_it_is_where_it_went() -> None:
    for is_clean in (True, False):
        files = MemoryFiles()
        manager = filled(files)
        move(manager)
        manager.close(is_clean)
        again = manager_on(files)
        found = again.log(NAME)
        assert found is not None
        assert found.directory == SECOND / str(NAME)
        assert (found.log_start_offset, found.high_watermark) == (2, BATCHES)
        assert keys(found) == ALL_KEYS
        again.close()


def test_a_copy_is_found_again_and_goes_on() -> None:
    for is_clean in (True, False):
        files = MemoryFiles()
        manager = filled(files)
        copy_all(manager)
        manager.close(is_clean)
        again = manager_on(files)
        assert again.futures() == [NAME]
        copy = again.future_log(NAME)
        assert copy is not None
        assert copy.log_end_offset == BATCHES
        assert keys(again.promote_future(NAME, NOW_MS)) == ALL_KEYS
        again.close()


def test_what_is_cut_from_the_log_is_cut_from_the_copy() -> None:
    manager = filled(MemoryFiles())
    copy = copy_all(manager)
    manager.truncate_to(NAME, 4, NOW_MS)
    assert copy.log_end_offset == 4
    manager.truncate_fully(NAME, 20, NOW_MS)
    assert (copy.log_start_offset, copy.log_end_offset) == (20, 20)
    manager.close()


def test_a_copy_that_is_given_up_leaves_the_disk() -> None:
    files = MemoryFiles()
    manager = filled(files)
    copy_all(manager)
    manager.cancel_future(NAME, NOW_MS)
    assert manager.futures() == []
    for removal in manager.removals_due(NOW_MS + 10**9):
        removal.run()
    assert not [name for name in files.list_directory(SECOND) if name.startswith("orders")]
    log = manager.log(NAME)
    assert log is not None
    assert keys(log) == ALL_KEYS
    manager.close()


def test_a_deleted_partition_takes_its_copy_along() -> None:
    files = MemoryFiles()
    manager = filled(files)
    copy_all(manager)
    manager.delete(NAME, NOW_MS)
    assert manager.futures() == []
    manager.close()
    again = manager_on(files)
    assert (again.log(NAME), again.futures()) == (None, [])
    again.close()


def test_another_destination_gives_the_first_copy_up() -> None:
    manager = filled(MemoryFiles())
    first = copy_all(manager)
    assert manager.begin_future(NAME, manager.directories[1], NOW_MS) is first
    manager.close()


def test_two_logs_by_mistake_of_people_still_stop_the_start() -> None:
    files = MemoryFiles()
    manager = filled(files)
    manager.close()
    files.make_directory(SECOND / str(NAME))
    with pytest.raises(DuplicateLog):
        manager_on(files)


def operations() -> int:
    files = MemoryFiles()
    manager = filled(files)
    before = len(files.trace)
    move(manager)
    return len(files.trace) - before


@pytest.mark.parametrize("keep", ["any", "nothing", "everything"])
def test_a_crash_at_any_operation_leaves_one_whole_log(keep: str) -> None:
    """`nothing` and `any` are a machine that loses power, `everything` is kill -9."""
    total = operations()
    assert total > 15
    places = set()
    for number in range(1, total + 1):
        files = MemoryFiles(seed=number)
        manager = filled(files)
        files.fail(number, for_ever=True)
        try:
            move(manager)
        except KafkaStorageError:
            pass
        files.crash(keep)
        again = manager_on(files)
        found = again.log(NAME)
        assert found is not None, number
        assert keys(found) == ALL_KEYS, number
        assert (found.log_start_offset, found.log_end_offset) == (2, BATCHES), number
        places.add(found.directory.parent)
        assert not files.exists(found.directory / REPLACES)
        if found.directory.parent == FIRST:  # and the move can be made again
            again.cancel_future(NAME, NOW_MS)
            assert keys(move(again)) == ALL_KEYS, number
        again.close()
        once_more = manager_on(files)
        assert once_more.log(NAME) is not None
        once_more.close()
    assert places == {FIRST, SECOND}
