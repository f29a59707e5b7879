"""The walks of compaction: what they do, and that the native one does the same as its readable twin."""

from __future__ import annotations

import sys
import threading
import time
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptMessage
from ottla.records import BatchBuilder, Compression, RecordBatch, RecordStream, compaction
from ottla.records.compaction import KeepRules, empty_batch
from ottla.records.layout import HEADER_BYTES

try:
    from ottla.records import _compaction as native
except ImportError:
    native = None

NOW_MS = 1_000_000
HORIZON_MS = 2_000_000
ALL = 2**62


@pytest.fixture(params=["python", "native"])
def twin(request):
    if request.param == "python":
        return compaction
    if native is None:
        pytest.skip("ottla.records._compaction is not built: that needs a C compiler")
    return native


@pytest.fixture
def both():
    if native is None:
        pytest.skip("ottla.records._compaction is not built: that needs a C compiler")
    return compaction, native


def batch(*some, base_offset=0, **how):
    """A batch of (key, value) or (key, value, timestamp) at consecutive offsets."""
    builder = BatchBuilder(base_offset=base_offset, size_limit_bytes=2**31 - 1, **how)
    for key, value, *time_ms in some:
        builder.append(time_ms[0] if time_ms else NOW_MS, key, value, [("h", b"x")])
    return builder.close()


def rules(latest_offset=ALL, now_ms=NOW_MS, kept=()):
    return KeepRules(latest_offset, now_ms, HORIZON_MS, array("q", sorted(kept)))


def known(twin, content, slots=100):
    table = twin.KeyTable(slots)
    twin.index_batches(table, slots, content, 0, 0)
    return table


def kept(twin, content, table=None, **how):
    found = twin.filter_batches(table or known(twin, content), rules(**how), content, 0)
    assert found.position == len(content)
    for each in RecordStream(found.batches):
        each.check()
    return found.batches


def rows(content):
    return [(record.offset, record.key, record.value) for each in RecordStream(content) for record in each.records()]


# --- the table -------------------------------------------------------------------------------------------------------


def test_a_table_knows_the_offset_it_was_told_last(twin):
    table = twin.KeyTable(8)
    table.put(b"a", 3)
    table.put(b"b", 4)
    table.put(b"a", 5)
    assert (table.get(b"a"), table.get(b"b"), table.get(b"c"), len(table)) == (5, 4, -1, 2)


def test_offset_0_and_the_empty_key_are_known(twin):
    table = twin.KeyTable(2)
    table.put(b"", 0)
    assert (table.get(b""), len(table)) == (0, 1)


def test_a_full_table_refuses_another_key_but_not_a_known_one(twin):
    table = twin.KeyTable(2)
    table.put(b"a", 1)
    table.put(b"b", 2)
    table.put(b"a", 3)
    with pytest.raises(ValueError, match="full"):
        table.put(b"c", 4)
    assert (table.get(b"a"), table.get(b"b"), table.get(b"c"), len(table)) == (3, 2, -1, 2)


@pytest.mark.parametrize("slots", [0, -1])
def test_a_table_needs_a_slot(twin, slots):
    with pytest.raises(ValueError, match="slot"):
        twin.KeyTable(slots)


@given(st.dictionaries(st.binary(max_size=200), st.integers(0, 2**63 - 2), max_size=60))
def test_a_table_is_a_dictionary(entries):
    for module in (compaction, native) if native else (compaction,):
        table = module.KeyTable(max(1, len(entries)))
        for key, offset in entries.items():
            table.put(key, offset)
        assert {key: table.get(key) for key in entries} == entries
        assert len(table) == len(entries)


@pytest.mark.parametrize("length", [0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 121, 128, 1000])
def test_keys_that_differ_in_one_byte_are_two_keys(twin, length):
    """The hash is what C does by itself: lengths around its blocks of 64 bytes are where it could go wrong."""
    table = twin.KeyTable(1000)
    key = bytes(range(256)) * 4
    table.put(key[:length], 1)
    for at in range(length):
        other = bytearray(key[:length])
        other[at] ^= 1
        assert table.get(bytes(other)) == -1
    assert table.get(key[:length]) == 1


# --- learning keys ---------------------------------------------------------------------------------------------------


def test_the_last_offset_of_every_key_is_learned(twin):
    content = batch((b"a", b"1"), (b"b", b"1"), (None, b"x"), (b"a", b"2"))
    table = twin.KeyTable(10)
    found = twin.index_batches(table, 9, content, 0, 0)
    assert found == (len(content), 3, 4, False)
    assert (table.get(b"a"), table.get(b"b"), len(table)) == (3, 1, 2)


def test_records_before_the_start_are_not_learned(twin):
    content = batch((b"a", b"1"), (b"b", b"1"))
    table = twin.KeyTable(10)
    assert twin.index_batches(table, 9, content, 0, 1).latest_offset == 1
    assert (table.get(b"a"), table.get(b"b")) == (-1, 1)


def test_a_batch_before_the_start_does_not_count(twin):
    content = batch((b"a", b"1"))
    assert twin.index_batches(twin.KeyTable(10), 9, content, 0, 5) == (len(content), -1, 1, False)


def test_learning_stops_at_the_limit_and_says_how_far_it_came(twin):
    content = batch((b"a", b"1"), (b"b", b"1")) + batch((None, b""), (b"a", b""), (b"c", b""), base_offset=2)
    table = twin.KeyTable(10)
    found = twin.index_batches(table, 2, content, 0, 0)
    assert found.is_full
    assert found.latest_offset == 1
    assert found.position < len(content)
    assert twin.index_batches(table, 3, content, found.position, 0) == (len(content), 4, 3, False)


def test_learning_resumes_in_the_middle_of_a_batch(twin):
    content = batch((b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    first = twin.index_batches(twin.KeyTable(10), 2, content, 0, 0)
    assert (first.position, first.latest_offset, first.is_full) == (0, 1, True)
    table = twin.KeyTable(10)
    second = twin.index_batches(table, 2, content, 0, first.latest_offset + 1)
    assert (second.latest_offset, second.is_full, len(table)) == (2, False, 1)


@pytest.mark.parametrize(
    "special",
    [
        {"compression": Compression.GZIP},
        {"transactional": True, "producer_id": 1, "producer_epoch": 0, "base_sequence": 0},
        {"control": True, "transactional": True, "producer_id": 1, "producer_epoch": 0},
    ],
)
def test_both_walks_stop_before_a_batch_that_is_not_plain(twin, special):
    plain = batch((b"a", b"1"))
    content = plain + batch((b"b", b"1"), base_offset=1, **special)
    table = twin.KeyTable(10)
    assert twin.index_batches(table, 9, content, 0, 0).position == len(plain)
    assert twin.filter_batches(table, rules(), content, 0).position == len(plain)


def test_both_walks_stop_before_damage_of_any_bit(twin):
    plain = batch((b"a", b"1"))
    second = batch((b"b", b"1"), base_offset=1)
    table = twin.KeyTable(10)
    covered = [*range(8 * 8, 12 * 8), *range(16 * 8, len(second) * 8)]  # base offset and leader epoch have no sum
    for bit in covered:
        damaged = bytearray(second)
        damaged[bit // 8] ^= 1 << bit % 8
        for content in (plain + damaged, plain + bytes(damaged)[:-1]):
            assert twin.index_batches(table, 9, content, 0, 0).position == len(plain)
            assert twin.filter_batches(table, rules(), content, 0).position == len(plain)


def test_both_walks_stop_before_records_that_lie_under_a_right_sum(twin, seal):
    content = seal(b"\x0e\x00\x00\x00\x02", 1)
    with pytest.raises(CorruptMessage):
        twin.index_records(twin.KeyTable(1), 1, b"\x0e\x00\x00\x00\x02", 1, 0, 0)
    with pytest.raises(CorruptMessage):
        twin.filter_records(twin.KeyTable(1), rules(), content, 0, content[HEADER_BYTES:])
    assert twin.index_batches(twin.KeyTable(1), 1, content, 0, 0).position == 0
    assert twin.filter_batches(twin.KeyTable(1), rules(), content, 0).position == 0


# --- keeping ---------------------------------------------------------------------------------------------------------


def test_only_the_last_record_of_a_key_stays_at_its_offset(twin):
    content = batch((b"a", b"1"), (b"b", b"1")) + batch((b"a", b"2"), base_offset=2)
    assert rows(kept(twin, content)) == [(1, b"b", b"1"), (2, b"a", b"2")]


def test_a_batch_that_stays_whole_stays_byte_for_byte(twin):
    content = batch((b"a", b"1"), (b"b", b"1"), producer_id=5, producer_epoch=1, base_sequence=3, leader_epoch=9)
    assert kept(twin, content) == content


def test_records_without_a_key_go(twin):
    assert rows(kept(twin, batch((None, b"1"), (b"a", b"1")))) == [(1, b"a", b"1")]


def test_what_the_table_does_not_cover_stays(twin):
    content = batch((None, b"1"), (b"a", b"1"), (b"a", b"2"))
    assert kept(twin, content, latest_offset=-1) == content


def test_a_batch_keeps_whose_it_was_and_where_it_ended(twin):
    content = batch(
        *((b"a", b"1", 100), (b"b", b"1", 300), (b"b", b"2", 200), (b"a", b"2", 150), (b"c", None, 120)),
        base_offset=40,
        producer_id=5,
        producer_epoch=1,
        base_sequence=3,
        leader_epoch=9,
    )
    table = known(twin, content)
    table.put(b"c", 99)
    found = RecordBatch(kept(twin, content, table))
    assert (found.base_offset, found.last_offset, found.record_count) == (40, 44, 2)
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.leader_epoch) == (5, 1, 3, 9)
    assert (found.base_timestamp_ms, found.max_timestamp_ms) == (200, 200)
    assert [(record.offset, record.timestamp_ms) for record in found.records()] == [(42, 200), (43, 150)]
    assert found.records()[0].headers == (("h", b"x"),)


def test_append_time_stays(twin):
    content = batch((b"a", b"1", 100), (b"a", b"2", 300), log_append_time_ms=777)
    found = RecordBatch(kept(twin, content))
    assert (found.max_timestamp_ms, found.timestamp_type, found.records()[0].timestamp_ms) == (777, 1, 777)


def test_a_batch_with_a_tombstone_gets_a_horizon_and_keeps_its_times(twin):
    content = batch((b"a", b"1", 100), (b"b", None, 300))
    found = RecordBatch(kept(twin, content))
    assert found.has_delete_horizon
    assert found.base_timestamp_ms == HORIZON_MS
    assert found.max_timestamp_ms == 300
    assert [record.timestamp_ms for record in found.records()] == [100, 300]


def test_a_horizon_is_set_once_and_a_tombstone_stays_until_it_is_over(twin):
    content = kept(twin, batch((b"a", b"1", 100), (b"b", None, 300)))
    assert kept(twin, content, now_ms=HORIZON_MS - 1) == content
    later = kept(twin, content, now_ms=HORIZON_MS)
    assert rows(later) == [(0, b"a", b"1")]
    assert RecordBatch(later).has_delete_horizon
    assert RecordBatch(later).records()[0].timestamp_ms == 100


def test_a_tombstone_beyond_the_table_gets_a_horizon_too(twin):
    found = RecordBatch(kept(twin, batch((b"b", None)), latest_offset=-1))
    assert found.has_delete_horizon


def test_a_batch_without_records_goes_unless_it_is_wanted(twin):
    content = batch((b"a", b"1", 5), producer_id=5, producer_epoch=1, base_sequence=3, leader_epoch=2)
    table = twin.KeyTable(3)
    table.put(b"a", 9)
    assert kept(twin, content, table) == b""
    assert kept(twin, content, table, kept=(1, 7)) == b""
    found = RecordBatch(kept(twin, content, table, kept=(-3, 0, 7)))
    assert (found.record_count, found.size_bytes, found.last_offset, found.base_sequence) == (0, HEADER_BYTES, 0, 3)
    assert (found.base_timestamp_ms, found.max_timestamp_ms, found.attributes) == (-1, 5, 0)
    assert kept(twin, bytes(empty_batch(content, 0)), table, kept=(0,)) == empty_batch(content, 0)
    assert kept(twin, bytes(empty_batch(content, 0)), table) == b""


def test_records_can_grow_when_their_times_are_told_anew(twin):
    content = batch(*((b"%d" % number, None, 2**62) for number in range(50)))
    found = RecordBatch(kept(twin, content))
    assert [record.timestamp_ms for record in found.records()] == [2**62] * 50
    assert found.size_bytes > len(content)


# --- twins -----------------------------------------------------------------------------------------------------------

some_records = st.lists(
    st.tuples(
        st.one_of(st.none(), st.binary(max_size=2)),
        st.one_of(st.none(), st.binary(max_size=300)),
        st.integers(-1, 2**63 - 1),
    ),
    max_size=12,
)


@given(
    st.lists(some_records, max_size=6),
    st.integers(1, 12),
    st.integers(-1, 40),
    st.lists(st.integers(0, 60), max_size=5),
    st.sampled_from([None, 77, 2**63 - 1]),
    st.integers(0, HORIZON_MS * 2),
)
def test_twins_learn_and_keep_the_same(contents, limit, start, kept_offsets, append_time, now_ms):
    if native is None:
        return
    offset, pieces = 0, []
    for records in contents:
        if records:
            pieces.append(batch(*records, base_offset=offset, log_append_time_ms=append_time))
            offset += len(records)
    content = b"".join(pieces)
    answers = []
    for module in (compaction, native):
        table = module.KeyTable(limit)
        indexed = module.index_batches(table, limit, content, 0, start)
        given_rules = rules(indexed.latest_offset, now_ms, kept_offsets)
        once = module.filter_batches(table, given_rules, content, 0)
        answers.append((indexed, len(table), once, module.filter_batches(table, given_rules, once.batches, 0)))
    assert answers[0] == answers[1]


@given(st.binary(max_size=60), st.integers(-2, 5))
def test_twins_refuse_the_same_records(seal_bytes, count):
    if native is None:
        return
    answers = []
    for module in (compaction, native):
        try:
            answers.append(module.index_records(module.KeyTable(9), 9, seal_bytes, max(count, 0), 0, 0))
        except CorruptMessage:
            answers.append("refused")
    assert answers[0] == answers[1]


@pytest.mark.parametrize("walk", ["learn", "keep"])
def test_the_native_walks_let_other_threads_work(walk):
    """The walk takes long; a thread that holds the lock for it would leave the other no chance to count."""
    if native is None:
        pytest.skip("ottla.records._compaction is not built: that needs a C compiler")
    content = batch(*((b"%d" % number, b"x" * 10) for number in range(20_000))) * 10
    table = native.KeyTable(30_000)
    walking, ticks = threading.Event(), 0

    def work():
        walking.set()
        for _ in range(500):  # a thread that may run does not always get a core on a busy machine
            if ticks > 10:
                break
            if walk == "learn":
                native.index_batches(table, 30_000, content, 0, 0)
            else:
                native.filter_batches(table, rules(-1), content, 0)
        walking.clear()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # nobody is asked to give the lock away
    try:
        worker = threading.Thread(target=work)
        worker.start()
        walking.wait()
        while walking.is_set():
            time.sleep(0)  # lets the lock go, and wants it back
            ticks += 1
        worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert ticks > 10
