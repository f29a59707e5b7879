"""The end of a log: its active segment is the last one there is, whatever adds or removes segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import DiskFull
from ottla.records import BatchBuilder
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("orders", 0)


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def log(files: MemoryFiles) -> PartitionLog:
    """Offsets 0, 1 and 2, each in a segment of its own."""
    made = open_log(Path("/data/orders-0"), PARTITION, TopicSettings({}), files=files, now_ms=NOW_MS, is_clean=True)
    for offset in range(3):
        if offset:
            made.roll(NOW_MS)
        append(made)
    return made


def batch() -> bytearray:
    builder = BatchBuilder(size_limit_bytes=1 << 20)
    builder.append(NOW_MS, None, b"value", ())
    return bytearray(builder.close())


def append(log: PartitionLog) -> int:
    return log.append_as_leader(batch(), leader_epoch=1, now_ms=NOW_MS).first_offset


def active_base(log: PartitionLog) -> int:
    assert log.end.active is log.segments.last
    assert log.end.active is not None
    return log.end.active.base_offset


def test_a_roll_makes_the_new_segment_active(log: PartitionLog) -> None:
    log.roll(NOW_MS)
    assert active_base(log) == 3


def test_a_truncation_makes_an_older_segment_active(log: PartitionLog) -> None:
    log.truncate_to(1, NOW_MS)
    assert (active_base(log), append(log), log.end.log_end_offset) == (1, 1, 2)


def test_a_log_that_is_emptied_goes_on_in_a_new_segment(log: PartitionLog) -> None:
    log.truncate_fully(100, NOW_MS)
    assert (active_base(log), append(log)) == (100, 100)


def test_a_log_that_lost_all_its_segments_goes_on_in_a_new_one(log: PartitionLog) -> None:
    log.update_high_watermark(3)
    log.delete_segments(list(log.segments), "they are old", NOW_MS)
    assert (active_base(log), log.end.log_start_offset, append(log)) == (3, 3, 3)


def test_a_roll_without_room_leaves_the_old_segment_active(log: PartitionLog, files: MemoryFiles) -> None:
    files.fill(free_bytes=0)
    with pytest.raises(DiskFull):
        log.roll(NOW_MS)
    assert active_base(log) == 2


def test_a_closed_log_refuses_appends_flushes_and_rolls(log: PartitionLog) -> None:
    log.close()
    assert log.append_run([batch(), batch()], leader_epoch=1, now_ms=NOW_MS) is None
    for refused in (lambda: append(log), log.flush_job, lambda: log.roll(NOW_MS)):
        with pytest.raises(ValueError, match="orders-0 is closed"):
            refused()
    assert log.end.log_end_offset == 3


def test_new_settings_count_for_the_next_append(log: PartitionLog) -> None:
    log.settings = TopicSettings({"internal.segment.bytes": len(batch())})
    append(log)
    assert active_base(log) == 3
