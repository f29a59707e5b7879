"""A log that was just made: what it writes down without waiting for the disk, and what a power failure leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.records import BatchBuilder
from ottla.storage.directory.checkpoints import PARTITION_METADATA
from ottla.storage.log.leader_epochs import LEADER_EPOCHS, EpochEntry, LeaderEpochs
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DIRECTORY = Path("/data/t-0")
TOPIC_ID = bytes(range(16))
NOW_MS = 1_000_000


def opened(files: MemoryFiles, *, is_clean: bool = False) -> PartitionLog:
    return open_log(DIRECTORY, TopicPartition("t", 0), TopicSettings({}), files=files, now_ms=NOW_MS, is_clean=is_clean)


def append(log: PartitionLog, leader_epoch: int) -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"key", b"value")
    log.append_as_leader(builder.close(), leader_epoch=leader_epoch, now_ms=NOW_MS)


def flush(log: PartitionLog) -> None:
    job = log.flush_job()
    job.run()
    log.flushed(job, NOW_MS)


def epochs_on_disk(files: MemoryFiles) -> tuple[EpochEntry, ...]:
    return LeaderEpochs.load(files, DIRECTORY).entries


def syncs(files: MemoryFiles) -> int:
    return sum("sync" in operation.kind for operation in files.trace)


def new_log(files: MemoryFiles) -> PartitionLog:
    files.make_directory(DIRECTORY.parent)
    files.sync_directory(DIRECTORY.parent.parent)
    files.trace.clear()
    log = opened(files)
    log.assign_topic_id(TOPIC_ID)
    log.begin_epoch(0)
    return log


def test_making_a_log_waits_for_no_disk() -> None:
    """A thousand are made by one order, and each would wait four times."""
    files = MemoryFiles()
    new_log(files)
    assert syncs(files) == 0


def test_the_first_flush_brings_everything_to_the_disk() -> None:
    files = MemoryFiles()
    log = new_log(files)
    append(log, 0)
    flush(log)
    files.crash("nothing")
    assert epochs_on_disk(files) == (EpochEntry(0, 0),)
    assert opened(files).topic_id == TOPIC_ID


def test_an_epoch_is_written_down_before_its_first_record_and_not_earlier() -> None:
    files = MemoryFiles()
    log = new_log(files)
    append(log, 0)
    log.begin_epoch(5)
    assert log.epochs.entries == (EpochEntry(0, 0), EpochEntry(5, 1))
    assert epochs_on_disk(files) == (EpochEntry(0, 0),)
    append(log, 5)
    assert epochs_on_disk(files) == (EpochEntry(0, 0), EpochEntry(5, 1))


def test_an_old_log_has_a_new_epoch_on_the_disk_before_its_first_record() -> None:
    files = MemoryFiles()
    log = new_log(files)
    append(log, 0)
    flush(log)
    log.begin_epoch(1)
    append(log, 1)
    files.crash("nothing")
    assert epochs_on_disk(files) == (EpochEntry(0, 0), EpochEntry(1, 1))


@pytest.mark.parametrize("seed", range(20))
def test_after_a_power_failure_a_new_log_opens_whatever_is_left_of_it(seed: int) -> None:
    files = MemoryFiles(seed=seed)
    log = new_log(files)
    append(log, 0)
    files.crash("any")
    again = opened(files)
    assert again.topic_id in (None, TOPIC_ID)
    again.assign_topic_id(TOPIC_ID)
    again.begin_epoch(1)
    append(again, 1)


def test_half_a_topic_id_is_none() -> None:
    files = MemoryFiles()
    new_log(files).close()
    file = files.open(DIRECTORY / PARTITION_METADATA)
    file.truncate(12)
    file.close()
    log = opened(files, is_clean=True)
    assert log.topic_id is None
    log.assign_topic_id(TOPIC_ID)
    log.close()
    assert opened(files, is_clean=True).topic_id == TOPIC_ID


def test_a_truncation_writes_down_an_epoch_that_was_not_yet() -> None:
    files = MemoryFiles()
    log = new_log(files)
    append(log, 0)
    append(log, 0)
    log.begin_epoch(3)
    log.truncate_to(1, NOW_MS)
    assert epochs_on_disk(files) == log.epochs.entries == (EpochEntry(0, 0),)
    assert (DIRECTORY / LEADER_EPOCHS).name in files.list_directory(DIRECTORY)
