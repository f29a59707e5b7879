"""FetchedRecords: both twins give the same records, stop where they are told, and pass over what is not for users."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer import records as python_twin
from ottla.client.consumer.isolation import CommittedOnly
from ottla.client.consumer.record_errors import CorruptRecord, DeserializationFailed
from ottla.records import BatchBuilder, Compression, TimestampType, assign_offsets
from ottla.records.control import (
    EndTransactionMarker,
    encode_marker_key,
    encode_marker_value,
    end_transaction_batch,
)
from ottla.records.layout import HEADER_BYTES, LOG_OVERHEAD_BYTES
from ottla.records.legacy import LegacyRecord, build_message_set
from ottla.values import Header, TopicPartition

try:
    from ottla.client.consumer import _records as native_twin
except ImportError:
    native_twin = python_twin

TWINS = [python_twin, native_twin]
twins = pytest.mark.parametrize("twin", TWINS, ids=["python", "native"])


def batch(base_offset, values, *, compression=Compression.NONE, epoch=3, offsets=None, **options):
    builder = BatchBuilder(base_offset=base_offset, compression=compression, leader_epoch=epoch, **options)
    for index, value in enumerate(values):
        builder.append(1000 + index, b"k%d" % index, value, [("h", b"x"), ("h", None)] if index % 2 else [])
    data = bytearray(builder.close())
    assign_offsets(data, 0, base_offset, epoch)
    return bytes(data)


def marker(base_offset, *, commit, producer_id):
    return end_transaction_batch(
        EndTransactionMarker(commit, 0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=5,
        base_offset=base_offset,
        leader_epoch=3,
    )


def transactional(base_offset, values, producer_id):
    return batch(base_offset, values, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


@twins
def test_a_record_has_everything_that_was_sent_and_where_it_stands(twin):
    fetched = twin.FetchedRecords("t", 2, batch(10, [b"a", None]), 10)
    first, second = fetched.take(10)
    assert (first.topic, first.partition, first.offset, first.key, first.value) == ("t", 2, 10, b"k0", b"a")
    assert (first.timestamp_ms, first.timestamp, first.timestamp_type) == (1000, 1000, TimestampType.CREATE_TIME)
    assert (first.leader_epoch, first.serialized_key_size, first.serialized_value_size) == (3, 2, 1)
    assert first.headers == ()
    assert (second.value, second.serialized_value_size) == (None, -1)
    assert second.headers == (Header("h", b"x"), Header("h", None))
    assert second.headers[0].key == "h"
    assert fetched.is_drained
    assert (fetched.next_offset, fetched.leader_epoch) == (12, 3)


@twins
def test_in_the_middle_of_a_batch_the_epoch_is_that_of_the_last_record(twin):
    fetched = twin.FetchedRecords("t", 2, batch(10, [b"a"], epoch=3) + batch(11, [b"b", b"c"], epoch=5), 10)
    assert fetched.leader_epoch is None
    epochs = []
    for _ in range(3):
        fetched.take(1)
        epochs.append((fetched.next_offset, fetched.leader_epoch))
    assert epochs == [(11, 3), (12, 5), (13, 5)]


@twins
def test_records_can_be_pickled_compared_and_printed(twin):
    one = twin.FetchedRecords("t", 2, batch(10, [b"a", b"b"]), 10).take(2)[1]
    assert pickle.loads(pickle.dumps(one)) == one
    assert "offset=11" in repr(one)
    assert one != twin.FetchedRecords("t", 2, batch(11, [b"a", b"b"]), 10).take(2)[1]
    assert len({one, one}) == 1


@twins
def test_a_take_stops_inside_a_batch_and_the_next_one_goes_on_there(twin):
    fetched = twin.FetchedRecords("t", 0, batch(0, [b"a", b"b", b"c"]) + batch(3, [b"d"]), 0)
    assert [record.value for record in fetched.take(2)] == [b"a", b"b"]
    assert fetched.next_offset == 2
    assert not fetched.is_drained
    assert [record.value for record in fetched.take(2)] == [b"c", b"d"]
    assert fetched.is_drained
    assert fetched.take(2) == []


@twins
def test_records_before_the_wanted_offset_are_left_out(twin):
    fetched = twin.FetchedRecords("t", 0, batch(0, [b"a", b"b", b"c"]), 2)
    assert [record.offset for record in fetched.take(9)] == [2]


@twins
def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch(twin):
    whole, cut = batch(0, [b"a"]), batch(1, [b"b" * 100])[:-1]
    fetched = twin.FetchedRecords("t", 0, whole + cut, 0)
    assert [record.offset for record in fetched.take(9)] == [0]
    assert fetched.is_drained
    assert fetched.next_offset == 1
    assert twin.end_offset_of(whole + cut, 0) == 1
    assert twin.end_offset_of(cut, 7) == 7


@twins
@pytest.mark.parametrize("rotten", [1, 2])
@pytest.mark.parametrize("base_offset", [0, 4, 2**40])
def test_records_whose_offsets_rotted_are_not_handed_out(twin, rotten, base_offset):
    """They are not under the CRC, but a batch cannot end behind the beginning of the next."""
    batches = [bytearray(batch(number, [b"%d" % number])) for number in range(4)]
    batches[rotten][:8] = base_offset.to_bytes(8, "big")
    data = b"".join(batches)
    fetched = twin.FetchedRecords("t", 0, data, 0)
    if rotten > 1 or base_offset:
        assert [record.value for record in fetched.take(9)] == [b"0", b"1"][: rotten if base_offset else rotten - 1]
    with pytest.raises(CorruptRecord, match="offsets of one of them are wrong"):
        fetched.take(9)
    assert not fetched.is_drained
    assert twin.end_offset_of(data, 0) == fetched.next_offset


@twins
def test_the_position_moves_over_what_compaction_took_from_the_end_of_a_batch(twin):
    data = bytearray(batch(0, [b"a", b"b"]))
    data[23:27] = (9).to_bytes(4, "big")  # the last offset delta stays when records go
    fetched = twin.FetchedRecords("t", 0, bytes(data), 0, check_crcs=False)
    assert [record.offset for record in fetched.take(9)] == [0, 1]
    assert fetched.next_offset == 10
    assert twin.end_offset_of(bytes(data), 0) == 10


@twins
def test_control_batches_are_never_handed_out(twin):
    data = batch(0, [b"a"]) + marker(1, commit=True, producer_id=7) + batch(2, [b"b"])
    assert [record.offset for record in twin.FetchedRecords("t", 0, data, 0).take(9)] == [0, 2]
    only = twin.FetchedRecords("t", 0, marker(5, commit=False, producer_id=7), 5)
    assert only.take(9) == []
    assert only.next_offset == 6


def control_batch(base_offset, *markers, producer_id):
    """A control batch with another control record before its markers, as other brokers may write it."""
    builder = BatchBuilder(
        base_offset=base_offset, producer_id=producer_id, producer_epoch=0, transactional=True, control=True
    )
    builder.append(0, b"\0\0\0\6", b"another kind")
    for each in markers:
        builder.append(0, encode_marker_key(each), encode_marker_value(each))
    return bytes(builder.close())


@twins
def test_a_marker_ends_its_transaction_wherever_it_stands_in_its_control_batch(twin):
    data = (
        transactional(0, [b"bad"], 7)
        + control_batch(1, EndTransactionMarker(commit=False, coordinator_epoch=0), producer_id=7)
        + transactional(3, [b"good"], 7)
    )
    fetched = twin.FetchedRecords("t", 0, data, 0, isolation=CommittedOnly([(7, 0)]))
    assert [record.offset for record in fetched.take(9)] == [3]


@twins
def test_a_control_batch_that_compaction_has_emptied_ends_nothing(twin):
    emptied = bytearray(marker(1, commit=False, producer_id=7)[:HEADER_BYTES])
    emptied[8:12] = (HEADER_BYTES - LOG_OVERHEAD_BYTES).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    data = batch(0, [b"a"]) + bytes(emptied) + batch(2, [b"b"])
    fetched = twin.FetchedRecords("t", 0, data, 0, isolation=CommittedOnly([]), check_crcs=False)
    assert [record.offset for record in fetched.take(9)] == [0, 2]


@twins
def test_aborted_transactions_are_left_out_until_their_marker(twin):
    data = (
        transactional(0, [b"bad"], 7)
        + transactional(1, [b"good"], 8)
        + marker(2, commit=False, producer_id=7)
        + transactional(3, [b"after"], 7)
        + marker(4, commit=True, producer_id=7)
        + marker(5, commit=True, producer_id=8)
    )
    fetched = twin.FetchedRecords("t", 0, data, 0, isolation=CommittedOnly([(7, 0)]))
    assert [record.value for record in fetched.take(9)] == [b"good", b"after"]
    assert fetched.next_offset == 6
    everything = twin.FetchedRecords("t", 0, data, 0)
    assert [record.value for record in everything.take(9)] == [b"bad", b"good", b"after"]


@twins
def test_damage_is_told_with_its_place_after_what_stands_before_it(twin):
    broken = bytearray(batch(1, [b"b"]))
    broken[-2] ^= 0xFF  # the value
    fetched = twin.FetchedRecords("t", 4, batch(0, [b"a"]) + bytes(broken), 0)
    assert [record.offset for record in fetched.take(9)] == [0]
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="t-4 at offset 1") as caught:
            fetched.take(9)
        assert (caught.value.topic_partition, caught.value.offset) == (TopicPartition("t", 4), 1)
    assert not fetched.is_drained
    assert twin.FetchedRecords("t", 4, bytes(broken), 1, check_crcs=False).take(1)[0].offset == 1


LARGE_SIZES = (511, 512, 513, 4_000, 70_000, 300_000)


def large_batches(count):
    """More than is proved and copied without the interpreter lock at a time, in values below and above every edge."""
    sizes = [LARGE_SIZES[index % len(LARGE_SIZES)] for index in range(count * 3)]
    values = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    return values, [
        batch(first, values[first : first + 3], size_limit_bytes=1_000_000) for first in range(0, len(values), 3)
    ]


@twins
@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_large_values_are_whole_wherever_a_take_stops(twin, limit):
    values, batches = large_batches(8)
    fetched = twin.FetchedRecords("t", 0, b"".join(batches), 0)
    found = []
    while not fetched.is_drained:
        taken = fetched.take(limit)
        assert all(len(record.value) == record.serialized_value_size for record in taken)
        found += [record.value for record in taken]
    assert found == values


@twins
@pytest.mark.parametrize("damaged", [0, 1, 5])
def test_damage_far_ahead_is_told_when_its_batch_comes_and_large_values_before_it_are_whole(twin, damaged):
    values, batches = large_batches(8)
    broken = bytearray(batches[damaged])
    broken[-20] ^= 1
    fetched = twin.FetchedRecords("t", 0, b"".join([*batches[:damaged], broken, *batches[damaged + 1 :]]), 0)
    assert [record.value for record in (fetched.take(1000) if damaged else [])] == values[: damaged * 3]
    for _ in range(2):
        with pytest.raises(CorruptRecord, match=f"offset {damaged * 3}"):
            fetched.take(1000)


@twins
def test_damage_is_not_looked_for_when_crcs_are_not_checked(twin):
    values, batches = large_batches(2)
    broken = bytearray(batches[1])
    broken[-20] ^= 1
    found = twin.FetchedRecords("t", 0, batches[0] + bytes(broken), 0, check_crcs=False).take(1000)
    assert [record.value for record in found][:3] == values[:3]
    assert len(found) == 6


@twins
def test_large_values_that_were_compressed_outlive_their_batch(twin):
    values = [bytes([index]) * 5_000 for index in range(30)]
    data = b"".join(batch(index, [value], compression=Compression.GZIP) for index, value in enumerate(values))
    assert [record.value for record in twin.FetchedRecords("t", 0, data, 0).take(1000)] == values


@twins
def test_a_deserializer_that_fails_stops_before_its_record(twin):
    def text(topic, data):
        assert topic == "t"
        return data.decode()

    fetched = twin.FetchedRecords("t", 1, batch(0, [b"a", b"\xff", b"c"]), 0)
    assert [record.value for record in fetched.take(9, None, None, text)] == ["a"]
    assert fetched.next_offset == 1
    with pytest.raises(DeserializationFailed, match="t-1 at offset 1: UnicodeDecodeError") as caught:
        fetched.take(9, None, None, text)
    assert (caught.value.topic_partition, caught.value.offset) == (TopicPartition("t", 1), 1)
    assert isinstance(caught.value.__cause__, UnicodeDecodeError)
    record = twin.FetchedRecords("t", 1, batch(0, [b"a"]), 0).take(1, None, text, None)[0]
    assert (record.key, record.value, record.serialized_key_size) == ("k0", b"a", 2)


@twins
def test_old_message_sets_are_read_too(twin):
    old = [LegacyRecord(offset, 5, b"k", b"v%d" % offset) for offset in range(3)]
    data = bytes(build_message_set(1, old)) + batch(3, [b"new"])
    fetched = twin.FetchedRecords("t", 0, data, 1)
    assert [(record.offset, record.value) for record in fetched.take(2)] == [(1, b"v1"), (2, b"v2")]
    assert fetched.span(10).data == batch(3, [b"new"])
    assert [record.value for record in fetched.take(2)] == [b"new"]
    assert fetched.next_offset == 4
    assert twin.FetchedRecords("t", 0, data, 0).span(1) is None


@twins
def test_a_span_is_whole_batches_up_to_a_gap(twin):
    good, bad = transactional(0, [b"a"], 8) + transactional(1, [b"b", b"c"], 8), transactional(3, [b"x"], 7)
    data = good + bad + marker(4, commit=False, producer_id=7) + transactional(5, [b"d"], 8)
    fetched = twin.FetchedRecords("t", 0, data, 0, isolation=CommittedOnly([(7, 3)]))
    fetched.take(1)
    span = twin_span(fetched, 100)
    assert (bytes(span[0]), span[1], span[2]) == (good[len(transactional(0, [b"a"], 8)) :], 1, 3)
    fetched.advance(span[3], span[2], span[4])
    span = twin_span(fetched, 1)
    assert (bytes(span[0]), span[1], span[2]) == (transactional(5, [b"d"], 8), 5, 6)
    fetched.advance(span[3], span[2], span[4])
    assert (fetched.next_offset, fetched.is_drained, fetched.span(1)) == (6, True, None)


@twins
def test_a_span_ends_before_damage_and_the_next_call_meets_it(twin):
    bad = bytearray(batch(2, [b"c"]))
    bad[16] = 9  # no such format
    fetched = twin.FetchedRecords("t", 0, batch(0, [b"a", b"b"]) + bytes(bad), 0)
    span = fetched.span(100)
    assert (bytes(span.data), span.next_offset) == (batch(0, [b"a", b"b"]), 2)
    fetched.advance(span.position, span.next_offset, span.leader_epoch)
    with pytest.raises(CorruptRecord, match="t-0 at offset 2"):
        fetched.span(100)


@twins
def test_records_before_a_damaged_one_of_their_batch_come_first(twin):
    broken = bytearray(batch(0, [b"a", b"b", b"c"]))
    broken[-1] ^= 0xFF  # where the last record has the count of its headers
    fetched = twin.FetchedRecords("t", 0, bytes(broken), 0, check_crcs=False)
    assert [record.offset for record in fetched.take(9)] == [0, 1]
    with pytest.raises(CorruptRecord, match="t-0 at offset 2"):
        fetched.take(9)


@twins
def test_a_header_that_lies_about_its_offsets_hides_no_records(twin):
    lying = bytearray(batch(0, [b"a"]))
    lying[23:27] = b"\x80\x80\x80\x80"
    with pytest.raises(CorruptRecord, match="last offset delta of -"):
        twin.FetchedRecords("t", 0, bytes(lying), 0, check_crcs=False).take(9)


@twins
def test_a_span_that_is_given_up_can_be_taken_as_records(twin):
    data = (
        transactional(0, [b"a"], 7) + marker(1, commit=True, producer_id=7)
        + transactional(2, [b"b"], 7) + marker(3, commit=False, producer_id=7)
    )  # fmt: skip
    fetched = twin.FetchedRecords("t", 0, data, 0, isolation=CommittedOnly([(7, 2)]))
    assert twin_span(fetched, 100)[2] == 1
    assert [record.value for record in fetched.take(9)] == [b"a"]


def twin_span(fetched, rows):
    span = fetched.span(rows)
    assert span is not None
    return tuple(span)


@twins
def test_what_is_left_can_be_copied_out_of_its_frame(twin):
    frame = bytearray(batch(0, [b"a", b"b"]) + batch(2, [b"c"]))
    fetched = twin.FetchedRecords("t", 0, memoryview(frame), 0)
    fetched.take(1)
    owned = fetched.own()
    del fetched
    frame.clear()  # would raise BufferError if anybody still looked at it
    assert [record.offset for record in owned.take(9)] == [1, 2]


log_entries = st.lists(
    st.tuples(
        st.sampled_from(["plain", "transactional", "commit", "abort"]),
        st.integers(0, 2),
        st.lists(st.binary(max_size=20), min_size=1, max_size=4),
        st.sampled_from([Compression.NONE, Compression.LZ4]),
    ),
    max_size=12,
)


def log_of(entries):
    """Bytes of a log whose transactions all ended, the aborted ones, and the committed values by offset."""
    parts, aborted, committed, open_since, pending = [], [], [], {}, {}
    offset = 0
    for kind, producer_id, values, compression in entries + [("abort", p, [b""], Compression.NONE) for p in range(3)]:
        if kind in ("commit", "abort"):
            parts.append(marker(offset, commit=kind == "commit", producer_id=producer_id))
            if kind == "commit":
                committed += pending.pop(producer_id, [])
            elif producer_id in open_since:
                aborted.append((producer_id, open_since[producer_id]))
                pending.pop(producer_id)
            open_since.pop(producer_id, None)
            offset += 1
            continue
        rows = [(offset + index, value) for index, value in enumerate(values)]
        if kind == "plain":
            parts.append(batch(offset, values, compression=compression))
            committed += rows
        else:
            parts.append(transactional(offset, values, producer_id))
            open_since.setdefault(producer_id, offset)
            pending.setdefault(producer_id, []).extend(rows)
        offset += len(values)
    return b"".join(parts), aborted, sorted(committed), offset


@given(log_entries, st.integers(1, 5), st.integers(0, 10))
def test_read_committed_gives_exactly_what_was_committed(entries, limit, start):
    data, aborted, committed, end = log_of(entries)
    start = min(start, end)
    for twin in TWINS:
        fetched = twin.FetchedRecords("t", 0, data, start, isolation=CommittedOnly(aborted))
        found = []
        while part := fetched.take(limit):
            assert len(part) <= limit
            found += [(record.offset, record.value) for record in part]
        assert found == [row for row in committed if row[0] >= start]
        assert fetched.is_drained
        assert fetched.next_offset == twin.end_offset_of(data, start) == end


@given(st.binary(max_size=300), st.integers(0, 3), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255))))
def test_the_twins_agree_on_any_bytes(noise, batches, damage):
    data = bytearray(b"".join(batch(index * 2, [b"v", b"w"]) for index in range(batches)) + noise)
    for position, value in damage:
        if position < len(data):
            data[position] = value
    told = [outcome(twin, bytes(data)) for twin in TWINS]
    assert told[0] == told[1]


def outcome(twin, data):
    fetched = twin.FetchedRecords("t", 0, data, 0)
    found, told = [], []
    for _ in range(100):
        try:
            part = fetched.take(3)
        except CorruptRecord as error:
            told.append(("corrupt", error.offset))
            break
        if not part:
            break
        found += [(record.offset, record.key, record.value, record.headers, record.timestamp_ms) for record in part]
    return found, told, fetched.next_offset, fetched.is_drained, twin.end_offset_of(data, 0)
