"""A retry of any of the last five batches of a producer is a duplicate, after whatever stop: a snapshot has only the
newest of them, the others are read from the log when they are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import OutOfOrderSequenceNumber, RequestTimedOut
from ottla.records import BatchBuilder
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.storage.log import batch_history
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.partition_log import AppendResult, PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DIRECTORY = Path("/data/orders-0")
NOW_MS = 1_000_000
PRODUCER, OTHER = 7, 8


def opened(files: MemoryFiles, *, is_clean: bool = True, recovery_point: int = 0, **settings: object) -> PartitionLog:
    files.make_directory(DIRECTORY.parent)
    chosen = TopicSettings({"internal.segment.bytes": 1 << 20, "index.interval.bytes": 0, **settings})
    return open_log(
        DIRECTORY,
        TopicPartition("orders", 0),
        chosen,
        files=files,
        now_ms=NOW_MS,
        is_clean=is_clean,
        recovery_point=recovery_point,
        verification_required=False,
    )


def restarted(log: PartitionLog, files: MemoryFiles, **settings: object) -> PartitionLog:
    log.close()
    return opened(files, is_clean=True, recovery_point=log.recovery_point, **settings)


def send(
    log: PartitionLog,
    sequence: int,
    *,
    producer: int = PRODUCER,
    epoch: int = 0,
    records: int = 1,
    transactional: bool = False,
) -> AppendResult:
    builder = BatchBuilder(
        producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )
    for number in range(records):
        builder.append(NOW_MS, b"key", b"%d" % number)
    return log.append_as_leader(builder.close(), leader_epoch=0, now_ms=NOW_MS)


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def test_after_a_clean_stop_each_of_the_last_five_batches_is_a_duplicate(files: MemoryFiles) -> None:
    log = opened(files, is_clean=False)
    offsets = [send(log, 2 * number, records=2).first_offset for number in range(8)]
    log = restarted(log, files)
    for number in range(3, 8):
        again = send(log, 2 * number, records=2)
        assert (again.is_duplicate, again.first_offset) == (True, offsets[number])
    assert log.log_end_offset == 16


def test_a_batch_before_the_last_five_is_out_of_order_as_without_the_stop(files: MemoryFiles) -> None:
    log = opened(files, is_clean=False)
    for number in range(8):
        send(log, number)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 2)
    log = restarted(log, files)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 2)


def test_what_never_was_in_the_log_stays_out_of_order(files: MemoryFiles) -> None:
    log = opened(files, is_clean=False)
    send(log, 4)  # a producer that nobody knows may begin anywhere
    log = restarted(log, files)
    for _ in range(2):
        with pytest.raises(OutOfOrderSequenceNumber):
            send(log, 3)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 6)
    assert not send(log, 5).is_duplicate


def test_batches_of_others_and_segments_between_them_do_not_matter(files: MemoryFiles) -> None:
    small = {"internal.segment.bytes": 700}
    log = opened(files, is_clean=False, **small)
    offsets = []
    for number in range(5):
        offsets.append(send(log, number).first_offset)
        for step in range(7):
            send(log, 7 * number + step, producer=OTHER)
    assert len(log.segments) > 3
    log = restarted(log, files, **small)
    assert [send(log, number).first_offset for number in range(5)] == offsets


def test_batches_that_came_since_the_start_count_among_the_five(files: MemoryFiles) -> None:
    log = opened(files, is_clean=False)
    for number in range(6):
        send(log, number)
    log = restarted(log, files)
    send(log, 6)
    send(log, 7)
    assert [send(log, number).first_offset for number in range(3, 8)] == [3, 4, 5, 6, 7]
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 2)


def test_an_older_epoch_is_not_searched(files: MemoryFiles) -> None:
    log = opened(files, is_clean=False)
    send(log, 0)
    send(log, 1)
    send(log, 0, epoch=1)
    send(log, 1, epoch=1)
    log = restarted(log, files)
    assert send(log, 0, epoch=1).first_offset == 2


def test_a_batch_of_a_transaction_that_ended_is_found_behind_its_marker(files: MemoryFiles) -> None:
    log = opened(files, is_clean=False)
    send(log, 0, transactional=True)
    send(log, 1, transactional=True)
    marker = end_transaction_batch(
        EndTransactionMarker(commit=True, coordinator_epoch=0), producer_id=PRODUCER, producer_epoch=0, timestamp_ms=1
    )
    log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR, transaction_version=1)
    log = restarted(log, files)
    assert send(log, 0, transactional=True).is_duplicate


def test_after_an_unclean_stop_batches_before_the_snapshot_are_found_too(files: MemoryFiles) -> None:
    log = opened(files, is_clean=False)
    for number in range(4):
        send(log, number)
    log.roll(NOW_MS)
    send(log, 4)
    job = log.flush_job()
    job.run()
    log.flushed(job, NOW_MS)
    log.close(is_clean=False)
    log = opened(files, is_clean=False, recovery_point=log.recovery_point)
    assert [send(log, number).first_offset for number in range(5)] == [0, 1, 2, 3, 4]


def test_a_cut_log_forgets_what_it_had_found(files: MemoryFiles) -> None:
    log = opened(files, is_clean=False)
    for number in range(4):
        send(log, number)
    log.roll(NOW_MS)
    for number in range(4, 6):
        send(log, number)
    log.truncate_to(5, NOW_MS)
    assert [send(log, number).is_duplicate for number in range(1, 5)] == [True] * 4
    assert not send(log, 5).is_duplicate


def test_a_long_search_goes_on_with_the_next_retry(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_history, "HEADERS_A_STEP", 40)
    small = {"internal.segment.bytes": 1500}
    log = opened(files, is_clean=False, **small)
    send(log, 0)
    for step in range(400):
        send(log, step, producer=OTHER)
    send(log, 1)
    log = restarted(log, files, **small)
    refused = 0
    while True:
        try:
            again = send(log, 0)
            break
        except RequestTimedOut:
            refused += 1
    assert again.is_duplicate
    assert 3 < refused <= 400 // 40 + 1


def test_a_start_reads_nothing_of_it(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(files, is_clean=False)
    for number in range(8):
        send(log, number)
    monkeypatch.setattr(batch_history._Search, "step", lambda *_: pytest.fail("nobody asked"))
    log = restarted(log, files)
    assert not send(log, 8).is_duplicate
    assert send(log, 8).is_duplicate
    with pytest.raises(OutOfOrderSequenceNumber):
        send(log, 10)
