"""What a start cuts off stays off, and what it finds beside the records agrees with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.records import BatchBuilder
from ottla.storage.log.leader_epochs import LEADER_EPOCHS, LeaderEpochs
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DIRECTORY = Path("/data/orders-0")
RECORDS = DIRECTORY / f"{0:020d}.log"
NOW_MS = 1_000_000


def opened(files: MemoryFiles, *, is_clean: bool, recovery_point: int = 0) -> PartitionLog:
    files.make_directory(DIRECTORY.parent)
    return open_log(
        DIRECTORY,
        TopicPartition("orders", 0),
        TopicSettings({}),
        files=files,
        now_ms=NOW_MS,
        is_clean=is_clean,
        recovery_point=recovery_point,
    )


def append(log: PartitionLog, value: bytes, epoch: int = 0) -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, None, value)
    log.append_as_leader(builder.close(), leader_epoch=epoch, now_ms=NOW_MS)


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(Path("/data"))
    files.sync_directory(Path("/"))
    return files


def test_a_torn_end_that_was_cut_does_not_come_back_with_a_second_power_cut(files: MemoryFiles) -> None:
    log = opened(files, is_clean=False)
    append(log, b"kept")
    kept_bytes = log.size_bytes
    append(log, b"torn")
    job = log.flush_job()
    job.run()
    files.sync_directory(DIRECTORY.parent)
    log.close(is_clean=False)
    files.flip_bit(RECORDS, 8 * (files.size(RECORDS) - 1))  # the machine went down while it was written
    again = opened(files, is_clean=False)
    assert again.log_end_offset == 1
    files.crash("nothing")
    assert files.size(RECORDS) == kept_bytes


def test_leader_epochs_beyond_the_end_are_forgotten_at_the_start(files: MemoryFiles) -> None:
    """Of a leader that wrote nothing, or whose records are gone: the next leader's epoch would contradict it."""
    log = opened(files, is_clean=False)
    append(log, b"a", epoch=3)
    log.close()
    epochs = LeaderEpochs.load(files, DIRECTORY)
    epochs.assign(4, 1)
    epochs.save(files, DIRECTORY)
    again = opened(files, is_clean=True, recovery_point=1)
    assert [each.epoch for each in again.epochs.entries] == [3]
    assert [each.epoch for each in LeaderEpochs.load(files, DIRECTORY).entries] == [3]


@pytest.mark.parametrize("is_clean", [False, True])
def test_an_empty_file_of_leader_epochs_beside_records_is_not_believed(files: MemoryFiles, is_clean: bool) -> None:
    log = opened(files, is_clean=False)
    append(log, b"a", epoch=3)
    append(log, b"b", epoch=5)
    log.close()
    files.replace_bytes(DIRECTORY / LEADER_EPOCHS, b"")
    again = opened(files, is_clean=is_clean, recovery_point=2)
    assert [(each.epoch, each.start_offset) for each in again.epochs.entries] == [(3, 0), (5, 1)]


def test_records_behind_a_gap_are_cut(files: MemoryFiles) -> None:
    log = opened(files, is_clean=False)
    append(log, b"a")
    first_bytes = log.size_bytes
    append(log, b"b")
    append(log, b"c")
    log.close(is_clean=False)
    content = bytearray(files.read_bytes(RECORDS))
    size = (len(content) - first_bytes) // 2
    del content[first_bytes : first_bytes + size]  # the middle one
    files.replace_bytes(RECORDS, bytes(content))
    again = opened(files, is_clean=False)
    assert (again.log_end_offset, again.size_bytes) == (1, first_bytes)
