"""PartitionLog: what an append, a read, a lookup and a cut do, on the faulty twin of the disk."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ottla.errors import (
    CorruptMessage,
    DiskFull,
    IllegalMove,
    InconsistentTopicId,
    InvalidRecord,
    InvalidTimestamp,
    KafkaStorageError,
    MessageTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
)
from ottla.records import BatchBuilder, Compression, RecordStream
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.storage.log.follower_check import UnexpectedOffset
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.partition_log import PartitionLog, deleted_directory_name, flush_is_due, open_log
from ottla.storage.segment.segment import Segment
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DIRECTORY = Path("/data/orders-0")
PARTITION = TopicPartition("orders", 0)
NOW_MS = 1_000_000
TOPIC_ID = bytes(range(16))


def settings(**overrides: object) -> TopicSettings:
    small = {"internal.segment.bytes": 1 << 20, "segment.index.bytes": 1200, "index.interval.bytes": 0}
    return TopicSettings({**small, **{key.replace("_", "."): value for key, value in overrides.items()}})


def opened(files: MemoryFiles, chosen: TopicSettings | None = None, **given: object) -> PartitionLog:
    files.make_directory(DIRECTORY.parent)
    files.sync_directory(Path("/"))
    options = {"is_clean": False, "now_ms": NOW_MS, "verification_required": False, **given}
    return open_log(DIRECTORY, PARTITION, chosen or settings(), files=files, **options)  # type: ignore[arg-type]


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def log(files: MemoryFiles) -> PartitionLog:
    return opened(files)


def batch(*values: bytes, timestamp_ms: int = NOW_MS, producer: int = -1, sequence: int = -1, **rest: object) -> bytes:
    builder = BatchBuilder(
        producer_id=producer,
        producer_epoch=-1 if producer < 0 else 0,
        base_sequence=sequence,
        **rest,  # type: ignore[arg-type]
    )
    for value in values:
        builder.append(timestamp_ms, b"key", value)
    return builder.close()


def append(log: PartitionLog, *values: bytes, epoch: int = 0, **rest: object) -> int:
    return log.append_as_leader(batch(*values, **rest), leader_epoch=epoch, now_ms=NOW_MS).first_offset  # type: ignore[arg-type]


def end_transaction(log: PartitionLog, producer: int, *, commit: bool) -> int:
    marker = EndTransactionMarker(commit=commit, coordinator_epoch=0)
    content = end_transaction_batch(marker, producer_id=producer, producer_epoch=0, timestamp_ms=NOW_MS)
    return log.append_as_leader(
        content, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR, transaction_version=1
    ).first_offset


def values_of(content: bytes) -> list[bytes | None]:
    return [record.value for each in RecordStream(content) if not each.is_control for record in each.records()]


def everything(log: PartitionLog, up_to: str = "log_end") -> list[tuple[int, bytes | None]]:
    """All records, by as many reads as it takes."""
    found: list[tuple[int, bytes | None]] = []
    offset = log.log_start_offset
    while True:
        content = log.read(offset, 1000, up_to=up_to).slice.read()  # type: ignore[arg-type]
        before = offset
        for each in RecordStream(content):
            each.check()
            found += [(record.offset, record.value) for record in each.records() if record.offset >= offset]
            offset = each.next_offset
        if offset == before:
            return found


def flush(log: PartitionLog, now_ms: int = NOW_MS) -> None:
    job = log.flush_job()
    job.run()
    log.flushed(job, now_ms)


# --- append as leader ------------------------------------------------------------------------------------------------


def test_batches_get_the_next_offsets_and_are_read_back(log: PartitionLog) -> None:
    assert [append(log, b"a", b"b"), append(log, b"c")] == [0, 2]
    assert log.log_end_offset == 3
    assert everything(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_the_answer_tells_offsets_epoch_and_log_start(log: PartitionLog) -> None:
    append(log, b"a")
    appended = log.append_as_leader(batch(b"b", b"c"), leader_epoch=4, now_ms=NOW_MS)
    assert (appended.first_offset, appended.last_offset, appended.next_offset) == (1, 2, 3)
    assert (appended.leader_epoch, appended.log_start_offset, appended.log_append_time_ms) == (4, 0, -1)
    assert not appended.is_duplicate


def test_the_brokers_time_is_told_where_the_topic_asks_for_it(files: MemoryFiles) -> None:
    log = opened(files, settings(message_timestamp_type="LogAppendTime"))
    assert log.append_as_leader(batch(b"a"), leader_epoch=0, now_ms=NOW_MS + 7).log_append_time_ms == NOW_MS + 7
    assert next(iter(RecordStream(log.read(0, 1000, up_to="log_end").slice.read()))).max_timestamp_ms == NOW_MS + 7


def test_the_topics_codec_is_applied(files: MemoryFiles) -> None:
    log = opened(files, settings(compression_type="zstd"))
    append(log, b"a" * 1000, compression=Compression.GZIP)
    found = next(iter(RecordStream(log.read(0, 1000, up_to="log_end").slice.read())))
    assert found.compression is Compression.ZSTD


def test_a_damaged_batch_is_refused_and_nothing_is_written(log: PartitionLog) -> None:
    damaged = bytearray(batch(b"a"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessage):
        log.append_as_leader(damaged, leader_epoch=0, now_ms=NOW_MS)
    assert (log.log_end_offset, log.size_bytes, log.epochs.latest) == (0, 0, None)


def test_a_record_without_a_key_is_refused_by_a_compacted_topic(files: MemoryFiles) -> None:
    log = opened(files, settings(cleanup_policy="compact"))
    builder = BatchBuilder()
    builder.append(NOW_MS, None, b"value")
    with pytest.raises(InvalidRecord) as refused:
        log.append_as_leader(builder.close(), leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.record_errors[0].batch_index == 0  # type: ignore[attr-defined]


def test_settings_may_change_while_the_log_is_open(log: PartitionLog) -> None:
    append(log, b"a" * 500)
    log.settings = settings(max_message_bytes=200)
    with pytest.raises(MessageTooLarge):
        append(log, b"a" * 500)


def test_a_repeated_batch_is_answered_with_where_it_is(log: PartitionLog) -> None:
    append(log, b"other")
    append(log, b"a", b"b", producer=7, sequence=0)
    append(log, b"c", producer=7, sequence=2)
    again = log.append_as_leader(batch(b"a", b"b", producer=7, sequence=0), leader_epoch=0, now_ms=NOW_MS)
    assert (again.first_offset, again.last_offset, again.is_duplicate) == (1, 2, True)
    assert log.log_end_offset == 4


def test_a_repeated_batch_that_would_be_refused_today_is_answered_with_where_it_is(log: PartitionLog) -> None:
    """The broker was killed before it answered, and came back with a clock that is hours late."""
    append(log, b"a", b"b", producer=7, sequence=0)
    late_ms = NOW_MS - 10 * 3_600_000
    again = log.append_as_leader(batch(b"a", b"b", producer=7, sequence=0), leader_epoch=0, now_ms=late_ms)
    assert (again.first_offset, again.last_offset, again.is_duplicate) == (0, 1, True)
    with pytest.raises(InvalidTimestamp):
        log.append_as_leader(batch(b"c", producer=7, sequence=2), leader_epoch=0, now_ms=late_ms)


def test_a_gap_in_the_sequences_is_refused(log: PartitionLog) -> None:
    append(log, b"a", producer=7, sequence=0)
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, b"c", producer=7, sequence=2)
    assert append(log, b"b", producer=7, sequence=1) == 1


def test_a_new_leader_epoch_is_on_the_disk_before_its_first_record(log: PartitionLog, files: MemoryFiles) -> None:
    append(log, b"a", epoch=3)
    names = [f"{each.kind} {(each.target or each.path).name}" for each in files.trace]
    assert names.index("rename leader-epoch-checkpoint") < names.index("write 00000000000000000000.log")


# --- transactions ----------------------------------------------------------------------------------------------------


def test_an_open_transaction_holds_back_the_last_stable_offset(log: PartitionLog) -> None:
    append(log, b"plain")
    append(log, b"t", producer=7, sequence=0, transactional=True)
    append(log, b"later")
    log.update_high_watermark(3)
    assert (log.first_unstable_offset, log.last_stable_offset) == (1, 1)
    assert values_of(log.read(0, 1000, up_to="last_stable").slice.read()) == [b"plain"]
    end_transaction(log, 7, commit=True)
    log.update_high_watermark(4)
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, 4)


def test_an_ended_transaction_is_unstable_until_the_high_watermark_passes_its_marker(log: PartitionLog) -> None:
    append(log, b"t", producer=7, sequence=0, transactional=True)
    end_transaction(log, 7, commit=True)
    log.update_high_watermark(1)
    assert log.last_stable_offset == 0


def test_readers_of_committed_records_are_told_what_was_aborted(log: PartitionLog) -> None:
    append(log, b"aborted", producer=7, sequence=0, transactional=True)
    append(log, b"committed", producer=8, sequence=0, transactional=True)
    end_transaction(log, 7, commit=False)
    end_transaction(log, 8, commit=True)
    log.update_high_watermark(log.log_end_offset)
    answer = log.read(0, 10_000, up_to="last_stable")
    assert answer.aborted is not None
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in answer.aborted] == [(7, 0, 2)]
    assert log.read(3, 10_000, up_to="last_stable").aborted == []
    assert log.read(0, 10_000, up_to="high_watermark").aborted is None


def test_an_abort_in_a_later_segment_is_found_from_an_earlier_one(log: PartitionLog) -> None:
    append(log, b"aborted", producer=7, sequence=0, transactional=True)
    log.roll(NOW_MS)
    end_transaction(log, 7, commit=False)
    log.update_high_watermark(log.log_end_offset)
    answer = log.read(0, 10_000, up_to="last_stable")
    assert [each.producer_id for each in answer.aborted or []] == [7]


# --- errors of the disk ----------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_the_append_and_takes_it_when_there_is_room(log: PartitionLog, files: MemoryFiles) -> None:
    append(log, b"a")
    files.fill(free_bytes=30)
    with pytest.raises(DiskFull):
        append(log, b"b" * 100)
    assert everything(log) == [(0, b"a")]
    files.fill(free_bytes=1 << 20)
    assert append(log, b"b") == 1
    assert everything(log) == [(0, b"a"), (1, b"b")]


def test_a_full_disk_at_a_roll_leaves_the_old_segment_in_use(files: MemoryFiles) -> None:
    log = opened(files, settings(**{"internal.segment.bytes": 300}))
    append(log, b"a" * 100, producer=7, sequence=0)
    files.fill(free_bytes=0)
    with pytest.raises(DiskFull):
        append(log, b"b" * 200, producer=7, sequence=1)
    assert (len(log.segments), log.log_end_offset) == (1, 1)
    files.fill(free_bytes=1 << 20)
    assert append(log, b"b" * 200, producer=7, sequence=1) == 1
    assert len(log.segments) == 2


def test_an_abort_whose_index_entry_cannot_be_written_has_not_happened(log: PartitionLog, files: MemoryFiles) -> None:
    append(log, b"t", producer=7, sequence=0, transactional=True)
    files.fail(lambda each: each.kind == "write" and each.path.suffix == ".txnindex", errno.ENOSPC)
    with pytest.raises(DiskFull):
        end_transaction(log, 7, commit=False)
    assert (log.log_end_offset, log.first_unstable_offset) == (1, 0)
    assert end_transaction(log, 7, commit=False) == 1
    log.update_high_watermark(2)
    assert len(log.aborted_transactions(0, 2)) == 1
    assert append(log, b"more", producer=7, sequence=1) == 2


def test_a_failed_write_is_passed_up_and_leaves_the_log_as_it_was(log: PartitionLog, files: MemoryFiles) -> None:
    append(log, b"a")
    files.fail(lambda each: each.kind == "write" and each.path.suffix == ".log")
    with pytest.raises(KafkaStorageError) as failed:
        append(log, b"b")
    assert not isinstance(failed.value, DiskFull)
    assert everything(log) == [(0, b"a")]


# --- append as follower ----------------------------------------------------------------------------------------------


def copied(log: PartitionLog) -> bytearray:
    return bytearray(b"".join(segment.records.file.read_at(0, segment.size_bytes) for segment in log.segments))


def test_a_follower_has_the_leaders_bytes_epochs_and_producers(log: PartitionLog) -> None:
    append(log, b"a", b"b", epoch=1, producer=7, sequence=0)
    append(log, b"c", epoch=3, producer=8, sequence=0, transactional=True)
    end_transaction_bytes = copied(log)
    follower = opened(MemoryFiles())
    appended = follower.append_as_follower(end_transaction_bytes, leader_epoch=3, now_ms=NOW_MS)
    assert appended is not None
    assert (appended.first_offset, appended.last_offset) == (0, 2)
    assert copied(follower) == copied(log)
    assert follower.epochs.entries == log.epochs.entries
    assert dict(follower.producers.entries) == dict(log.producers.entries)
    assert follower.first_unstable_offset == 2


def aborted_one_after_the_other(log: PartitionLog) -> None:
    """Two aborted transactions of one producer, and one of another that begins behind them."""
    for sequence in range(2):
        append(log, b"given up", producer=7, sequence=sequence, transactional=True)
        end_transaction(log, 7, commit=False)
    append(log, b"later", producer=8, sequence=0, transactional=True)


def aborted_seen_by_readers(log: PartitionLog) -> list[list[int]]:
    """By the end of what a reader from the start got: where the transactions began that it was told were aborted."""
    ends = range(1, log.log_end_offset + 1)
    return [[each.first_offset for each in log.aborted_transactions(0, end)] for end in ends]


def test_a_follower_tells_of_every_aborted_transaction_that_came_in_one_answer(log: PartitionLog) -> None:
    aborted_one_after_the_other(log)
    follower = opened(MemoryFiles())
    follower.append_as_follower(copied(log), leader_epoch=0, now_ms=NOW_MS)
    assert aborted_seen_by_readers(follower) == aborted_seen_by_readers(log) == [[0], [0], [0, 2], [0, 2], [0, 2]]


def test_a_recovered_log_tells_of_every_aborted_transaction(files: MemoryFiles, log: PartitionLog) -> None:
    aborted_one_after_the_other(log)
    expected = aborted_seen_by_readers(log)
    log.close(is_clean=False)
    assert aborted_seen_by_readers(opened(files)) == expected


def test_a_follower_refuses_what_it_has_already(log: PartitionLog) -> None:
    append(log, b"a")
    with pytest.raises(UnexpectedOffset):
        log.append_as_follower(copied(log), leader_epoch=0, now_ms=NOW_MS)


def test_a_follower_keeps_gaps_and_cuts_a_long_answer_into_segments(files: MemoryFiles) -> None:
    follower = opened(files, settings(**{"internal.segment.bytes": 250}))
    content = bytearray()
    for base_offset in (5, 9, 4_000_000_000):
        one = bytearray(batch(b"x" * 100))
        one[:8] = base_offset.to_bytes(8, "big")
        one[12:16] = bytes(4)
        content += one
    follower.append_as_follower(content, leader_epoch=0, now_ms=NOW_MS)
    assert [offset for offset, _ in everything(follower)] == [5, 9, 4_000_000_000]
    assert follower.segments.base_offsets == [0, 9, 4_000_000_000]


# --- segments --------------------------------------------------------------------------------------------------------


def test_a_full_segment_is_rolled_with_a_snapshot_of_its_producers(files: MemoryFiles) -> None:
    log = opened(files, settings(**{"internal.segment.bytes": 400}))
    for sequence in range(4):
        append(log, b"x" * 100, producer=7, sequence=sequence)
    assert log.segments.base_offsets == [0, 2]
    names = files.list_directory(DIRECTORY)
    assert [name for name in names if name.endswith(".snapshot")] == ["00000000000000000002.snapshot"]


def test_an_old_segment_is_rolled_by_the_time_of_its_records(files: MemoryFiles) -> None:
    log = opened(files, settings(segment_ms=1000))
    for timestamp_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001):
        append(log, b"a", timestamp_ms=timestamp_ms)
    assert log.segments.base_offsets == [0, 2]


def test_a_segment_with_a_full_index_is_rolled(files: MemoryFiles) -> None:
    log = opened(files, settings(segment_index_bytes=36))
    for _ in range(8):
        append(log, b"a")
    assert len(log.segments) > 1
    assert len(everything(log)) == 8


def test_an_index_without_room_for_an_entry_does_not_roll_for_ever(files: MemoryFiles) -> None:
    log = opened(files, settings(segment_index_bytes=4))
    for _ in range(3):
        append(log, b"a")
    assert len(everything(log)) == 3


def test_segments_of_a_compacted_topic_end_within_the_compaction_lag(files: MemoryFiles) -> None:
    log = opened(files, settings(cleanup_policy="compact", max_compaction_lag_ms=500))
    for timestamp_ms in (NOW_MS, NOW_MS + 501):
        append(log, b"a", timestamp_ms=timestamp_ms)
    assert log.segments.base_offsets == [0, 1]


def test_jitter_ends_segments_of_different_partitions_at_different_times() -> None:
    chosen = settings(segment_ms=10_000, segment_jitter_ms=5_000)
    waits = set()
    for partition in range(20):
        files = MemoryFiles()
        files.make_directory(DIRECTORY.parent)
        log = open_log(
            DIRECTORY, TopicPartition("orders", partition), chosen, files=files, now_ms=NOW_MS, is_clean=True
        )
        waits.add(log.active.jitter_ms)
    assert len(waits) > 15
    assert max(waits) < 5_000


def test_an_empty_segment_is_not_rolled(log: PartitionLog) -> None:
    assert log.roll(NOW_MS) is log.active
    append(log, b"a")
    rolled = log.roll(NOW_MS)
    assert (rolled.base_offset, log.roll(NOW_MS)) == (1, rolled)


def test_a_preallocated_segment_has_its_size_while_it_grows(files: MemoryFiles) -> None:
    log = opened(files, settings(preallocate=True))
    append(log, b"a")
    size_bytes = log.size_bytes
    assert files.size(log.active.path) == 1 << 20
    first = log.active.path
    log.roll(NOW_MS)
    assert files.size(first) == size_bytes
    append(log, b"b")
    log.close()
    again = opened(files, settings(preallocate=True), is_clean=True, recovery_point=2)
    assert everything(again) == [(0, b"a"), (1, b"b")]


# --- read ------------------------------------------------------------------------------------------------------------


def test_readers_stop_at_the_high_watermark_and_followers_at_the_end(log: PartitionLog) -> None:
    for value in (b"a", b"b", b"c"):
        append(log, value)
    log.update_high_watermark(2)
    assert values_of(log.read(0, 1000).slice.read()) == [b"a", b"b"]
    assert values_of(log.read(0, 1000, up_to="log_end").slice.read()) == [b"a", b"b", b"c"]
    assert len(log.read(2, 1000).slice) == 0
    assert len(log.read(3, 1000, up_to="log_end").slice) == 0


def test_a_limit_inside_a_batch_leaves_the_batch_out(log: PartitionLog) -> None:
    append(log, b"a")
    append(log, b"b", b"c")
    log.update_high_watermark(2)
    assert values_of(log.read(0, 1000).slice.read()) == [b"a"]
    assert len(log.read(1, 1000).slice) == 0


def test_the_remembered_limit_follows_the_high_watermark(log: PartitionLog) -> None:
    for value in (b"a", b"b", b"c", b"d"):
        append(log, value)
    for high_watermark, expected in ((1, 1), (3, 3), (2, 2), (4, 4)):
        log.update_high_watermark(high_watermark)
        assert len(values_of(log.read(0, 10_000).slice.read())) == expected
        assert len(values_of(log.read(0, 10_000).slice.read())) == expected


def test_the_first_batch_comes_whole_unless_that_is_refused(log: PartitionLog) -> None:
    append(log, b"a" * 500)
    append(log, b"b")
    assert values_of(log.read(0, 10, up_to="log_end").slice.read()) == [b"a" * 500]
    assert len(log.read(0, 10, up_to="log_end", at_least_one_batch=False).slice) == 0


def test_offsets_that_are_not_there_are_out_of_range(log: PartitionLog) -> None:
    append(log, b"a")
    append(log, b"b")
    log.update_high_watermark(2)
    log.advance_log_start(1)
    for offset in (0, 3, -1):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 1000)


def test_a_read_at_the_end_of_a_segment_goes_on_in_the_next(log: PartitionLog) -> None:
    append(log, b"a")
    log.roll(NOW_MS)
    append(log, b"b")
    assert values_of(log.read(1, 1000, up_to="log_end").slice.read()) == [b"b"]
    log.update_high_watermark(1)
    assert len(log.read(1, 1000).slice) == 0
    assert values_of(log.read(0, 1000).slice.read()) == [b"a"]


def test_a_lying_index_is_built_anew_and_the_reader_never_knows(files: MemoryFiles) -> None:
    log = opened(files)
    for number in range(20):
        append(log, b"%d" % number)
    log.close()
    files.flip_bit(DIRECTORY / "00000000000000000000.index", 8 * 12 + 6)
    log = opened(files, is_clean=True, recovery_point=20)
    assert [value for _, value in everything(log)] == [b"%d" % number for number in range(20)]
    assert append(log, b"more") == 20


def test_a_cut_index_of_aborted_transactions_is_built_anew(files: MemoryFiles) -> None:
    log = opened(files)
    append(log, b"t", producer=7, sequence=0, transactional=True)
    end_transaction(log, 7, commit=False)
    log.close()
    index = files.open(DIRECTORY / "00000000000000000000.txnindex")
    index.truncate(20)
    index.close()
    log = opened(files, is_clean=True, recovery_point=2)
    assert [each.producer_id for each in log.aborted_transactions(0, 2)] == [7]


# --- lookups ---------------------------------------------------------------------------------------------------------


def test_offsets_are_found_by_time_across_segments(log: PartitionLog) -> None:
    for number, timestamp_ms in enumerate((100, 300, 200, 500, 400)):
        append(log, b"%d" % number, timestamp_ms=timestamp_ms)
        if number == 2:
            log.roll(NOW_MS)
    found = {ms: log.offset_for_timestamp(ms) for ms in (0, 100, 101, 300, 301, 450, 501)}
    assert {ms: each and each.offset for ms, each in found.items()} == {
        0: 0,
        100: 0,
        101: 1,
        300: 1,
        301: 3,
        450: 3,
        501: None,
    }
    newest = log.offset_of_max_timestamp()
    assert newest is not None
    assert (newest.offset, newest.timestamp_ms) == (3, 500)


def test_a_time_is_not_found_below_the_log_start(log: PartitionLog) -> None:
    append(log, b"a", timestamp_ms=900)
    append(log, b"b", timestamp_ms=100)
    log.roll(NOW_MS)
    append(log, b"c", timestamp_ms=950)
    log.update_high_watermark(3)
    log.advance_log_start(1)
    found = log.offset_for_timestamp(500)
    assert found is not None
    assert found.offset == 2


def test_the_ends_are_told_with_their_epochs(log: PartitionLog) -> None:
    assert log.earliest_offset() == (0, None)
    append(log, b"a", epoch=2)
    append(log, b"b", epoch=5)
    assert (log.earliest_offset(), log.latest_offset()) == ((0, 2), (2, 5))
    assert log.end_offset_for_epoch(2) == (2, 1)
    assert log.end_offset_for_epoch(4) == (2, 1)
    assert log.end_offset_for_epoch(5) == (5, 2)
    assert log.end_offset_for_epoch(6) == (-1, -1)


def test_an_empty_log_has_no_times(log: PartitionLog) -> None:
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None


# --- cut -------------------------------------------------------------------------------------------------------------


def three_segments(log: PartitionLog) -> None:
    for number in range(6):
        if number in (2, 4):
            log.roll(NOW_MS)
        append(log, b"%d" % number, epoch=number // 2, producer=7, sequence=number)
    log.update_high_watermark(6)


@pytest.mark.parametrize("offset", range(7))
def test_truncation_forgets_records_epochs_and_producers_behind_it(log: PartitionLog, offset: int) -> None:
    three_segments(log)
    log.truncate_to(offset, NOW_MS)
    assert (log.log_end_offset, log.high_watermark) == (offset, offset)
    assert [at for at, _ in everything(log)] == list(range(offset))
    assert all(each.start_offset < offset for each in log.epochs.entries)
    assert append(log, b"new", producer=7, sequence=offset) == offset
    assert [at for at, _ in everything(log)] == list(range(offset + 1))


@pytest.mark.parametrize(("offset", "end"), [(1, 0), (2, 2), (3, 2), (4, 2), (5, 5)])
def test_a_batch_that_holds_the_cut_goes_as_a_whole(
    log: PartitionLog, files: MemoryFiles, offset: int, end: int
) -> None:
    for values in ((b"0", b"1"), (b"2", b"3", b"4"), (b"5", b"6")):
        append(log, *values)
    log.truncate_to(offset, NOW_MS)
    assert log.log_end_offset == end
    assert append(log, b"new") == end, "a hole before it would be damage to the next start"
    log.close(is_clean=False)
    assert [at for at, _ in everything(opened(files))] == list(range(end + 1))


def test_what_a_truncation_removed_can_be_read_until_it_is_deleted(log: PartitionLog, files: MemoryFiles) -> None:
    three_segments(log)
    under_way = log.read(4, 1000, up_to="log_end").slice
    removed = log.truncate_to(1, NOW_MS)
    assert values_of(under_way.read()) == [b"4", b"5"]
    removed.remove(files)
    assert not [name for name in files.list_directory(DIRECTORY) if name.endswith(".deleted")]


def test_a_truncation_below_the_first_segment_starts_the_log_anew(log: PartitionLog) -> None:
    three_segments(log)
    log.delete_segments(list(log.segments)[:2], "test", NOW_MS)
    log.truncate_to(1, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)


def test_a_fully_truncated_log_starts_where_it_is_told(log: PartitionLog, files: MemoryFiles) -> None:
    three_segments(log)
    log.truncate_fully(100, NOW_MS).remove(files)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point) == (100, 100, 100, 0)
    assert (log.epochs.entries, dict(log.producers.entries)) == ((), {})
    assert append(log, b"a", producer=9, sequence=4) == 100


def test_the_log_start_moves_forward_only_up_to_the_high_watermark(log: PartitionLog) -> None:
    three_segments(log)
    log.update_high_watermark(5)
    assert log.advance_log_start(3)
    assert not log.advance_log_start(2)
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(6)
    assert (log.log_start_offset, log.epochs.earliest) == (3, (1, 3))
    assert [each.base_offset for each in log.segments_below_log_start()] == [0]
    assert [at for at, _ in everything(log)] == [3, 4, 5]


def test_deleting_segments_moves_the_log_start_and_keeps_producers(log: PartitionLog, files: MemoryFiles) -> None:
    three_segments(log)
    removed = log.delete_segments(list(log.segments)[:2], "retention", NOW_MS)
    assert log.log_start_offset == 4
    assert {name.rsplit(".", 1)[1] for name in files.list_directory(DIRECTORY) if name.startswith("0" * 19 + "2")} == {
        "deleted"
    }
    removed.remove(files)
    assert log.append_as_leader(batch(b"5", producer=7, sequence=5), leader_epoch=2, now_ms=NOW_MS).is_duplicate


def test_deleting_all_segments_leaves_an_empty_one_at_the_end(log: PartitionLog) -> None:
    three_segments(log)
    log.delete_segments(log.segments, "retention", NOW_MS)
    assert (log.segments.base_offsets, log.log_start_offset, log.log_end_offset) == ([6], 6, 6)
    assert log.delete_segments(log.segments, "retention", NOW_MS).segments == ()


def test_only_the_oldest_segments_can_be_deleted(log: PartitionLog) -> None:
    three_segments(log)
    with pytest.raises(ValueError, match="oldest"):
        log.delete_segments(list(log.segments)[1:2], "test", NOW_MS)


# --- swap ------------------------------------------------------------------------------------------------------------


def cleaned(log: PartitionLog, base_offset: int, *kept: tuple[int, bytes]) -> Segment:
    """What compaction would make: a segment with these records only."""
    made = Segment.create(log.files, DIRECTORY, base_offset, log.limits, now_ms=NOW_MS, suffix=".cleaned")
    for offset, value in kept:
        content = bytearray(batch(value))
        content[:8] = offset.to_bytes(8, "big")
        stream = next(iter(RecordStream(bytes(content))))
        made.append(offset, [stream], [content])
    return made


def test_compacted_segments_take_the_place_of_old_ones(log: PartitionLog, files: MemoryFiles) -> None:
    three_segments(log)
    old = list(log.segments)[:2]
    under_way = log.read(2, 1000, up_to="log_end").slice
    removed = log.replace_segments([cleaned(log, 0, (1, b"1"), (3, b"3"))], old)
    assert everything(log) == [(1, b"1"), (3, b"3"), (4, b"4"), (5, b"5")]
    assert values_of(under_way.read()) == [b"2", b"3"]
    removed.remove(files)
    assert not [name for name in files.list_directory(DIRECTORY) if name.count(".") > 1]
    log.close()
    again = opened(files, settings(cleanup_policy="compact"))
    assert everything(again) == [(1, b"1"), (3, b"3"), (4, b"4"), (5, b"5")]


def test_a_swap_that_makes_no_sense_is_refused(log: PartitionLog) -> None:
    three_segments(log)
    first, _, active = log.segments
    with pytest.raises(ValueError, match="active"):
        log.replace_segments([cleaned(log, 4)], [active])
    with pytest.raises(ValueError, match="reach beyond"):
        log.replace_segments([cleaned(log, 0, (2, b"2"))], [first])
    with pytest.raises(ValueError, match="named"):
        log.replace_segments([Segment.create(log.files, Path("/data"), 0, log.limits, now_ms=0)], [first])


# --- flush -----------------------------------------------------------------------------------------------------------


def test_a_flush_moves_the_flushed_offset_when_it_was_run(log: PartitionLog) -> None:
    append(log, b"a")
    job = log.flush_job()
    append(log, b"b")
    assert log.flushed_offset == 0
    job.run()
    log.flushed(job, NOW_MS + 5)
    assert (log.flushed_offset, log.recovery_point, log.end.last_flush_ms) == (1, 0, NOW_MS + 5)


def test_the_recovery_point_leaves_a_segment_only_when_all_of_it_is_synced(
    log: PartitionLog, files: MemoryFiles
) -> None:
    append(log, b"a")
    append(log, b"b")
    flush(log)
    assert (log.flushed_offset, log.recovery_point) == (2, 1)
    log.roll(NOW_MS)
    assert log.recovery_point == 1
    files.trace.clear()
    flush(log)
    assert log.recovery_point == 2
    synced = {each.path.name for each in files.trace if each.kind in ("sync", "sync_directory")}
    assert {"00000000000000000000.index", "00000000000000000000.timeindex", DIRECTORY.name} <= synced


def test_a_flush_of_a_growing_segment_syncs_its_records_alone(log: PartitionLog, files: MemoryFiles) -> None:
    append(log, b"a")
    flush(log)
    append(log, b"b")
    files.trace.clear()
    flush(log)
    assert [(each.kind, each.path.name) for each in files.trace] == [("sync", "00000000000000000000.log")]
    assert not log.flush_job()


def test_a_flush_from_before_a_truncation_counts_for_nothing(log: PartitionLog) -> None:
    append(log, b"a")
    flush(log)
    append(log, b"b")
    job = log.flush_job()
    log.truncate_to(1, NOW_MS)
    append(log, b"c")
    job.run()
    log.flushed(job, NOW_MS)
    assert log.flushed_offset == 1


def test_flush_settings_say_when_a_flush_is_due(log: PartitionLog) -> None:
    chosen = settings(flush_messages=10, flush_ms=500)
    given = {"last_flush_ms": 1000, "now_ms": 1400}
    assert flush_is_due(chosen, unflushed_records=10, **given)
    assert not flush_is_due(chosen, unflushed_records=9, **given)
    assert flush_is_due(chosen, unflushed_records=1, last_flush_ms=1000, now_ms=1500)
    assert not flush_is_due(chosen, unflushed_records=0, last_flush_ms=1000, now_ms=9500)
    log.settings = settings(flush_messages=2)
    append(log, b"a")
    assert not log.flush_is_due(NOW_MS)
    append(log, b"b")
    assert log.flush_is_due(NOW_MS)


# --- close, rename, delete -------------------------------------------------------------------------------------------


def test_a_cleanly_closed_log_is_opened_without_a_look_at_its_records(files: MemoryFiles) -> None:
    log = opened(files)
    three_segments(log)
    log.close()
    recovery_point = log.recovery_point
    assert recovery_point == 6
    files.crash("nothing")
    files.trace.clear()
    again = opened(files, is_clean=True, recovery_point=recovery_point)
    assert (again.log_end_offset, again.recovery_point) == (6, 6)
    assert not [each for each in files.trace if each.kind == "read" and each.path.suffix == ".log"]
    assert dict(again.producers.entries).keys() == {7}
    assert again.append_as_leader(batch(b"5", producer=7, sequence=5), leader_epoch=2, now_ms=NOW_MS).is_duplicate
    assert append(again, b"6", producer=7, sequence=6) == 6


def test_the_end_is_found_in_the_records_when_nobody_else_knows_it(files: MemoryFiles) -> None:
    log = opened(files)
    three_segments(log)
    log.close()
    assert opened(files, is_clean=True, recovery_point=0).log_end_offset == 6


def test_a_file_that_was_cut_after_a_clean_stop_is_recovered(files: MemoryFiles) -> None:
    log = opened(files)
    three_segments(log)
    log.close()
    records = files.open(DIRECTORY / "00000000000000000004.log")
    records.truncate(records.size() - 1)
    records.close()
    again = opened(files, is_clean=True, recovery_point=0)
    assert [at for at, _ in everything(again)] == [0, 1, 2, 3, 4]


def test_a_topic_id_is_assigned_once(log: PartitionLog, files: MemoryFiles) -> None:
    log.assign_topic_id(TOPIC_ID)
    log.assign_topic_id(TOPIC_ID)
    with pytest.raises(InconsistentTopicId):
        log.assign_topic_id(bytes(16))
    log.close()
    assert opened(files, is_clean=True).topic_id == TOPIC_ID


def test_a_deleted_log_is_renamed_first_and_can_be_read_meanwhile(log: PartitionLog, files: MemoryFiles) -> None:
    append(log, b"a")
    name = deleted_directory_name(PARTITION, "0123abcd")
    assert name == "orders-0.0123abcd-delete"
    log.rename_directory(name)
    assert everything(log) == [(0, b"a")]
    append(log, b"b")
    flush(log)
    log.delete()
    assert files.list_directory(DIRECTORY.parent) == []


def test_the_name_of_a_deleted_directory_fits_a_file_system() -> None:
    name = deleted_directory_name(TopicPartition("t" * 249, 12), "f" * 32)
    assert len(name) == 255
    assert name.endswith("-12." + "f" * 32 + "-delete")


def test_an_unclean_close_writes_nothing(log: PartitionLog, files: MemoryFiles) -> None:
    append(log, b"a")
    files.trace.clear()
    log.close(is_clean=False)
    assert {each.kind for each in files.trace} <= {"close"}


def test_rolling_where_a_segment_begins_is_a_fault(log: PartitionLog) -> None:
    append(log, b"a")
    log.end.log_end_offset = 0
    with pytest.raises(IllegalMove):
        log.roll(NOW_MS)


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_the_first_append_after_a_start_builds_a_damaged_index_anew(files: MemoryFiles, kind: str) -> None:
    log = opened(files)
    for number in range(20):
        append(log, b"%d" % number, timestamp_ms=number)
    log.close()
    index = files.open(DIRECTORY / f"00000000000000000000.{kind}")
    index.truncate(index.size() - 1)
    index.close()
    log = opened(files, is_clean=True, recovery_point=20)
    assert append(log, b"20", timestamp_ms=20) == 20
    assert [value for _, value in everything(log)] == [b"%d" % number for number in range(21)]
    found = log.offset_for_timestamp(20)
    assert found is not None
    assert found.offset == 20


def test_a_segment_rolls_by_the_index_it_was_made_with(files: MemoryFiles) -> None:
    log = opened(files, settings(segment_index_bytes=60, index_interval_bytes=0))
    log.settings = settings(segment_index_bytes=10 << 20, index_interval_bytes=4096)
    for _ in range(12):
        append(log, b"a")
    assert len(log.segments) == 2
