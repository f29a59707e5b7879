"""Logs that Apache Kafka's cleaner has cleaned, cleaned by ours: nothing goes but what is superseded or out of time."""

from __future__ import annotations

import pytest
from tests.golden.logs.reading import ARCHIVES, ExpectedPartition, Row, unpack

from ottla.records import RecordStream
from ottla.storage.compaction.cleaner import Cleaner
from ottla.storage.compaction.cleaner_plan import CleanerSettings
from ottla.storage.files import DiskFiles
from ottla.storage.log.partition_log import PartitionLog, open_log


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name)
def logs(request, tmp_path_factory):
    return unpack(request.param, tmp_path_factory.mktemp("golden"))


def opened(expected: ExpectedPartition, now_ms: int) -> PartitionLog:
    settings = expected.settings.for_topic({"min.cleanable.dirty.ratio": 0})
    log = open_log(
        expected.directory, expected.name, settings, files=DiskFiles(), now_ms=now_ms, is_clean=False, recovery_point=0
    )
    log.update_high_watermark(log.log_end_offset)
    log.roll(now_ms)
    job = log.flush_job()
    job.run()
    log.flushed(job, now_ms)
    return log


def rows(log: PartitionLog) -> list[Row]:
    return [
        Row(*record, batch.leader_epoch)
        for segment in log.segments
        for batch in RecordStream(segment.records.file.read_at(0, segment.size_bytes))
        if not batch.is_control
        for record in batch.records()
    ]


@pytest.mark.parametrize("topic", ["compacted", "forgotten"])
def test_a_log_that_kafka_has_cleaned_keeps_its_last_values(logs, topic) -> None:
    expected = logs.partitions[f"{topic}-0"]
    # Before any delete horizon of a day, behind any that was over at once.
    now_ms = max(row.timestamp_ms for row in expected.records) + 60_000
    log = opened(expected, now_ms)
    cleaner = Cleaner(CleanerSettings(), {expected.name: log}, {})
    while not (progress := cleaner.step(now_ms)).is_idle:
        assert progress.stopped is None
    found = rows(log)
    log.close(is_clean=False)

    last = {row.key: row for row in expected.committed}
    assert set(found) <= set(expected.committed)
    assert {row.key: row for row in found if row.value is not None} == {
        key: row for key, row in last.items() if row.value is not None and key is not None
    }
    assert len(found) == len({row.key for row in found})
    tombstones = {row for row in last.values() if row.value is None and row.key is not None}
    assert {row for row in found if row.value is None} <= tombstones
    if topic == "compacted":
        assert tombstones <= set(found)
