"""Snapshots of producer state: the bytes are Kafka's, damage is always noticed, files are kept as Kafka keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.implementation import crc32c
from ottla.storage.producers.entry import BatchMetadata, ProducerBatch, ProducerEntry
from ottla.storage.producers.snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
    list_snapshots,
    load_newest,
    mark_snapshot_deleted,
    remove_snapshot,
    remove_snapshots_before,
    remove_stray_snapshots,
    snapshot_path,
    take_snapshot,
    truncate_and_reload,
    truncate_fully,
)
from ottla.storage.producers.state import ProducerState
from ottla.testing.files import MemoryFiles

DIRECTORY = Path("/log")
NOW_MS = 1_700_000_000_000

# Written by org.apache.kafka.storage.internals.log.ProducerStateManager of Apache Kafka 4.3.1 (takeSnapshot) after:
# producer 1 two plain batches of 5; producer 2 an open transaction from offset 10, sequences 2147483645 to 1;
# producer 3 one record and a commit marker at 16 by coordinator 11, same epoch; producer 4 two records and an abort
# marker at 19 by coordinator 12 with the next epoch.
KAFKA_BYTES = bytes.fromhex(
    "000165c2cb8700000004"
    "00000000000000010000000000090000000000000009000000040000018bcfe56801ffffffffffffffffffffffff"
    "0000000000000002000700000001000000000000000e000000040000018bcfe56802ffffffff000000000000000a"
    "0000000000000003000300000000000000000000000f000000000000018bcfe568040000000bffffffffffffffff"
    "00000000000000040004ffffffffffffffffffffffff000000000000018bcfe568060000000cffffffffffffffff"
)
KAFKA_ENTRIES = [
    ProducerEntry(1, 0, -1, NOW_MS + 1, None, (BatchMetadata(9, 9, 4, NOW_MS + 1),)),
    ProducerEntry(2, 7, -1, NOW_MS + 2, 10, (BatchMetadata(1, 14, 4, NOW_MS + 2),)),
    ProducerEntry(3, 3, 11, NOW_MS + 4, None, (BatchMetadata(0, 15, 0, NOW_MS + 4),)),
    ProducerEntry(4, 4, 12, NOW_MS + 6, None, ()),
]

int64s = st.integers(0, 2**63 - 1)
entries = st.builds(
    lambda *facts: ProducerEntry(*facts[:5], (BatchMetadata(*facts[5:], facts[3]),) if facts[6] >= 0 else ()),
    int64s,
    st.integers(-1, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 2**63 - 1),
    st.none() | int64s,
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(0, 2**31 - 1),
)


@pytest.fixture
def files():
    made = MemoryFiles()
    made.make_directory(DIRECTORY)
    return made


def state_ending_at(offset, producer_id=1):
    state = ProducerState()
    state.replay([ProducerBatch(producer_id, 0, 0, 0, offset - 1, offset - 1, NOW_MS, False)], offset)
    return state


def put(files, *offsets):
    for offset in offsets:
        files.replace_bytes(snapshot_path(DIRECTORY, offset), encode_snapshot([ProducerEntry(offset, 0, -1, NOW_MS)]))


def load(files, log_start_offset=0, log_end_offset=2**62):
    state = ProducerState()
    bounds = {"log_start_offset": log_start_offset, "log_end_offset": log_end_offset}
    start = load_newest(state, files, DIRECTORY, now_ms=NOW_MS, **bounds)
    return start, list(state.entries)


# ---- bytes ----


def test_kafkas_own_snapshot_is_read_and_written_byte_for_byte():
    assert decode_snapshot(KAFKA_BYTES) == KAFKA_ENTRIES
    assert encode_snapshot(KAFKA_ENTRIES) == KAFKA_BYTES


@given(st.lists(entries, max_size=5))
def test_what_is_written_is_read_back(some):
    assert decode_snapshot(encode_snapshot(some)) == some


def test_a_transaction_may_begin_at_offset_0():
    entry = ProducerEntry(0, 0, 0, 0, 0, (BatchMetadata(0, 0, 0, 0),))
    assert decode_snapshot(encode_snapshot([entry])) == [entry]


def test_only_the_last_batch_is_kept():
    batches = tuple(BatchMetadata(n, n, 0, NOW_MS) for n in range(5))
    (entry,) = decode_snapshot(encode_snapshot([ProducerEntry(1, 0, -1, NOW_MS, None, batches)]))
    assert entry.batches == batches[-1:]


def test_every_cut_is_refused():
    for length in range(len(KAFKA_BYTES)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(KAFKA_BYTES[:length])


def test_every_flipped_bit_is_refused():
    for bit in range(len(KAFKA_BYTES) * 8):
        damaged = bytearray(KAFKA_BYTES)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(damaged))


@pytest.mark.parametrize("body", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x01", b"\x00\x00\x00\x00x", b"\x7f\xff\xff\xff"])
def test_a_count_that_the_bytes_do_not_bear_out_is_refused(body):
    with pytest.raises(CorruptSnapshot, match="claims"):
        decode_snapshot(b"\x00\x01" + crc32c(body).to_bytes(4, "big") + body)


# ---- files ----


def test_a_snapshot_is_taken_once_per_offset(files):
    state = state_ending_at(42)
    assert take_snapshot(state, files, DIRECTORY) == 42
    assert take_snapshot(state, files, DIRECTORY) is None
    assert files.list_directory(DIRECTORY) == ["00000000000000000042.snapshot"]
    files.crash()
    assert load(files) == (42, [1])


def test_names_that_are_not_snapshots_are_left_alone(files):
    put(files, 7)
    for name in ["7.snapshot", "0000000000000000000x.snapshot", "00000000000000000007.snapshot.deleted", "a.log"]:
        files.replace_bytes(DIRECTORY / name, b"")
    assert list_snapshots(files, DIRECTORY) == [7]


def test_the_newest_at_or_below_the_end_is_loaded(files):
    put(files, 5, 10, 15)
    assert load(files, log_end_offset=14) == (10, [10])
    assert load(files, log_end_offset=15) == (15, [15])


def test_damaged_snapshots_are_removed_and_the_one_before_is_taken(files):
    put(files, 5, 10, 15)
    files.flip_bit(snapshot_path(DIRECTORY, 15), 99)
    files.replace_bytes(snapshot_path(DIRECTORY, 10), b"")
    assert load(files) == (5, [5])
    assert list_snapshots(files, DIRECTORY) == [5]


def test_without_a_snapshot_the_log_is_replayed_from_its_start(files):
    assert load(files, log_start_offset=3) == (3, [])


def test_truncation_drops_what_is_outside_and_goes_back(files):
    put(files, 5, 10, 15, 20)
    state = state_ending_at(20)
    start = truncate_and_reload(state, files, DIRECTORY, log_start_offset=5, log_end_offset=17, now_ms=NOW_MS)
    assert (start, list(state.entries), list_snapshots(files, DIRECTORY)) == (15, [15], [10, 15])
    state = state_ending_at(20)
    start = truncate_and_reload(state, files, DIRECTORY, log_start_offset=5, log_end_offset=15, now_ms=NOW_MS)
    assert (start, list_snapshots(files, DIRECTORY)) == (15, [10, 15])


def test_truncation_that_moves_no_end_keeps_the_state(files):
    put(files, 5, 10)
    state = state_ending_at(20)
    start = truncate_and_reload(state, files, DIRECTORY, log_start_offset=7, log_end_offset=20, now_ms=NOW_MS)
    assert (start, list(state.entries), list_snapshots(files, DIRECTORY)) == (20, [1], [10])
    assert state.snapshot_offset == 10


def test_full_truncation_forgets_everything(files):
    put(files, 5, 10)
    state = state_ending_at(20)
    truncate_fully(state, files, DIRECTORY, 33)
    assert (list(state.entries), list_snapshots(files, DIRECTORY), state.end_offset) == ([], [], 33)


@pytest.mark.parametrize(
    ("found", "segments", "kept"),
    [
        ([0, 5, 10], [0, 5, 10], [0, 5, 10]),
        ([0, 3, 5, 7], [0, 5], [0, 5, 7]),
        ([0, 3, 5, 7, 9], [0, 5], [0, 5, 9]),
        ([3, 4], [0, 5], []),
        ([3, 4], [], [4]),
        ([0], [], [0]),
        ([], [0], []),
    ],
)
def test_strays_go_except_the_one_a_clean_stop_left(files, found, segments, kept):
    put(files, *found)
    remove_stray_snapshots(files, DIRECTORY, segments)
    assert list_snapshots(files, DIRECTORY) == kept


def test_snapshots_before_an_offset_go(files):
    put(files, 5, 10, 15)
    remove_snapshots_before(files, DIRECTORY, 10)
    assert list_snapshots(files, DIRECTORY) == [10, 15]


def test_a_snapshot_that_is_gone_already_may_be_removed_again(files):
    put(files, 5)
    remove_snapshot(files, DIRECTORY, 5)
    remove_snapshot(files, DIRECTORY, 5)
    assert list_snapshots(files, DIRECTORY) == []


def test_a_snapshot_can_be_set_aside(files):
    put(files, 5)
    assert mark_snapshot_deleted(files, DIRECTORY, 5) == DIRECTORY / "00000000000000000005.snapshot.deleted"
    assert list_snapshots(files, DIRECTORY) == []
    assert mark_snapshot_deleted(files, DIRECTORY, 5) is None


def test_the_order_of_the_last_append_survives(files):
    state = ProducerState(id_limit=2)
    for offset, producer_id in enumerate([1, 2]):
        state.replay([ProducerBatch(producer_id, 0, 0, 0, offset, offset, NOW_MS, False)], offset + 1)
    state.replay([ProducerBatch(1, 0, 1, 1, 2, 2, NOW_MS, False)], 3)
    take_snapshot(state, files, DIRECTORY)
    again = ProducerState(id_limit=2)
    load_newest(again, files, DIRECTORY, log_start_offset=0, log_end_offset=3, now_ms=NOW_MS)
    again.replay([ProducerBatch(3, 0, 0, 0, 3, 3, NOW_MS, False)], 4)
    assert list(again.entries) == [1, 3]
