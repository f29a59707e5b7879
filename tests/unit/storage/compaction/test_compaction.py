"""Compaction of a log: what stays, what goes, when, and what a crash on the way leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import DiskFull, KafkaStorageError
from ottla.records import BatchBuilder, Compression, RecordBatch, RecordStream
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.storage.compaction.cleaner import Cleaner, Progress
from ottla.storage.compaction.cleaner_plan import CleanerSettings
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DIRECTORY = Path("/data/t-0")
PARTITION = TopicPartition("t", 0)
NOW_MS = 10_000_000
RETENTION_MS = 1000
SETTINGS = TopicSettings(
    {
        "cleanup.policy": "compact",
        "internal.segment.bytes": 4096,
        "segment.index.bytes": 1200,
        "index.interval.bytes": 100,
        "min.cleanable.dirty.ratio": 0,
        "delete.retention.ms": RETENTION_MS,
    }
)


class Bench:
    """A compacted log with a cleaner, and producers that count their sequences."""

    def __init__(self, files: MemoryFiles | None = None, settings: TopicSettings = SETTINGS, **cleaner: object) -> None:
        self.files = files or MemoryFiles()
        self.files.make_directory(DIRECTORY.parent)
        self.files.sync_directory(Path("/"))
        self.now_ms = NOW_MS
        self.sequences: dict[int, int] = {}
        self.log = self.opened(settings)
        self.logs = {PARTITION: self.log}
        self.cleaner = Cleaner(CleanerSettings(**cleaner), self.logs, {})  # type: ignore[arg-type]

    def opened(self, settings: TopicSettings = SETTINGS, **given: object) -> PartitionLog:
        options: dict[str, object] = {"is_clean": False, "verification_required": False, **given}
        return open_log(DIRECTORY, PARTITION, settings, files=self.files, now_ms=self.now_ms, **options)  # type: ignore[arg-type]

    def append(self, *records: tuple[bytes | None, bytes | None], producer: int = -1, **how: object) -> int:
        sequence = self.sequences.get(producer, 0)
        builder = BatchBuilder(
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else 0,
            base_sequence=-1 if producer < 0 else sequence,
            **how,  # type: ignore[arg-type]
        )
        for key, value in records:
            builder.append(self.now_ms, key, value)
        self.sequences[producer] = sequence + len(records)
        done = self.log.append_as_leader(
            bytearray(builder.close()), leader_epoch=3, now_ms=self.now_ms, origin=AppendOrigin.CLIENT
        )
        self.log.update_high_watermark(self.log.log_end_offset)
        return done.first_offset

    def end(self, producer: int, *, commit: bool) -> int:
        marker = EndTransactionMarker(commit=commit, coordinator_epoch=0)
        content = end_transaction_batch(marker, producer_id=producer, producer_epoch=0, timestamp_ms=self.now_ms)
        done = self.log.append_as_leader(
            content, leader_epoch=3, now_ms=self.now_ms, origin=AppendOrigin.COORDINATOR, transaction_version=1
        )
        self.log.update_high_watermark(self.log.log_end_offset)
        return done.first_offset

    def roll(self) -> None:
        self.log.roll(self.now_ms)
        job = self.log.flush_job()
        job.run()
        self.log.flushed(job, self.now_ms)

    def clean(self, passes: int = 100) -> list[Progress]:
        """Roll, then let the cleaner run until it has nothing to do; gives the ends of its passes."""
        self.roll()
        ended: list[Progress] = []
        for _ in range(10_000):
            progress = self.cleaner.step(self.now_ms)
            for removed in progress.removed:
                removed.remove(self.files)
            if progress.clean_offset is not None or progress.stopped:
                ended.append(progress)
            if progress.is_idle or len(ended) >= passes:
                return ended
        raise AssertionError("the cleaner does not come to an end")

    def batches(self, log: PartitionLog | None = None) -> list[RecordBatch]:
        found: list[RecordBatch] = []
        for segment in (log or self.log).segments:
            for batch in RecordStream(segment.records.file.read_at(0, segment.size_bytes)):
                batch.check()
                found.append(batch)
        return found

    def rows(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [
            (record.offset, record.key, record.value)
            for batch in self.batches()
            if not batch.is_control
            for record in batch.records()
        ]

    def committed(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """What a reader of committed records gets, by the reads and the rules of a consumer."""
        return committed(self.log)

    def content(self) -> list[bytes]:
        return [segment.records.file.read_at(0, segment.size_bytes) for segment in self.log.segments]


def committed(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    found: list[tuple[int, bytes | None, bytes | None]] = []
    offset = log.log_start_offset
    while True:
        answer = log.read(offset, 700, up_to="last_stable")
        before = offset
        waiting = sorted(answer.aborted or [], key=lambda each: each.first_offset)
        aborted: set[int] = set()
        for batch in RecordStream(answer.slice.read()):
            batch.check()
            while waiting and waiting[0].first_offset <= batch.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            if batch.is_control:
                aborted.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborted):
                found += [(each.offset, each.key, each.value) for each in batch.records() if each.offset >= offset]
            offset = batch.next_offset
        if offset == before:
            return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- records ---------------------------------------------------------------------------------------------------------


def test_only_the_last_value_of_a_key_stays_at_its_offset(bench: Bench) -> None:
    for number in range(5):
        bench.append((b"a", b"%d" % number), (b"b", b"%d" % number))
    (ended,) = bench.clean()
    assert ended.clean_offset == 10
    assert bench.rows() == [(8, b"a", b"4"), (9, b"b", b"4")]


def test_the_active_segment_is_not_touched(bench: Bench) -> None:
    bench.append((b"a", b"1"))
    bench.roll()
    bench.append((b"a", b"2"), (b"a", b"3"))
    bench.cleaner.step(NOW_MS)
    assert bench.rows() == [(0, b"a", b"1"), (1, b"a", b"2"), (2, b"a", b"3")]


def test_nothing_above_the_high_watermark_is_cleaned(bench: Bench) -> None:
    bench.append((b"a", b"1"))
    bench.append((b"a", b"2"))
    bench.roll()
    bench.log.update_high_watermark(1)
    assert bench.cleaner.step(NOW_MS).is_idle
    bench.log.update_high_watermark(2)
    assert bench.clean()
    assert bench.rows() == [(1, b"a", b"2")]


def test_nothing_that_is_not_flushed_is_cleaned_and_the_cleaner_says_so(bench: Bench) -> None:
    bench.append((b"a", b"1"), (b"a", b"2"))
    bench.log.roll(NOW_MS)
    progress = bench.cleaner.step(NOW_MS)
    assert (progress.is_idle, progress.flush_wanted) == (True, (PARTITION,))
    assert bench.clean()
    assert bench.cleaner.step(NOW_MS).flush_wanted == ()


@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_keeps_its_codec(bench: Bench, codec: Compression) -> None:
    bench.append((b"a", b"x" * 100), (b"b", b"y" * 100), (b"c", b"z"), compression=codec)
    bench.append((b"a", b"2"), compression=codec)
    bench.clean()
    assert bench.rows() == [(1, b"b", b"y" * 100), (2, b"c", b"z"), (3, b"a", b"2")]
    assert [batch.compression for batch in bench.batches()] == [codec, codec]


def test_records_without_a_key_go(bench: Bench) -> None:
    log = bench.log
    log.settings = log.settings.for_topic({"cleanup.policy": "delete"})
    bench.append((None, b"1"), (b"a", b"1"))
    log.settings = SETTINGS
    bench.clean()
    assert bench.rows() == [(1, b"a", b"1")]


def test_segments_that_shrank_are_put_together(bench: Bench) -> None:
    for number in range(40):
        bench.append((b"a", b"%d" % number * 100), (b"b%d" % number, b"%d" % number))
        if number % 4 == 3:
            bench.roll()
    (ended,) = bench.clean()
    assert ended.counts is not None
    assert ended.counts.segments_before > ended.counts.segments_after
    bench.append((b"a", b"last"))
    bench.clean()
    assert len(bench.log.segments) < 4
    assert len(bench.rows()) == 41


def test_an_empty_result_still_ends_where_it_ended(bench: Bench) -> None:
    bench.append((b"a", b"1"))
    bench.roll()
    bench.append((b"a", b"2"))
    bench.clean()
    assert bench.log.log_end_offset == 2
    assert bench.opened().log_end_offset == 2
    bench.log.close()


def test_indexes_of_a_cleaned_segment_find_its_batches(bench: Bench) -> None:
    for number in range(60):
        bench.now_ms += 10
        bench.append((b"%d" % (number % 30), b"x" * 50))
    bench.clean()
    assert sum(len(segment.indexes.offsets) for segment in bench.log.segments) > 10
    for offset in range(30, 60):
        found = RecordBatch(bench.log.read(offset, 1).slice.read())
        assert found.base_offset == offset
    assert bench.log.offset_for_timestamp(NOW_MS + 10 * 45).offset == 44


# --- tombstones ------------------------------------------------------------------------------------------------------


def test_a_tombstone_stays_for_delete_retention_ms_after_it_was_first_cleaned(bench: Bench) -> None:
    bench.append((b"a", b"1"))
    bench.append((b"a", None))
    bench.clean()
    assert bench.rows() == [(1, b"a", None)]
    assert bench.batches()[0].has_delete_horizon
    assert bench.batches()[0].base_timestamp_ms == NOW_MS + RETENTION_MS

    bench.now_ms += RETENTION_MS - 1
    bench.append((b"b", b"1"))
    bench.clean()
    assert bench.rows() == [(1, b"a", None), (2, b"b", b"1")]

    bench.now_ms += 1
    bench.append((b"c", b"1"))
    bench.clean()
    assert bench.rows() == [(2, b"b", b"1"), (3, b"c", b"1")]


# --- producers and transactions --------------------------------------------------------------------------------------


def test_the_last_batch_of_a_producer_stays_as_a_header_and_its_sequence_survives_a_crash(bench: Bench) -> None:
    bench.append((b"a", b"1"), (b"a", b"2"), producer=7)
    bench.append((b"a", b"3"), producer=8)
    bench.clean()
    bench.append((b"a", b"4"), producer=8)
    bench.clean()
    empty = bench.batches()[0]
    assert (empty.producer_id, empty.record_count, empty.base_sequence, empty.last_sequence) == (7, 0, 0, 1)
    for path in bench.files.list_directory(DIRECTORY):
        if path.endswith(".snapshot"):
            bench.files.remove(DIRECTORY / path)
    again = bench.opened(recovery_point=0)
    assert again.producers.entries[7].last_sequence == 1
    assert again.producers.entries[8].last_sequence == 1


def test_an_empty_batch_goes_when_its_producer_has_written_again(bench: Bench) -> None:
    bench.append((b"a", b"1"), producer=7)
    bench.append((b"a", b"2"), producer=8)
    bench.clean()
    bench.append((b"b", b"3"), producer=7)
    bench.clean()
    assert [(batch.producer_id, batch.record_count) for batch in bench.batches()] == [(8, 1), (7, 1)]


def test_records_of_aborted_transactions_go_and_do_not_hide_committed_ones(bench: Bench) -> None:
    bench.append((b"a", b"1"), producer=1, transactional=True)
    bench.end(1, commit=True)
    bench.append((b"a", b"no"), (b"b", b"no"), producer=2, transactional=True)
    bench.end(2, commit=False)
    bench.append((b"c", b"3"))
    bench.clean()
    assert bench.committed() == [(0, b"a", b"1"), (5, b"c", b"3")]
    assert bench.rows() == [(0, b"a", b"1"), (5, b"c", b"3")]


def test_an_open_transaction_holds_the_cleaner_back(bench: Bench) -> None:
    bench.append((b"a", b"1"))
    bench.roll()
    bench.append((b"a", b"2"), producer=1, transactional=True)
    bench.clean()
    assert bench.rows() == [(0, b"a", b"1"), (1, b"a", b"2")]
    bench.end(1, commit=True)
    bench.clean()
    assert bench.rows() == [(1, b"a", b"2")]


def test_a_commit_marker_goes_after_its_records_and_a_horizon(bench: Bench) -> None:
    bench.append((b"a", b"1"), producer=1, transactional=True)
    bench.end(1, commit=True)
    bench.append((b"a", b"2"))
    bench.append((b"z", b"0"), producer=1, transactional=True)
    bench.end(1, commit=True)
    markers = lambda: [(each.base_offset, each.has_delete_horizon) for each in bench.batches() if each.is_control]  # noqa: E731
    bench.clean()
    assert markers() == [(1, False), (4, False)]  # a batch of the first transaction was met, and went
    bench.append((b"b", b"1"))
    bench.clean()
    assert markers() == [(1, True), (4, False)]
    bench.now_ms += RETENTION_MS
    bench.append((b"b", b"2"))
    bench.clean()
    assert markers() == [(4, False)]


def test_an_abort_marker_and_its_index_entry_go_after_the_records(bench: Bench) -> None:
    bench.append((b"a", b"no"), producer=1, transactional=True)
    bench.end(1, commit=False)
    bench.append((b"z", b"1"), producer=1)
    bench.clean()
    assert [each.last_offset for each in bench.log.aborted_transactions(0, 99)] == [1]
    bench.append((b"b", b"1"))
    bench.clean()
    assert bench.log.aborted_transactions(0, 99) == []
    assert [each.has_delete_horizon for each in bench.batches() if each.is_control] == [True]
    bench.now_ms += RETENTION_MS
    bench.append((b"b", b"2"))
    bench.clean()
    assert [each for each in bench.batches() if each.is_control] == []


def test_a_transaction_over_groups_of_segments_is_known_in_all_of_them(bench: Bench) -> None:
    for number in range(12):
        bench.append((b"k%d" % number, b"x" * 900), producer=1, transactional=True)
        bench.append((b"p%d" % number, b"x" * 900))
    bench.end(1, commit=False)
    bench.append((b"z", b"1"))
    assert len(bench.log.segments) > 4
    bench.clean()
    assert [key for _, key, _ in bench.committed()] == [*(b"p%d" % number for number in range(12)), b"z"]
    assert bench.rows() == bench.committed()


def test_a_marker_in_a_segment_that_is_not_cleaned_decides_all_the_same(bench: Bench) -> None:
    bench.append((b"a", b"1"))
    bench.append((b"a", b"no"), producer=1, transactional=True)
    bench.append((b"b", b"x" * 10))
    bench.roll()
    bench.append((b"open", b"?"), producer=2, transactional=True)
    bench.end(1, commit=False)
    bench.clean()
    assert bench.committed() == [(0, b"a", b"1"), (2, b"b", b"x" * 10)]


def test_the_epoch_of_a_producer_that_only_has_a_marker_stays(bench: Bench) -> None:
    bench.append((b"a", b"1"), producer=1, transactional=True)
    marker = EndTransactionMarker(commit=True, coordinator_epoch=0)
    content = end_transaction_batch(marker, producer_id=1, producer_epoch=5, timestamp_ms=NOW_MS)
    bench.log.append_as_leader(
        content, leader_epoch=3, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR, transaction_version=1
    )
    bench.append((b"a", b"2"))
    for _ in range(4):
        bench.clean()
        bench.now_ms += RETENTION_MS
        bench.append((b"b", b"1"))
    (marker_batch,) = [batch for batch in bench.batches() if batch.is_control]
    assert (marker_batch.producer_epoch, marker_batch.record_count) == (5, 0)


# --- passes ----------------------------------------------------------------------------------------------------------


def test_a_small_key_map_takes_several_passes_and_comes_to_the_same() -> None:
    small, large = Bench(dedupe_buffer_bytes=24 * 5, io_buffer_bytes=300), Bench()
    for bench in (small, large):
        for number in range(200):
            bench.append((b"%d" % (number % 23), b"%d" % number), (b"x", b"%d" % number))
        bench.clean()
    assert len(small.clean(0)) == 0
    assert small.rows() == large.rows()
    assert [offset for offset, *_ in small.rows()] == [*range(354, 398, 2), *[398, 399]]


def test_cleaning_what_is_clean_changes_nothing(bench: Bench) -> None:
    for number in range(30):
        bench.append((b"%d" % (number % 7), b"%d" % number), producer=1)
    bench.append((b"3", None))
    bench.clean()
    before = bench.content()
    bench.cleaner.clean_offsets.clear()
    assert bench.clean()
    assert bench.content() == before


def test_the_checkpoint_starts_anew_when_it_lies_outside_of_the_log(bench: Bench) -> None:
    bench.append((b"a", b"1"), (b"a", b"2"))
    bench.cleaner.clean_offsets[PARTITION] = 50
    bench.clean()
    assert bench.rows() == [(1, b"a", b"2")]
    assert bench.cleaner.clean_offsets == {PARTITION: 2}


def test_a_truncation_lowers_the_checkpoint(bench: Bench) -> None:
    bench.cleaner.clean_offsets[PARTITION] = 50
    bench.cleaner.truncated(PARTITION, 60)
    assert bench.cleaner.clean_offsets[PARTITION] == 50
    bench.cleaner.truncated(PARTITION, 20)
    assert bench.cleaner.clean_offsets[PARTITION] == 20
    bench.cleaner.forget(PARTITION)
    assert bench.cleaner.clean_offsets == {}


def leftovers(bench: Bench) -> list[str]:
    return [name for name in bench.files.list_directory(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize("change", ["truncate", "delete", "close", "abort"])
def test_a_pass_is_given_up_when_the_log_changes_under_it(change: str) -> None:
    bench = Bench(io_buffer_bytes=200)
    for number in range(20):
        bench.append((b"a", b"%d" % number))
    bench.roll()
    bench.append((b"a", b"more"))
    for steps in range(3, 30):
        work = None
        for _ in range(steps):
            work = bench.cleaner.prepare(NOW_MS)
            if work is None:
                break
            work.run()
            bench.cleaner.complete(work, NOW_MS)
        if leftovers(bench):
            break
    work = bench.cleaner.prepare(NOW_MS)
    assert work is not None
    if change == "truncate":
        bench.log.truncate_to(20, NOW_MS)
    elif change == "delete":
        removed = bench.log.delete_segments([bench.log.segments.first], "test", NOW_MS)
        removed.remove(bench.files)
    elif change == "close":
        bench.log.close()
    else:
        bench.cleaner.abort(PARTITION)
    if change != "abort":
        work.run()
    progress = bench.cleaner.complete(work, NOW_MS)
    assert progress.stopped
    assert progress.clean_offset is None
    assert leftovers(bench) == []
    assert bench.cleaner.clean_offsets == {}


def test_a_damaged_log_is_left_alone_and_its_damage_gets_no_new_sum(bench: Bench) -> None:
    bench.append((b"a", b"1"), (b"a", b"2"))
    bench.append((b"a", b"3"))
    bench.roll()
    bench.files.flip_bit(bench.log.segments.first.path, 8 * 70)
    before = bench.content()
    (ended,) = bench.clean()
    assert "CRC" in (ended.stopped or "")
    assert PARTITION in bench.cleaner.uncleanable
    assert bench.cleaner.step(NOW_MS).is_idle
    assert bench.content() == before


def test_a_full_disk_puts_the_pass_off_and_any_other_error_is_raised(bench: Bench) -> None:
    for number in range(20):
        bench.append((b"%d" % number, b"x" * 100))
    bench.roll()
    before = bench.content()
    bench.files.fill(500)
    progress = Progress(PARTITION)
    while not progress.stopped:
        progress = bench.cleaner.step(NOW_MS)
        assert not progress.is_idle
    assert progress.wait_ms == 15_000
    assert leftovers(bench) == []
    assert bench.content() == before
    bench.files.fill(1 << 20)
    bench.files.fail(lambda each: each.kind == "write" and ".cleaned" in each.path.name)
    with pytest.raises(KafkaStorageError) as raised:
        bench.clean()
    assert not isinstance(raised.value, DiskFull)
    assert bench.clean()


def test_the_cleaner_says_how_long_to_wait() -> None:
    bench = Bench(io_max_bytes_per_second=1000.0)
    for number in range(20):
        bench.append((b"%d" % number, b"x" * 100))
    bench.roll()
    first = bench.cleaner.step(NOW_MS)
    assert first.moved_bytes > 2000
    assert first.wait_ms == first.moved_bytes


def test_a_cleaned_segment_keeps_the_time_of_the_last_file_it_was_made_from(bench: Bench) -> None:
    bench.append((b"a", b"1"))
    bench.roll()
    bench.append((b"b", b"1"))
    bench.roll()
    for number, segment in enumerate(list(bench.log.segments)[:2]):
        bench.files.set_modified_ms(segment.path, 1000 + number)
    bench.clean()
    assert bench.files.modified_ms(bench.log.segments.first.path) == 1001
