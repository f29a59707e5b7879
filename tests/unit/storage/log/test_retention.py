"""Retention: which segments go, and which never do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import DiskFull
from ottla.records import BatchBuilder
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.log.retention import clean_up, decide
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

NOW_MS = 1_000_000
HOUR_MS = 3_600_000


def opened(files: MemoryFiles | None = None, **overrides: object) -> PartitionLog:
    small = {"internal.segment.bytes": 1 << 20, "segment.index.bytes": 240, "index.interval.bytes": 0}
    chosen = TopicSettings({**small, **{key.replace("_", "."): value for key, value in overrides.items()}})
    files = files or MemoryFiles()
    files.make_directory(Path("/data"))
    return open_log(Path("/data/t-0"), TopicPartition("t", 0), chosen, files=files, now_ms=NOW_MS, is_clean=False)


def segments(log: PartitionLog, *times_ms: int, value: bytes = b"v" * 100) -> PartitionLog:
    """One segment per time, one record each; the last one is active. All of them are committed."""
    for number, time_ms in enumerate(times_ms):
        builder = BatchBuilder()
        builder.append(time_ms, b"k", value)
        log.append_as_leader(builder.close(), leader_epoch=0, now_ms=max(NOW_MS, time_ms))
        if number + 1 < len(times_ms):
            log.roll(NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


def gone(log: PartitionLog, now_ms: int) -> list[int]:
    return [each.base_offset for done in clean_up(log, now_ms) for each in done.removed.segments]


def test_segments_older_than_the_limit_go_from_the_start() -> None:
    log = segments(opened(retention_ms=HOUR_MS), NOW_MS, NOW_MS + 1, NOW_MS + 2, NOW_MS + 3)
    assert gone(log, NOW_MS + HOUR_MS + 2) == [0, 1]
    assert (log.log_start_offset, log.log_end_offset) == (2, 4)


def test_a_young_segment_keeps_the_older_ones_behind_it() -> None:
    log = segments(opened(retention_ms=HOUR_MS), NOW_MS + 9, NOW_MS, NOW_MS)
    assert gone(log, NOW_MS + HOUR_MS + 5) == []


@pytest.mark.parametrize("bit", range(40))
def test_a_time_that_rotted_in_an_index_costs_no_young_segment(bit: int) -> None:
    files, now_ms = MemoryFiles(), 1_700_000_000_000
    segments(opened(files, retention_ms=HOUR_MS), now_ms, now_ms + 1, now_ms + 2).close()
    path = Path("/data/t-0/00000000000000000000.timeindex")
    files.flip_bit(path, 8 * (7 - bit // 8) + bit % 8)  # of the latest time of the first segment
    settings = TopicSettings({"retention.ms": HOUR_MS, "segment.index.bytes": 240})
    log = open_log(
        *(Path("/data/t-0"), TopicPartition("t", 0), settings),
        files=files,
        now_ms=now_ms,
        is_clean=True,
        recovery_point=3,
    )
    log.update_high_watermark(log.log_end_offset)
    assert gone(log, now_ms + 10) == []


def test_a_clock_that_jumps_back_deletes_nothing() -> None:
    log = segments(opened(retention_ms=0), NOW_MS, NOW_MS, NOW_MS)
    assert gone(log, 0) == []
    assert gone(log, NOW_MS) == []
    assert gone(log, NOW_MS + 1) == [0, 1, 2]


def test_an_old_active_segment_goes_and_a_new_one_begins() -> None:
    log = segments(opened(retention_ms=HOUR_MS), NOW_MS)
    assert gone(log, NOW_MS + HOUR_MS + 1) == [0]
    assert log.active.base_offset == log.log_start_offset == log.log_end_offset == 1
    assert gone(log, NOW_MS + 9 * HOUR_MS) == []


def test_only_the_surplus_goes_by_size() -> None:
    log = segments(opened(retention_ms=-1), *[NOW_MS] * 5)
    each_bytes = log.active.size_bytes
    for limit_bytes, expected in ((5 * each_bytes, []), (4 * each_bytes + 1, []), (3 * each_bytes, [0, 1])):
        log.settings = log.settings.for_topic({"retention.bytes": limit_bytes})
        assert gone(log, NOW_MS) == expected


def test_without_limits_nothing_goes() -> None:
    log = segments(opened(retention_ms=-1, retention_bytes=-1), 0, 0)
    assert gone(log, 2**62) == []


def test_nothing_beyond_the_high_watermark_goes() -> None:
    log = segments(opened(retention_ms=0, retention_bytes=0), *[NOW_MS] * 4)
    log.update_high_watermark(2)
    assert gone(log, NOW_MS + HOUR_MS) == [0, 1]
    log.update_high_watermark(3)
    assert gone(log, NOW_MS + HOUR_MS) == [2]


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete"])
def test_segments_below_the_log_start_always_go(policy: str) -> None:
    log = segments(opened(cleanup_policy=policy, retention_ms=-1), *[NOW_MS] * 4)
    log.advance_log_start(2)
    decided = decide(log, NOW_MS)
    assert decided is not None
    assert [each.base_offset for each in decided.segments] == [0, 1]
    assert gone(log, NOW_MS) == [0, 1]


def test_a_compacted_topic_loses_nothing_by_age_and_size() -> None:
    log = segments(opened(cleanup_policy="compact", retention_ms=0, retention_bytes=0), *[NOW_MS] * 3)
    assert gone(log, NOW_MS + HOUR_MS) == []


def test_records_without_a_time_age_with_their_file() -> None:
    files = MemoryFiles(now_ms=lambda: NOW_MS)
    log = segments(opened(files, retention_ms=HOUR_MS), -1, -1)
    assert gone(log, NOW_MS + HOUR_MS) == []
    assert gone(log, NOW_MS + HOUR_MS + 1) == [0, 1]


def test_deciding_touches_nothing() -> None:
    log = segments(opened(retention_ms=0), *[NOW_MS] * 3)
    assert decide(log, NOW_MS + 1) == decide(log, NOW_MS + 1)
    assert len(log.segments) == 3


def test_a_full_disk_does_not_keep_retention_from_making_room() -> None:
    files = MemoryFiles()
    log = segments(opened(files, retention_ms=0), *[NOW_MS] * 3)
    files.fill(0)
    with pytest.raises(DiskFull):
        segments(log, NOW_MS)
    steps = clean_up(log, NOW_MS + 1)
    next(steps).removed.remove(files)
    assert log.log_start_offset == 2
    segments(log, NOW_MS)
    assert log.log_end_offset == 4


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=8),
    st.integers(-1, 60),
    st.integers(-1, 900),
    st.integers(0, 8),
    st.integers(0, 100),
)
def test_what_goes_is_what_a_plain_list_says(
    ages: list[int], limit_ms: int, limit_bytes: int, committed: int, now_ms: int
) -> None:
    log = segments(opened(retention_ms=limit_ms, retention_bytes=limit_bytes), *ages)
    log.update_high_watermark(committed)
    size_bytes = log.active.size_bytes
    kept = list(enumerate(ages))
    while kept and limit_bytes >= 0 and kept[0][0] < committed and (len(kept) - 1) * size_bytes >= limit_bytes:
        kept.pop(0)
    while kept and limit_ms >= 0 and kept[0][0] < committed and now_ms - kept[0][1] > limit_ms:
        kept.pop(0)
    gone(log, now_ms)
    assert log.log_start_offset == len(ages) - len(kept)
    assert gone(log, now_ms) == []
