"""Batches that came together: in the log as if they had come one by one, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import BrokerError, DiskFull
from ottla.records import BatchBuilder
from ottla.records.implementation import CHOSEN
from ottla.storage.log.partition_log import open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

NOW_MS = 1_700_000_000_000
EPOCH = 3

pytestmark = pytest.mark.skipif(CHOSEN == "python", reason="the Python twin takes every batch step by step")


def batch_of(count=2, *, size=20, timestamp_ms=NOW_MS, **how):
    builder = BatchBuilder(size_limit_bytes=1 << 20, **how)
    for number in range(count):
        builder.append(timestamp_ms + number, None, bytes([number]) * size, ())
    return bytearray(builder.close())


def produced(sequence, count=2, *, producer_id=7, epoch=0):
    return batch_of(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def make_log(**settings):
    files = MemoryFiles()
    log = open_log(
        Path("/data/orders-0"),
        TopicPartition("orders", 0),
        TopicSettings(settings),
        files=files,
        now_ms=NOW_MS,
        is_clean=True,
    )
    log.append_as_leader(batch_of(1), leader_epoch=EPOCH, now_ms=NOW_MS)
    return log


def append_run(log, *batches):
    return log.append_run([memoryview(each) for each in batches], leader_epoch=EPOCH, now_ms=NOW_MS)


def one_by_one(log, *batches):
    return [log.append_as_leader(memoryview(each), leader_epoch=EPOCH, now_ms=NOW_MS) for each in batches]


def all_of(log):
    """Everything that a log is made of, told from outside."""
    segments = [
        (
            each.base_offset,
            each.records.file.read_at(0, each.size_bytes),
            list(each.indexes.offsets._keys),
            list(each.indexes.offsets._values),
            list(each.indexes.times._keys),
            each.max_timestamp,
        )
        for each in log.segments
    ]
    producers = list(log.producers.entries.items()), log.producers.end_offset
    return segments, producers, log.log_end_offset, log.high_watermark


def test_a_run_gets_the_next_offsets_in_order():
    log = make_log()
    results = append_run(log, batch_of(2), batch_of(3), batch_of(1))
    assert [(each.first_offset, each.last_offset) for each in results] == [(1, 2), (3, 5), (6, 6)]
    assert {each.leader_epoch for each in results} == {EPOCH}
    assert log.log_end_offset == 7


def test_a_run_is_one_write():
    log = make_log()
    writes = []
    file = log.active.records.file
    write_at = file.write_at

    class Counting:
        def __getattr__(self, name):
            return getattr(file, name)

        def write_at(self, position, buffers):
            writes.append(len(buffers))
            return write_at(position, buffers)

    log.active.records.file = Counting()
    append_run(log, batch_of(), batch_of(), batch_of())
    assert writes == [3]


@pytest.mark.parametrize(
    "batches",
    [
        (batch_of(), bytearray(b"rubbish")),
        (batch_of(), produced(0)),  # nobody knows this producer yet
        (produced(0), produced(2)),  # nobody knows this producer yet
        (batch_of(), bytes(batch_of())),
    ],
    ids=["broken", "new producer behind another", "new producer", "cannot be written into"],
)
def test_what_is_no_run_is_left_as_it_was(batches):
    log = make_log()
    before, bytes_before = all_of(log), [bytes(each) for each in batches]
    assert append_run(log, *batches) is None
    assert all_of(log) == before
    # The leader epoch is outside the sum and is given anew.
    assert [bytes(each[:12]) + bytes(each[16:]) for each in batches] == [each[:12] + each[16:] for each in bytes_before]


def test_a_producer_goes_on_within_a_run():
    log = make_log()
    one_by_one(log, produced(0))
    results = append_run(log, produced(2), produced(4, 1), produced(5))
    assert [each.first_offset for each in results] == [3, 5, 6]
    assert log.producers.entries[7].last_sequence == 6


def test_any_number_of_producers_go_on_within_a_run():
    log = make_log()
    one_by_one(log, produced(0), produced(0, producer_id=8), produced(0, producer_id=9))
    run = [produced(2, 1), produced(2, producer_id=8), batch_of(1), produced(3, 1), produced(2, 1, producer_id=9)]
    assert [each.first_offset for each in append_run(log, *run)] == [7, 8, 10, 11, 12]
    entries = log.producers.entries
    assert {number: entry.last_sequence for number, entry in entries.items()} == {7: 3, 8: 3, 9: 2}
    assert list(entries) == [8, 7, 9], "in the order of their last append"


@pytest.mark.parametrize(
    "run",
    [
        (produced(2), produced(2)),
        (produced(0), produced(2)),
        (produced(2), produced(5)),
        (produced(2), produced(4, producer_id=8)),
        (produced(2), produced(4, epoch=1)),
        (batch_of(), produced(3)),
    ],
    ids=["repeated", "repeats the log", "gap", "one is new", "two epochs", "gap behind a batch without a producer"],
)
def test_a_producer_that_does_not_simply_go_on_is_no_run(run):
    log = make_log()
    one_by_one(log, produced(0))
    before = all_of(log)
    assert append_run(log, *run) is None
    assert all_of(log) == before


def test_a_new_leader_epoch_is_no_run():
    log = make_log()
    run = [memoryview(batch_of()), memoryview(batch_of())]
    assert log.append_run(run, leader_epoch=EPOCH + 1, now_ms=NOW_MS) is None


def test_a_run_that_does_not_fit_the_segment_goes_one_by_one():
    log = make_log(**{"segment.bytes": 1 << 20, "internal.segment.bytes": 400})
    assert append_run(log, batch_of(), batch_of(), batch_of(), batch_of()) is None
    assert len(log.segments) == 1


def test_a_run_without_room_on_the_disk_has_not_happened():
    files = MemoryFiles()
    log = open_log(
        Path("/data/orders-0"),
        TopicPartition("orders", 0),
        TopicSettings({}),
        files=files,
        now_ms=NOW_MS,
        is_clean=True,
    )
    one_by_one(log, batch_of(1), produced(0))
    before = all_of(log)
    files.fill(free_bytes=100)
    with pytest.raises(DiskFull):
        append_run(log, produced(2), produced(4))
    assert all_of(log) == before


kinds = st.sampled_from(["plain", "go on", "go on", "repeat", "gap", "other", "other", "broken", "too late"])


@given(st.lists(st.lists(st.tuples(kinds, st.integers(1, 4)), min_size=1, max_size=4), max_size=5))
def test_runs_leave_the_log_that_one_by_one_leaves(runs):
    together, apart = make_log(**{"index.interval.bytes": 100}), make_log(**{"index.interval.bytes": 100})
    sequence, sequence_of_other = 0, 0
    for run in runs:
        batches = []
        for kind, count in run:
            if kind == "plain":
                batches.append(batch_of(count))
            elif kind == "broken":
                batches.append(batch_of(count)[:-1])
            elif kind == "too late":
                batches.append(batch_of(count, timestamp_ms=NOW_MS + 10**9))
            elif kind == "other":
                batches.append(produced(sequence_of_other, count, producer_id=9))
                sequence_of_other += count
            else:
                shift = {"go on": 0, "repeat": -count, "gap": 3}[kind]
                batches.append(produced(max(0, sequence + shift), count))
                sequence = max(0, sequence + shift) + count if kind == "go on" else sequence
        copies = [bytearray(each) for each in batches]
        results = append_run(together, *batches)
        if results is None:
            results = [outcome(together, each) for each in batches]
        assert results == [outcome(apart, each) for each in copies]
        assert all_of(together) == all_of(apart)


def outcome(log, batch):
    try:
        return log.append_as_leader(memoryview(batch), leader_epoch=EPOCH, now_ms=NOW_MS)
    except BrokerError as error:
        return type(error), str(error)
