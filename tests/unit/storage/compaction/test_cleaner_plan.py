"""What the cleaner decides: which log, from where to where, which segments together; and how long it waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.records import BatchBuilder
from ottla.storage.compaction.cleaner_plan import (
    DirtyRange,
    LogToClean,
    Measured,
    dirty_range,
    group_segments,
    log_to_clean,
    next_log,
)
from ottla.storage.compaction.io_throttle import IoThrottle
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

PARTITION = TopicPartition("t", 0)
NOW_MS = 1_000_000
SETTINGS = TopicSettings({"cleanup.policy": "compact", "segment.index.bytes": 1200})


@pytest.fixture
def log() -> PartitionLog:
    """Three rolled segments of two records each (0, 2, 4), a minute apart, and an active one (6)."""
    files = MemoryFiles()
    files.make_directory(Path("/data"))
    made = open_log(
        Path("/data/t-0"), PARTITION, SETTINGS, files=files, now_ms=0, is_clean=False, verification_required=False
    )
    for number in range(4):
        builder = BatchBuilder()
        time_ms = NOW_MS - (4 - number) * 60_000
        for _ in range(2):
            builder.append(time_ms, b"key", b"value")
        made.append_as_leader(bytearray(builder.close()), leader_epoch=0, now_ms=time_ms)
        if number < 3:
            made.roll(time_ms)
    job = made.flush_job()
    job.run()
    made.flushed(job, NOW_MS)
    made.update_high_watermark(made.log_end_offset)
    return made


def changed(log: PartitionLog, **overrides: object) -> PartitionLog:
    log.settings = log.settings.for_topic({key.replace("_", "."): value for key, value in overrides.items()})
    return log


def ends(found: DirtyRange) -> tuple[int, int]:
    return found.first_dirty_offset, found.first_uncleanable_offset


# --- from where to where ---------------------------------------------------------------------------------------------


def test_without_a_checkpoint_the_log_is_dirty_from_its_start(log: PartitionLog) -> None:
    assert dirty_range(log, None, NOW_MS) == DirtyRange(0, 6, is_reset=False)
    log.advance_log_start(3)
    assert ends(dirty_range(log, None, NOW_MS)) == (3, 6)


def test_the_dirty_part_begins_where_the_last_pass_ended(log: PartitionLog) -> None:
    assert dirty_range(log, 4, NOW_MS) == DirtyRange(4, 6, is_reset=False)
    assert dirty_range(log, 8, NOW_MS) == DirtyRange(8, 8, is_reset=False)


def test_a_checkpoint_outside_of_the_log_starts_anew(log: PartitionLog) -> None:
    log.advance_log_start(3)
    assert dirty_range(log, 2, NOW_MS) == DirtyRange(3, 6, is_reset=True)
    assert dirty_range(log, 9, NOW_MS) == DirtyRange(3, 6, is_reset=True)


def test_cleaning_ends_at_the_last_stable_offset(log: PartitionLog) -> None:
    log.update_high_watermark(3)
    assert ends(dirty_range(log, None, NOW_MS)) == (0, 3)


def test_cleaning_ends_where_the_disk_is_behind(log: PartitionLog) -> None:
    log.end.flushed_offset = 5
    assert ends(dirty_range(log, None, NOW_MS)) == (0, 5)


def test_young_segments_are_not_cleaned(log: PartitionLog) -> None:
    changed(log, min_compaction_lag_ms=150_000)
    assert ends(dirty_range(log, None, NOW_MS)) == (0, 4)
    assert ends(dirty_range(log, None, NOW_MS - 1)) == (0, 4)
    changed(log, min_compaction_lag_ms=180_000)
    assert ends(dirty_range(log, None, NOW_MS)) == (0, 4)
    assert ends(dirty_range(log, None, NOW_MS - 1)) == (0, 2)


def test_a_segment_that_is_cleanable_in_part_is_not_cleaned(log: PartitionLog) -> None:
    chosen = log_to_clean(log, DirtyRange(0, 3, is_reset=False), NOW_MS)
    assert chosen.first_uncleanable_offset == 2


def test_the_dirty_ratio_is_that_of_bytes(log: PartitionLog) -> None:
    one_bytes = log.segments.first.size_bytes
    chosen = log_to_clean(log, DirtyRange(2, 6, is_reset=False), NOW_MS)
    assert (chosen.clean_bytes, chosen.cleanable_bytes) == (one_bytes, 2 * one_bytes)
    assert chosen.dirty_ratio == pytest.approx(2 / 3)
    assert log_to_clean(log, DirtyRange(0, 0, is_reset=False), NOW_MS).dirty_ratio == 0


def test_a_segment_that_waited_too_long_is_overdue(log: PartitionLog) -> None:
    found = DirtyRange(0, 6, is_reset=False)
    assert not log_to_clean(changed(log, max_compaction_lag_ms=240_000), found, NOW_MS).is_overdue
    assert log_to_clean(log, found, NOW_MS + 1).is_overdue
    assert not log_to_clean(log, DirtyRange(2, 6, is_reset=False), NOW_MS + 1).is_overdue


# --- which log -------------------------------------------------------------------------------------------------------


def candidate(partition: int, clean: int, cleanable: int, *, overdue: bool = False) -> LogToClean:
    return LogToClean(TopicPartition("t", partition), 0, 10, clean, cleanable, overdue)


def test_the_dirtiest_log_is_next() -> None:
    assert next_log([(candidate(0, 10, 50), 0.5), (candidate(1, 10, 90), 0.5)]) == candidate(1, 10, 90)


def test_a_log_at_its_ratio_can_wait() -> None:
    assert next_log([(candidate(0, 50, 50), 0.5)]) is None
    assert next_log([(candidate(0, 49, 51), 0.5)]) is not None


def test_an_overdue_log_does_not_wait_for_its_ratio() -> None:
    assert next_log([(candidate(0, 99, 1, overdue=True), 0.5)]) is not None
    assert next_log([(candidate(0, 99, 0, overdue=True), 0.5)]) is None


def test_nothing_to_clean_is_no_log() -> None:
    assert next_log([]) is None
    assert next_log([(candidate(0, 0, 0), 0.0)]) is None


# --- groups ----------------------------------------------------------------------------------------------------------


def measured(*sizes: tuple[int, int, int, int]) -> list[Measured]:
    return [Measured(None, *each) for each in sizes]  # type: ignore[arg-type]


def grouped(segments: list[Measured], end_offset: int = 100) -> list[list[int]]:
    groups = group_segments(segments, segment_bytes=100, index_bytes=50, end_offset=end_offset)
    return [[each.base_offset for each in group] for group in groups]


def test_segments_are_put_together_up_to_the_size_of_one() -> None:
    assert grouped(measured((0, 40, 1, 1), (10, 60, 1, 1), (20, 1, 1, 1), (30, 99, 1, 1))) == [[0, 10], [20, 30]]
    assert grouped(measured((0, 40, 1, 1), (10, 61, 1, 1))) == [[0], [10]]
    assert grouped(measured((0, 500, 1, 1), (10, 500, 1, 1))) == [[0], [10]]
    assert grouped([]) == []


def test_segments_are_put_together_up_to_the_size_of_an_index() -> None:
    assert grouped(measured((0, 1, 25, 1), (10, 1, 25, 1), (20, 1, 1, 1))) == [[0, 10], [20]]
    assert grouped(measured((0, 1, 1, 25), (10, 1, 1, 26))) == [[0], [10]]


def test_segments_are_put_together_as_long_as_offsets_fit() -> None:
    far = 2**31
    assert grouped(measured((0, 1, 1, 1), (10, 1, 1, 1)), far) == [[0, 10]]
    assert grouped(measured((0, 1, 1, 1), (10, 1, 1, 1)), far + 1) == [[0], [10]]
    assert grouped(measured((0, 1, 1, 1), (10, 1, 1, 1), (far, 1, 1, 1)), far + 5) == [[0, 10], [far]]
    assert grouped(measured((0, 1, 1, 1), (10, 0, 0, 0)), far * 2) == [[0, 10]]


# --- the throttle ----------------------------------------------------------------------------------------------------


def test_work_is_paid_for_by_waiting() -> None:
    throttle = IoThrottle(1000)
    assert throttle.spend(500, NOW_MS) == 500
    assert throttle.spend(500, NOW_MS + 500) == 500
    assert throttle.spend(100, NOW_MS + 700) == 400


def test_a_rest_is_not_saved_up() -> None:
    throttle = IoThrottle(1000)
    throttle.spend(1, NOW_MS)
    assert throttle.spend(500, NOW_MS + 60_000) == 500


def test_a_clock_that_goes_back_does_not_stop_the_work() -> None:
    throttle = IoThrottle(1000)
    throttle.spend(500, NOW_MS)
    assert throttle.spend(500, 0) == 1500


def test_without_a_limit_nobody_waits() -> None:
    assert IoThrottle(float("inf")).spend(1 << 40, NOW_MS) == 0


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        IoThrottle(0)
