"""The disk fails at every single operation of a compaction, and the power goes: what is found then is old or new.

A log with everything in it (codecs, tombstones, transactions, an empty batch, several groups of segments) is compacted
once to count the operations, and then once for every operation. After each crash a reader of committed records finds
what it found before, a second start changes nothing, no file of the cleaner is left, and cleaning again comes to the
same records as if nothing had happened.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import KafkaStorageError
from ottla.records import BatchBuilder, Compression, RecordStream
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.storage.compaction.cleaner import Cleaner
from ottla.storage.compaction.cleaner_plan import CleanerSettings
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DIRECTORY = Path("/data/t-0")
PARTITION = TopicPartition("t", 0)
NOW_MS = 1_000_000
SETTINGS = TopicSettings(
    {
        "cleanup.policy": "compact",
        "internal.segment.bytes": 900,
        "segment.index.bytes": 240,
        "index.interval.bytes": 100,
        "min.cleanable.dirty.ratio": 0,
    }
)
Row = tuple[int, bytes | None, bytes | None]


def opened(files: MemoryFiles, recovery_point: int) -> PartitionLog:
    log = open_log(
        *(DIRECTORY, PARTITION, SETTINGS),
        files=files,
        now_ms=NOW_MS,
        is_clean=False,
        recovery_point=recovery_point,
        verification_required=False,
    )
    log.update_high_watermark(log.log_end_offset)
    return log


def written_log(seed: int, files: MemoryFiles | None = None) -> tuple[MemoryFiles, PartitionLog]:
    files = files or MemoryFiles(seed=seed)
    files.make_directory(DIRECTORY.parent)
    files.sync_directory(Path("/"))
    log = opened(files, 0)
    for number in range(10):
        producer = number % 3
        builder = BatchBuilder(
            producer_id=producer,
            producer_epoch=0,
            base_sequence=number // 3 * 3,
            transactional=producer > 0,
            compression=list(Compression)[number % 5],
        )
        for key in (b"a", b"b%d" % (number % 4), b"c%d" % number):
            builder.append(NOW_MS, key, None if number % 4 == 3 else b"%d" % number * 30)
        _append(log, bytearray(builder.close()), AppendOrigin.CLIENT)
        if producer > 0:
            marker = EndTransactionMarker(commit=producer == 1, coordinator_epoch=0)
            content = end_transaction_batch(marker, producer_id=producer, producer_epoch=0, timestamp_ms=NOW_MS)
            _append(log, content, AppendOrigin.COORDINATOR)
    log.roll(NOW_MS)
    job = log.flush_job()
    job.run()
    log.flushed(job, NOW_MS)
    return files, log


def _append(log: PartitionLog, content: bytes | bytearray, origin: AppendOrigin) -> None:
    log.append_as_leader(content, leader_epoch=0, now_ms=NOW_MS, origin=origin, transaction_version=1)
    log.update_high_watermark(log.log_end_offset)


def clean(files: MemoryFiles, log: PartitionLog) -> None:
    cleaner = Cleaner(CleanerSettings(io_buffer_bytes=800), {PARTITION: log}, {})
    while not (progress := cleaner.step(NOW_MS)).is_idle:
        for removed in progress.removed:
            removed.remove(files)


def last_committed(log: PartitionLog) -> dict[bytes | None, tuple[int, bytes | None]]:
    """The last record of every key that a reader of committed records sees; a tombstone counts as none."""
    last: dict[bytes | None, tuple[int, bytes | None]] = {}
    aborted_from = {(each.producer_id, each.last_offset) for each in log.aborted_transactions(0, log.log_end_offset)}
    for segment in log.segments:
        for batch in RecordStream(segment.records.file.read_at(0, segment.size_bytes)):
            batch.check()
            is_aborted = any(
                batch.producer_id == producer and batch.last_offset < end <= batch.last_offset + 1
                for producer, end in aborted_from
            )
            for record in [] if batch.is_control or is_aborted else batch.records():
                last[record.key] = (record.offset, record.value)
    return last


def rows(log: PartitionLog) -> list[Row]:
    """Every record that is there, whoever may read it."""
    return [
        (record.offset, record.key, record.value)
        for segment in log.segments
        for batch in RecordStream(segment.records.file.read_at(0, segment.size_bytes))
        if not batch.is_control
        for record in batch.records()
    ]


def content(files: MemoryFiles) -> dict[str, bytes]:
    names = [name for name in files.list_directory(DIRECTORY) if ".snapshot" not in name]
    return {name: files.read_bytes(DIRECTORY / name) for name in names}


def operations() -> int:
    files, log = written_log(0)
    before = len(files.trace)
    clean(files, log)
    return len(files.trace) - before


@pytest.fixture(scope="module")
def undisturbed() -> tuple[list[Row], dict[bytes | None, tuple[int, bytes | None]]]:
    files, log = written_log(0)
    before = last_committed(log)
    clean(files, log)
    assert last_committed(log) == before
    assert len(log.segments) > 2
    return rows(log), before


@pytest.mark.parametrize("keep", ["any", "nothing", "everything"])
def test_a_crash_at_any_operation_leaves_old_or_new(keep, undisturbed) -> None:
    cleaned, before = undisturbed
    total = operations()
    assert total > 60
    for number in range(1, total + 1):
        files, log = written_log(number)
        recovery_point = log.recovery_point
        files.fail(number, for_ever=True)
        with pytest.raises(KafkaStorageError):
            clean(files, log)
        files.crash(keep)

        found = opened(files, recovery_point)
        assert last_committed(found) == before, number
        found.close()
        once = content(files)
        assert not [name for name in once if name.endswith((".cleaned", ".swap", ".deleted"))]

        again = opened(files, recovery_point)
        again.close()
        assert content(files) == once

        again = opened(files, recovery_point)
        clean(files, again)
        assert last_committed(again) == before
        assert rows(again) == cleaned, number
