"""What a leader takes, what it refuses and how, and what it writes into a batch."""

from __future__ import annotations

import pickle
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from ottla.records import checks
from ottla.records.checks import PlacedBatch
from ottla.records.compression import Compression
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.records.implementation import BatchBuilder, RecordBatch, crc32c
from ottla.records.layout import ATTRIBUTES_AT, CRC_AT, HEADER_BYTES, MAX_TIMESTAMP_AT, TimestampType
from ottla.records.log_walks import place_plain_batch
from ottla.storage.log import validation
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.record_errors import RecordError, RecordsRefused
from ottla.storage.log.validation import AppendRules, prepare_leader_append
from ottla.testing.strategies import records

NOW_MS = 1_700_000_000_000
PLAIN = AppendRules()
APPEND_TIME = AppendRules(timestamp_type=TimestampType.LOG_APPEND_TIME)
codecs = pytest.mark.parametrize("codec", list(Compression))


def batch_of(*some, count=3, **how):
    builder = BatchBuilder(size_limit_bytes=2**31 - 1, **how)
    for timestamp_ms, key, value, headers in some or [(NOW_MS + n, b"key", b"value", ()) for n in range(count)]:
        builder.append(timestamp_ms, key, value, headers)
    return bytearray(builder.close())


def changed(batch, position, format_, value, *, crc=True):
    """The batch with one field of its header changed, and a sum that is right again."""
    batch = bytearray(batch)
    struct.pack_into(format_, batch, position, value)
    if crc:
        struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return batch


def prepare(batch, rules=PLAIN, *, origin=AppendOrigin.CLIENT, next_offset=100, now_ms=NOW_MS, **how):
    return prepare_leader_append(
        batch, rules, origin=origin, next_offset=next_offset, leader_epoch=5, now_ms=now_ms, **how
    )


def without_offsets(batch):
    return [record[1:] for record in RecordBatch(batch).tuples()]


EMPTY = changed(changed(batch_of()[:HEADER_BYTES], 8, ">i", HEADER_BYTES - 12), 57, ">i", 0)


# ---- in place ----


@codecs
def test_a_sound_batch_gets_its_place_in_the_buffer_it_came_in(codec):
    batch = batch_of(compression=codec)
    before = bytes(batch)
    ready = prepare(batch)
    assert ready.buffer.obj is batch
    assert not ready.is_rewritten
    assert batch[:8] == struct.pack(">q", 100)
    assert batch[8:12] == before[8:12]
    assert batch[12:16] == struct.pack(">i", 5)
    assert batch[16:] == before[16:]
    assert (ready.first_offset, ready.last_offset, ready.leader_epoch) == (100, 102, 5)
    assert (ready.max_timestamp_ms, ready.offset_of_max_timestamp, ready.log_append_time_ms) == (NOW_MS + 2, 102, -1)
    assert [info.base_offset for info in ready.batches] == [100]
    assert ready.size_bytes == len(batch)


def test_a_batch_that_cannot_be_written_into_is_copied():
    batch = bytes(batch_of())
    ready = prepare(batch)
    assert ready.is_rewritten
    assert RecordBatch(bytes(ready.buffer)).tuples()[0][0] == 100


@codecs
def test_log_append_time_is_set_and_the_sum_redone(codec):
    batch = batch_of((5, b"k", b"v", ()), (9, b"k", b"v", ()), compression=codec)
    ready = prepare(batch, APPEND_TIME)
    assert ready.buffer.obj is batch
    written = RecordBatch(batch)
    written.check()
    assert written.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in written] == [NOW_MS, NOW_MS]
    assert (ready.log_append_time_ms, ready.max_timestamp_ms) == (NOW_MS, NOW_MS)


@codecs
def test_a_wrong_largest_time_is_put_right(codec):
    batch = changed(batch_of(compression=codec), MAX_TIMESTAMP_AT, ">q", NOW_MS + 999)
    assert prepare(batch).max_timestamp_ms == NOW_MS + 2
    written = RecordBatch(batch)
    written.check()
    assert written.max_timestamp_ms == NOW_MS + 2


def test_a_claimed_append_time_is_taken_back_on_a_topic_with_create_time():
    batch = batch_of(log_append_time_ms=NOW_MS)
    prepare(batch)
    written = RecordBatch(batch)
    written.check()
    assert written.timestamp_type is TimestampType.CREATE_TIME


def test_unused_attribute_bits_are_let_through():
    batch = changed(batch_of(), ATTRIBUTES_AT, ">h", 0x7F80)
    prepare(batch)
    assert RecordBatch(batch).attributes == 0x7F80


def test_the_attributes_of_a_record_are_not_looked_at():
    prepare(changed(batch_of(), HEADER_BYTES + 1, ">b", -1))


def test_producer_and_transaction_stay():
    how = {"producer_id": 9, "producer_epoch": 3, "base_sequence": 2**31 - 1, "transactional": True}
    first = RecordBatch(bytes(prepare(batch_of(producer_id=0, producer_epoch=0, base_sequence=0)).buffer))
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (0, 0, 0)
    for rules in (AppendRules(), APPEND_TIME, AppendRules(compression=Compression.LZ4)):
        written = RecordBatch(bytes(prepare(batch_of(**how), rules).buffer))
        assert (written.producer_id, written.producer_epoch, written.base_sequence) == (9, 3, 2**31 - 1)
        assert (written.last_sequence, written.is_transactional) == (1, True)


# ---- rewritten ----


@codecs
@pytest.mark.parametrize("target", list(Compression))
def test_another_codec_rewraps_the_same_records(codec, target):
    some = [(NOW_MS, b"k", b"v" * 100, (("h", b"x"),)), (NOW_MS - 7, None, None, ()), (NOW_MS + 7, b"", b"", ())]
    batch = batch_of(*some, compression=codec)
    before = bytes(batch)
    ready = prepare(batch, AppendRules(compression=target))
    assert ready.is_rewritten is (codec is not target)
    written = RecordBatch(bytes(ready.buffer))
    written.check()
    assert written.compression is target
    assert without_offsets(bytes(ready.buffer)) == [(time, k, v, h) for time, k, v, h in some]
    assert [record[0] for record in written.tuples()] == [100, 101, 102]
    assert (written.leader_epoch, written.max_timestamp_ms) == (5, NOW_MS + 7)
    if ready.is_rewritten:
        assert batch == before


def test_a_rewrapped_batch_is_the_one_a_builder_makes():
    for codec, target in [(Compression.GZIP, Compression.ZSTD), (Compression.ZSTD, Compression.NONE)]:
        made = batch_of(compression=target, base_offset=100, leader_epoch=5, producer_id=1, producer_epoch=2,
                        base_sequence=3)  # fmt: skip
        came = batch_of(compression=codec, producer_id=1, producer_epoch=2, base_sequence=3)
        assert bytes(prepare(came, AppendRules(compression=target)).buffer) == made


def test_the_level_of_the_topic_is_used():
    some = [(NOW_MS, b"k", b"some text that repeats itself " * 50 + bytes(range(256)) * 4, ())]
    sizes = [
        prepare(batch_of(*some), AppendRules(compression=Compression.GZIP, compression_level=level)).size_bytes
        for level in (1, 9)
    ]
    assert sizes[0] > sizes[1]


def test_the_level_is_of_the_topics_codec_only():
    builder = BatchBuilder(compression=Compression.SNAPPY)
    builder.append_with_offset(0, NOW_MS, b"k", b"v")
    builder.append_with_offset(2, NOW_MS, b"k", b"v")
    ready = prepare(changed(builder.close(), 23, ">i", 1), AppendRules(compression_level=9))
    assert RecordBatch(bytes(ready.buffer)).compression is Compression.SNAPPY


@codecs
@pytest.mark.parametrize("target", [None, Compression.SNAPPY])
def test_records_that_are_not_numbered_in_order_are_numbered_anew(codec, target):
    builder = BatchBuilder(compression=codec, producer_id=1, producer_epoch=0, base_sequence=7)
    for offset in (0, 1, 3):
        builder.append_with_offset(offset, NOW_MS + offset, b"k", b"v", [("h", b"x")])
    batch = changed(builder.close(), 23, ">i", 2)
    ready = prepare(batch, AppendRules(compression=target))
    written = RecordBatch(bytes(ready.buffer))
    written.check()
    assert [record.offset for record in written] == [100, 101, 102]
    assert [record.timestamp_ms for record in written] == [NOW_MS, NOW_MS + 1, NOW_MS + 3]
    assert (written.base_sequence, written.compression) == (7, codec if target is None else target)


def test_log_append_time_and_another_codec_together():
    ready = prepare(batch_of(), AppendRules(Compression.ZSTD, timestamp_type=TimestampType.LOG_APPEND_TIME))
    written = RecordBatch(bytes(ready.buffer))
    written.check()
    assert (written.timestamp_type, written.max_timestamp_ms) == (TimestampType.LOG_APPEND_TIME, NOW_MS)


def test_records_without_a_time_are_numbered_anew():
    builder = BatchBuilder()
    builder.append_with_offset(0, -1, b"k", b"v")
    builder.append_with_offset(2, -1, b"k", b"v")
    ready = prepare(changed(builder.close(), 23, ">i", 1))
    assert [record.timestamp_ms for record in RecordBatch(bytes(ready.buffer))] == [-1, -1]


def test_times_before_1970_cannot_be_numbered_anew():
    builder = BatchBuilder()
    builder.append_with_offset(0, 5, b"k", b"v")
    builder.append_with_offset(2, 5, b"k", b"v")
    batch = changed(changed(builder.close(), 23, ">i", 1), 27, ">q", -100)
    with pytest.raises(InvalidTimestamp, match="before 1970"):
        prepare(batch)


# ---- refused ----


@pytest.mark.parametrize(
    ("batch", "error", "what"),
    [
        (b"", InvalidRecord, "there are 0 bytes"),
        (batch_of()[:16], InvalidRecord, "there are 16 bytes"),
        (batch_of()[:17], InvalidRecord, "17 of its 106 bytes are there"),
        (EMPTY, InvalidRecord, "claims 0 records"),
        (batch_of() + EMPTY, InvalidRecord, "another one follows it"),
        (batch_of()[:60], InvalidRecord, "60 of its 106 bytes are there"),
        (batch_of()[:-1], InvalidRecord, "105 of its 106 bytes are there"),
        (changed(batch_of(), 8, ">i", 48, crc=False), CorruptMessage, "a batch of 60 bytes"),
        (changed(batch_of(), 8, ">i", -1, crc=False), CorruptMessage, "a batch of 11 bytes"),
        (batch_of() + batch_of(), InvalidRecord, "another one follows it"),
        (batch_of() + b"\x00", CorruptMessage, "1 bytes follow the batch"),
        (batch_of() + batch_of()[:-1], CorruptMessage, "105 bytes follow the batch"),
        (changed(batch_of(), 8, ">i", 93, crc=False), CorruptMessage, "1 bytes follow the batch"),
        (changed(batch_of(), 16, ">b", 3), CorruptMessage, "v3 cannot be"),
        (changed(batch_of(), 16, ">b", -1), CorruptMessage, "v255 cannot be"),
        (changed(batch_of(), 0, ">q", 1), InvalidRecord, "base offset"),
        (changed(batch_of(), HEADER_BYTES + 3, ">b", 9, crc=False), CorruptMessage, "CRC"),
        (changed(batch_of(), ATTRIBUTES_AT, ">h", 5), UnsupportedCompressionType, "codec 5"),
        (changed(batch_of(), 23, ">i", 3), InvalidRecord, "claims 3 records and a last offset delta of 3"),
        (changed(batch_of(), 23, ">i", -1), InvalidRecord, "last offset delta of -1"),
        (changed(batch_of(), 57, ">i", -1), InvalidRecord, "claims -1 records"),
        (changed(batch_of(), 57, ">i", 0), InvalidRecord, "claims 0 records"),
        (changed(changed(batch_of(), 57, ">i", 2), 23, ">i", 1), InvalidRecord, "bytes are left after the 2 records"),
        (changed(changed(batch_of(), 57, ">i", 4), 23, ">i", 3), InvalidRecord, "record 3 of the batch is broken"),
        (batch_of(producer_id=1, producer_epoch=0, base_sequence=0, control=True), InvalidRecord, "control"),
        (batch_of(producer_id=1, producer_epoch=0, control=True), InvalidRecord, "control"),
        (changed(changed(batch_of(), 57, ">i", 0), 23, ">i", -1), InvalidRecord, "claims 0 records"),
        (changed(batch_of(), 43, ">q", 7), InvalidRecord, "producer 7"),
        (changed(changed(batch_of(), 43, ">q", 7), 53, ">i", 0), InvalidRecord, "epoch -1"),
        (changed(batch_of(), 43, ">q", -2), InvalidRecord, "producer -2"),
        (changed(batch_of(), ATTRIBUTES_AT, ">h", 0x10), InvalidRecord, "no producer id"),
        (changed(batch_of(compression=Compression.GZIP), HEADER_BYTES, ">b", 0), InvalidRecord, "gzip"),
        (changed(batch_of(), ATTRIBUTES_AT, ">h", 4), InvalidRecord, "zstd"),
    ],
)  # fmt: skip
def test_what_is_no_sound_batch_of_a_client_is_refused(batch, error, what):
    batch = bytearray(batch)
    before = bytes(batch)
    with pytest.raises(error, match=what) as caught:
        prepare(batch)
    assert type(caught.value).code == error.code
    assert batch == before


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_refused(magic):
    batch = changed(batch_of(), 16, ">b", magic)
    with pytest.raises(InvalidRecord, match=f"v{magic}"):
        prepare(batch)


def test_zstd_needs_a_request_that_knows_it():
    with pytest.raises(UnsupportedCompressionType, match="version 7"):
        prepare(batch_of(compression=Compression.ZSTD), zstd_allowed=False)
    prepare(batch_of(compression=Compression.LZ4), zstd_allowed=False)


def test_a_batch_as_large_as_allowed_is_taken_and_one_byte_more_is_not():
    batch = batch_of()
    prepare(batch, AppendRules(message_bytes_max=len(batch), segment_bytes_max=len(batch)))
    with pytest.raises(MessageTooLarge, match=r"max\.message\.bytes"):
        prepare(batch_of(), AppendRules(message_bytes_max=len(batch) - 1))
    with pytest.raises(RecordListTooLarge, match="a segment"):
        prepare(batch_of(), AppendRules(segment_bytes_max=len(batch) - 1))


def test_a_batch_may_not_become_too_large_by_another_codec():
    batch = batch_of((NOW_MS, b"k", bytes(10_000), ()), compression=Compression.GZIP)
    with pytest.raises(MessageTooLarge):
        prepare(batch, AppendRules(Compression.NONE, message_bytes_max=5_000))


def test_a_batch_may_not_grow_without_bound():
    batch = batch_of((NOW_MS, b"k", bytes(10_000), ()), compression=Compression.GZIP)
    with pytest.raises(InvalidRecord, match="allowed when decompressed"):
        prepare(batch, AppendRules(decompressed_bytes_max=5_000))


@codecs
def test_a_compacted_topic_names_the_records_without_a_key(codec):
    batch = batch_of((NOW_MS, b"", b"v", ()), (NOW_MS, None, b"v", ()), (NOW_MS, None, b"v", ()), compression=codec)
    with pytest.raises(InvalidRecord, match="2 records are refused, record 1: a compacted topic") as caught:
        prepare(batch, AppendRules(keys_required=True))
    assert isinstance(caught.value, RecordsRefused)
    assert [error.batch_index for error in caught.value.record_errors] == [1, 2]
    prepare(batch)


def test_times_out_of_bounds_are_named():
    rules = AppendRules(timestamp_before_max_ms=10, timestamp_after_max_ms=5)
    some = [(NOW_MS + step, b"k", b"v", ()) for step in (-10, 5, -11, 6)]
    with pytest.raises(InvalidTimestamp) as caught:
        prepare(batch_of(*some), rules)
    span = f"is not between {NOW_MS - 10} and {NOW_MS + 5}"
    assert caught.value.record_errors == (
        RecordError(2, f"time {NOW_MS - 11} {span}"),
        RecordError(3, f"time {NOW_MS + 6} {span}"),
    )
    prepare(batch_of(*some), rules._replace(timestamp_type=TimestampType.LOG_APPEND_TIME))


def test_records_may_have_no_time():
    ready = prepare(batch_of((-1, b"k", b"v", ())), AppendRules(timestamp_before_max_ms=0))
    assert ready.max_timestamp_ms == -1


def test_an_append_time_may_not_be_claimed_where_the_broker_sets_it():
    with pytest.raises(InvalidTimestamp, match="broker's") as caught:
        prepare(batch_of(log_append_time_ms=NOW_MS), APPEND_TIME)
    assert len(caught.value.record_errors) == 3
    with pytest.raises(InvalidTimestamp, match="broker's"):
        prepare(batch_of(log_append_time_ms=-1))


def test_a_bad_time_among_other_faults_makes_it_an_error_of_times():
    batch = batch_of((NOW_MS, None, b"v", ()), (0, b"k", b"v", ()))
    with pytest.raises(InvalidTimestamp) as caught:
        prepare(batch, AppendRules(keys_required=True, timestamp_before_max_ms=10))
    assert [error.batch_index for error in caught.value.record_errors] == [0, 1]


def test_refusals_can_be_sent_between_processes():
    with pytest.raises(InvalidRecord) as caught:
        prepare(batch_of((NOW_MS, None, b"v", ())), AppendRules(keys_required=True))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.record_errors, str(again)) == (caught.value.record_errors, str(caught.value))


# ---- coordinators ----


@pytest.mark.parametrize("rules", [AppendRules(), AppendRules(Compression.ZSTD), APPEND_TIME])
def test_a_coordinator_writes_markers_and_they_are_not_compressed(rules):
    marker = end_transaction_batch(
        EndTransactionMarker(commit=True, coordinator_epoch=3), producer_id=1, producer_epoch=2, timestamp_ms=NOW_MS
    )
    written = RecordBatch(bytes(prepare(marker, rules, origin=AppendOrigin.COORDINATOR).buffer))
    written.check()
    assert written.is_control
    assert (written.base_offset, written.compression) == (100, Compression.NONE)


def test_a_coordinator_writes_offsets_of_a_transaction_without_sequences():
    batch = changed(batch_of(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True), 53, ">i", -1)
    with pytest.raises(InvalidRecord, match="sequence -1"):
        prepare(bytearray(batch))
    for rules in (AppendRules(), AppendRules(Compression.GZIP)):
        ready = prepare(bytearray(batch), rules, origin=AppendOrigin.COORDINATOR)
        assert ready.batches[0].base_sequence == -1


# ---- anything ----


@given(
    some=st.lists(records(), min_size=1, max_size=4),
    codec=st.sampled_from(Compression),
    target=st.none() | st.sampled_from(Compression),
    append_time=st.booleans(),
)
def test_what_is_taken_reads_the_same(some, codec, target, append_time):
    kind = TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
    ready = prepare(batch_of(*some, compression=codec), AppendRules(target, timestamp_type=kind), now_ms=2**46)
    written = RecordBatch(bytes(ready.buffer))
    written.check()
    times = [2**46] * len(some) if append_time else [time for time, *_ in some]
    expected = [(100 + n, time, *record[1:]) for n, (time, record) in enumerate(zip(times, some, strict=True))]
    assert written.tuples() == expected
    assert ready.max_timestamp_ms == written.max_timestamp_ms == max(times)


@given(position=st.integers(0, 1 << 16), value=st.integers(0, 255), codec=st.sampled_from(Compression))
def test_any_changed_byte_behind_the_sum_is_refused(position, value, codec):
    batch = batch_of(compression=codec)
    position = ATTRIBUTES_AT + position % (len(batch) - ATTRIBUTES_AT)
    if batch[position] == value:
        return
    batch[position] = value
    with pytest.raises((CorruptMessage, UnsupportedCompressionType)):
        prepare(batch)


FIELDS = [(0, ">q"), (8, ">i"), (16, ">b"), (21, ">h"), (23, ">i"), (27, ">q"), (35, ">q"), (43, ">q"), (51, ">h"),
          (53, ">i"), (57, ">i")]  # fmt: skip
numbers = st.integers(-2, 5) | st.sampled_from([0x10, 0x20, 0x30, 100])
rule_sets = st.builds(
    AppendRules,
    compression_level=st.none(),
    decompressed_bytes_max=st.sampled_from([2**20, 20]),
    compression=st.sampled_from([None, Compression.NONE, Compression.LZ4]),
    timestamp_type=st.sampled_from(TimestampType),
    timestamp_before_max_ms=st.sampled_from([2**63 - 1, 0]),
    timestamp_after_max_ms=st.sampled_from([2**63 - 1, 0]),
    message_bytes_max=st.sampled_from([2**20, 105, 106]),
    segment_bytes_max=st.sampled_from([2**20, 105, 106]),
    keys_required=st.booleans(),
)


@given(
    some=st.none() | st.lists(records(), min_size=1, max_size=3),
    producer=st.sampled_from([{}, {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0, "transactional": True}]),
    edits=st.lists(st.tuples(st.sampled_from(FIELDS), numbers), max_size=2),
    byte=st.none() | st.tuples(st.integers(0, 1 << 16), st.integers(0, 255), st.booleans()),
    rules=rule_sets,
)
def test_the_short_cut_for_plain_batches_is_what_the_steps_do(some, producer, edits, byte, rules):
    batch = batch_of(*some or [(NOW_MS, b"key", b"value", ())] * 3, **producer)
    for (position, format_), value in edits:
        batch = changed(batch, position, format_, value)
    if byte is not None:
        batch = changed(batch, byte[0] % len(batch), ">B", byte[1], crc=byte[2])
    terms = validation.plain_terms(rules)
    placed = terms and place_plain_batch(shortened := bytearray(batch), 100, 5, NOW_MS, *terms)
    if not placed:
        return
    steps = bytearray(batch)
    ready = prepare(steps, rules)
    assert bytes(ready.buffer) == bytes(steps) == bytes(shortened)
    assert (ready.log_append_time_ms, ready.is_rewritten, ready.size_bytes) == (-1, False, placed.size_bytes)
    for name in set(PlacedBatch._fields) - {"last_sequence"}:
        assert getattr(placed, name) == getattr(ready.batches[0], name), name
    if placed.producer_id >= 0:
        assert placed.last_sequence == ready.batches[0].last_sequence


@given(
    edits=st.lists(st.tuples(st.sampled_from(FIELDS), numbers), max_size=2),
    byte=st.none() | st.tuples(st.integers(0, 1 << 16), st.integers(0, 255), st.booleans()),
    rules=rule_sets,
)
def test_what_the_short_cut_does_not_take_is_left_as_it_was(edits, byte, rules):
    batch = batch_of()
    for (position, format_), value in edits:
        batch = changed(batch, position, format_, value)
    if byte is not None:
        batch = changed(batch, byte[0] % len(batch), ">B", byte[1], crc=byte[2])
    before, terms = bytes(batch), validation.plain_terms(rules)
    if terms and place_plain_batch(batch, 100, 5, NOW_MS, *terms) is None:
        assert batch == before


def test_a_plain_batch_takes_the_short_cut():
    if place_plain_batch is checks.place_plain_batch:
        pytest.skip("ottla.records._checks is not built: that needs a C compiler")
    for batch in (batch_of(), batch_of(producer_id=0, producer_epoch=0, base_sequence=0, transactional=True)):
        assert place_plain_batch(bytes(batch), 1, 2, NOW_MS, len(batch), True, 5, 5) is None
        placed = place_plain_batch(batch, 1, 2, NOW_MS, len(batch), True, 5, 5)
        assert (placed.base_offset, placed.last_offset, placed.max_timestamp_ms) == (1, 3, NOW_MS + 2)


def test_sequences_of_a_plain_batch_go_on_with_0_after_the_last():
    batch = batch_of(producer_id=7, producer_epoch=0, base_sequence=2**31 - 2)
    if place_plain_batch is checks.place_plain_batch:
        pytest.skip("ottla.records._checks is not built: that needs a C compiler")
    assert place_plain_batch(batch, 1, 2, NOW_MS, len(batch), True, 5, 5).last_sequence == 0


@pytest.mark.parametrize(
    "rules",
    [APPEND_TIME, AppendRules(compression=Compression.LZ4)],
)
def test_a_topic_that_changes_every_batch_has_no_terms_for_plain_ones(rules):
    assert validation.plain_terms(rules) is None
