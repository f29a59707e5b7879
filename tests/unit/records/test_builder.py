import struct

import pytest

from ottla.records import Compression, TimestampType
from ottla.records.builder import CompressionRatios
from ottla.records.compression import compress


def test_a_batch_is_laid_out_as_the_drawing_says(twin):
    builder = twin.BatchBuilder(
        base_offset=7, producer_id=9, producer_epoch=3, base_sequence=11, transactional=True, leader_epoch=5
    )
    builder.append(1000, b"k", b"vv", [("h", b"x"), ("n", None)])
    builder.append(1003, None, None)
    data = builder.close()
    facts = struct.unpack_from(">qiibIhiqqqhii", data)
    assert facts[:4] == (7, len(data) - 12, 5, 2)
    assert facts[4] == twin.crc32c(data[21:])
    assert facts[5:] == (0x10, 1, 1000, 1003, 9, 3, 11, 2)
    first = "00 00 00 02 6b 04 76 76 04 02 68 02 78 02 6e 01"
    second = "00 06 02 01 01 00"
    assert data[61:] == bytes.fromhex("20" + first + "0c" + second)


def test_the_first_record_is_taken_however_large(twin):
    builder = twin.BatchBuilder(size_limit_bytes=100)
    assert builder.append(0, None, b"x" * 5000) is True
    assert builder.is_full
    assert builder.append(0, None, b"") is False
    assert twin.RecordBatch(builder.close()).records()[0].value == b"x" * 5000


def test_a_batch_is_filled_to_the_last_byte_and_no_further(twin):
    record_bytes = 1 + 6 + 10
    builder = twin.BatchBuilder(size_limit_bytes=61 + 2 * record_bytes)
    assert builder.append(0, None, b"x" * 10)
    assert not builder.is_full
    assert builder.append(0, None, b"x" * 10)
    assert builder.is_full
    assert not builder.append(0, None, b"")
    assert len(builder.close()) == 61 + 2 * record_bytes


def test_a_refused_record_changes_nothing(twin):
    builder, other = (twin.BatchBuilder(size_limit_bytes=100) for _ in range(2))
    for each in (builder, other):
        each.append(5, b"a", b"b")
    assert not builder.append(99, None, b"x" * 100)
    assert builder.close() == other.close()


def test_the_size_estimate_is_exact_without_compression(twin):
    builder = twin.BatchBuilder()
    assert builder.size_estimate_bytes == 61
    builder.append(0, b"key", b"value", [("a", b"b")])
    estimate = builder.size_estimate_bytes
    assert estimate == 61 + builder.uncompressed_bytes == len(builder.close()) == builder.size_estimate_bytes


def test_the_size_estimate_of_a_compressed_batch_uses_the_expected_ratio(twin):
    builder = twin.BatchBuilder(compression=Compression.GZIP, compression_ratio=0.5)
    builder.append(0, None, b"x" * 1000)
    assert builder.size_estimate_bytes == 61 + int(builder.uncompressed_bytes * 0.5 * 1.05)
    assert builder.compression_ratio == 0.5
    data = builder.close()
    assert builder.compression_ratio == (len(data) - 61) / builder.uncompressed_bytes
    assert builder.size_estimate_bytes == len(data)


def test_a_good_ratio_lets_more_records_in(twin):
    def taken(ratio):
        builder = twin.BatchBuilder(compression=Compression.ZSTD, size_limit_bytes=1000, compression_ratio=ratio)
        return builder.append_many(0, None, [b"x" * 100] * 100)

    assert taken(1.0) == 8
    assert taken(0.25) == 30


def test_the_codec_asked_for_is_used_even_when_it_does_not_help(twin):
    builder = twin.BatchBuilder(compression=Compression.GZIP)
    builder.append(0, None, b"?")
    batch = twin.RecordBatch(builder.close())
    assert batch.compression is Compression.GZIP
    assert builder.compression_ratio > 1
    assert batch.records()[0].value == b"?"


def test_append_many_takes_what_fits(twin):
    builder = twin.BatchBuilder(size_limit_bytes=61 + 3 * 8)
    assert builder.append_many([5, 6, 7, 8], None, [b"a", b"b", b"c", b"d"]) == 3
    assert [r.timestamp_ms for r in twin.RecordBatch(builder.close())] == [5, 6, 7]


def test_append_many_gives_the_same_bytes_as_append(twin):
    many, single = twin.BatchBuilder(), twin.BatchBuilder()
    keys, values = [b"a", None, b"c"], [None, b"2", b"3"]
    headers = [[("h", b"1")], [], [("i", None), ("j", b"")]]
    assert many.append_many([1, 2, 3], keys, values, headers) == 3
    for index in range(3):
        single.append(index + 1, keys[index], values[index], headers[index])
    assert many.close() == single.close()


def test_append_many_takes_tuples_and_one_time_for_all(twin):
    builder = twin.BatchBuilder()
    assert builder.append_many(42, (b"a", b"b"), (b"1", b"2")) == 2
    assert {record.timestamp_ms for record in twin.RecordBatch(builder.close())} == {42}


def test_append_many_refuses_lists_of_different_length(twin):
    builder = twin.BatchBuilder()
    for arguments in [([1], None, [b"a", b"b"]), (1, [b"k"], [b"a", b"b"]), (1, None, [b"a", b"b"], [[]])]:
        with pytest.raises(ValueError, match="one length"):
            builder.append_many(*arguments)
    assert builder.record_count == 0


def test_append_many_takes_all_or_nothing_when_one_is_wrong(twin):
    builder, other = twin.BatchBuilder(), twin.BatchBuilder()
    with pytest.raises(TypeError):
        builder.append_many([50, 60, 70], None, [b"a", b"b", "text"])
    assert (builder.record_count, builder.uncompressed_bytes) == (0, 0)
    for each in (builder, other):
        each.append(7, None, b"fine")
    assert builder.close() == other.close()


@pytest.mark.parametrize("wrong", ["text", 5, 1.5, [b"x"], object()])
def test_a_key_or_value_that_is_not_bytes_is_refused_in_words(twin, wrong):
    builder = twin.BatchBuilder()
    with pytest.raises(TypeError, match=f"value must be bytes-like or None, not {type(wrong).__name__}"):
        builder.append(0, None, wrong)
    with pytest.raises(TypeError, match=f"key must be bytes-like or None, not {type(wrong).__name__}"):
        builder.append(0, wrong, None)
    with pytest.raises(TypeError, match=f"header value must be bytes-like or None, not {type(wrong).__name__}"):
        builder.append(0, None, None, [("h", wrong)])
    assert builder.record_count == 0


def test_a_header_key_must_be_text(twin):
    builder = twin.BatchBuilder()
    with pytest.raises(TypeError, match="header's key must be str, not bytes"):
        builder.append(0, None, None, [(b"h", b"v")])
    with pytest.raises(UnicodeEncodeError):
        builder.append(0, None, None, [("\ud800", b"v")])
    with pytest.raises((TypeError, ValueError)):
        builder.append(0, None, None, [("h",)])
    assert builder.record_count == 0
    assert builder.close() == b""


@pytest.mark.parametrize("data", [bytearray(b"abcd"), memoryview(b"abcd"), memoryview(b"xxabcd")[2:]])
def test_all_bytes_like_objects_are_taken(twin, data):
    builder = twin.BatchBuilder()
    assert builder.append(0, data, data, [("h", data)])
    (record,) = twin.RecordBatch(builder.close())
    assert (record.key, record.value, record.headers) == (b"abcd", b"abcd", (("h", b"abcd"),))


def test_a_strided_view_is_refused(twin):
    with pytest.raises(TypeError, match="contiguous"):
        twin.BatchBuilder().append(0, None, memoryview(b"abcdef")[::2])


def test_a_timestamp_is_an_int_from_minus_one(twin):
    builder = twin.BatchBuilder()
    for wrong in (1.5, "1", None):
        with pytest.raises(TypeError, match="timestamp must be int"):
            builder.append(wrong, None, b"x")
    for wrong in (-2, 2**63, -(2**70)):
        with pytest.raises(ValueError, match="out of range"):
            builder.append(wrong, None, b"x")
    assert builder.record_count == 0
    assert builder.append(-1, None, b"x")
    assert builder.append(2**63 - 1, None, b"x")
    assert [record.timestamp_ms for record in twin.RecordBatch(builder.close())] == [-1, 2**63 - 1]


def test_offset_gaps_are_kept(twin):
    builder = twin.BatchBuilder(base_offset=100)
    for offset in (102, 105, 2**31 + 99):
        assert builder.append_with_offset(offset, 1, None, b"x")
    batch = twin.RecordBatch(builder.close())
    batch.check()
    assert [record.offset for record in batch] == [102, 105, 2**31 + 99]
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (100, 2**31 + 99, 3)


def test_offsets_must_grow_and_stay_near(twin):
    builder = twin.BatchBuilder(base_offset=100)
    with pytest.raises(ValueError, match="does not come after"):
        builder.append_with_offset(99, 1, None, b"x")
    builder.append_with_offset(100, 1, None, b"x")
    with pytest.raises(ValueError, match="does not come after"):
        builder.append_with_offset(100, 1, None, b"x")
    with pytest.raises(ValueError):
        builder.append_with_offset(100 + 2**31, 1, None, b"x")
    assert builder.record_count == 1


def test_compaction_keeps_the_last_offset_of_a_batch(twin):
    builder = twin.BatchBuilder(base_offset=10)
    builder.append_with_offset(12, 1, b"k", b"v")
    builder.override_last_offset(19)
    batch = twin.RecordBatch(builder.close())
    batch.check()
    assert (batch.last_offset, batch.record_count) == (19, 1)


def test_compaction_may_leave_a_header_without_records(twin):
    builder = twin.BatchBuilder(
        base_offset=10, producer_id=5, producer_epoch=1, base_sequence=3, compression=Compression.LZ4
    )
    builder.override_last_offset(14)
    batch = twin.RecordBatch(builder.close())
    batch.check()
    assert (batch.size_bytes, batch.record_count, batch.last_offset, batch.last_sequence) == (61, 0, 14, 7)
    assert batch.records() == []


def test_the_last_offset_cannot_be_moved_back_or_after_close(twin):
    builder = twin.BatchBuilder()
    builder.append_many(0, None, [b"x"] * 3)
    with pytest.raises(ValueError, match="already reaches"):
        builder.override_last_offset(1)
    builder.close()
    with pytest.raises(ValueError, match="closed"):
        builder.override_last_offset(9)


def test_log_append_time_sets_the_bit_and_the_time(twin):
    builder = twin.BatchBuilder(log_append_time_ms=5000)
    builder.append(1, None, b"x")
    batch = twin.RecordBatch(builder.close())
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (1, 5000)
    assert batch.records()[0].timestamp_ms == 5000


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp(twin):
    builder = twin.BatchBuilder(delete_horizon_ms=9000)
    builder.append(100, b"k", None)
    batch = twin.RecordBatch(builder.close())
    assert batch.has_delete_horizon
    assert batch.base_timestamp_ms == 9000
    assert batch.records()[0].timestamp_ms == 100


def test_a_control_batch_has_its_bit(twin):
    builder = twin.BatchBuilder(control=True, transactional=True, producer_id=1, producer_epoch=0)
    builder.append(0, b"\0\0\0\1", b"\0\0\0\0\0\0")
    batch = twin.RecordBatch(builder.close())
    assert batch.is_control
    assert batch.is_transactional
    assert batch.base_sequence == -1


def test_close_gives_the_same_bytes_again(twin):
    builder = twin.BatchBuilder(compression=Compression.ZSTD)
    builder.append(0, None, b"x")
    assert not builder.is_closed
    assert builder.close() is builder.close()
    assert builder.is_closed
    assert builder.is_full
    assert builder.append(0, None, b"y") is False
    assert builder.append_many(0, None, [b"y"]) == 0


def test_a_builder_without_records_gives_no_batch(twin):
    builder = twin.BatchBuilder()
    assert builder.close() == b""
    assert builder.is_closed
    builder.set_producer(1, 1, 1, False)
    assert builder.close() == b""


@pytest.mark.parametrize("compression", list(Compression))
def test_a_retry_with_a_new_epoch_does_not_touch_the_bytes_already_given(twin, compression):
    builder = twin.BatchBuilder(compression=compression, producer_id=7, producer_epoch=0, base_sequence=5)
    builder.append(1, b"k", b"v" * 50)
    first = builder.close()
    kept = bytes(bytearray(first))
    builder.set_producer(7, 1, 0, True)
    second = builder.close()
    assert first == kept
    batch = twin.RecordBatch(second)
    batch.check()
    assert (batch.producer_epoch, batch.base_sequence, batch.is_transactional) == (1, 0, True)
    assert batch.records() == twin.RecordBatch(first).records()


@pytest.mark.parametrize(
    "producer",
    [(-1, -1, -1, True), (5, -1, 0, False), (5, 0, -1, False), (-3, 0, 0, False)],
)
def test_a_producer_state_that_no_broker_would_take_is_refused(twin, producer):
    builder = twin.BatchBuilder()
    names = ("producer_id", "producer_epoch", "base_sequence", "transactional")
    with pytest.raises(ValueError):
        builder.set_producer(*producer)
    with pytest.raises(ValueError):
        twin.BatchBuilder(**dict(zip(names, producer, strict=True)))


@pytest.mark.parametrize(
    "arguments",
    [
        {"size_limit_bytes": -1},
        {"size_limit_bytes": 2**31},
        {"compression_ratio": 0.0},
        {"compression_ratio": float("nan")},
        {"compression": 7},
        {"compression": Compression.GZIP, "level": 99},
    ],
)
def test_senseless_arguments_are_refused(twin, arguments):
    with pytest.raises(ValueError):
        twin.BatchBuilder(**arguments)


@pytest.mark.parametrize("level", [1, 9])
def test_the_level_reaches_the_codec(twin, level):
    plain, packed = twin.BatchBuilder(), twin.BatchBuilder(compression=Compression.GZIP, level=level)
    for builder in (plain, packed):
        builder.append(0, None, b"".join(str(i * i).encode() for i in range(3000)))
    records = plain.close()[61:]
    assert packed.close()[61:] == compress(Compression.GZIP, records, level)
    assert compress(Compression.GZIP, records, 1) != compress(Compression.GZIP, records, 9)


def test_good_news_about_compression_is_believed_slowly_and_bad_news_at_once():
    ratios = CompressionRatios()
    assert ratios.estimate("t", Compression.LZ4) == 1.0
    assert ratios.update("t", Compression.LZ4, 0.2) == pytest.approx(0.995)
    assert ratios.update("t", Compression.LZ4, 0.994) == pytest.approx(0.994)
    assert ratios.update("t", Compression.LZ4, 0.995) == pytest.approx(1.044)
    assert ratios.update("t", Compression.LZ4, 3.0) == 3.0
    assert ratios.update("t", Compression.LZ4, 3.0) == 3.0
    assert ratios.estimate("t", Compression.GZIP) == 1.0
    assert ratios.estimate("u", Compression.LZ4) == 1.0
    ratios.reset("t", Compression.LZ4)
    assert ratios.estimate("t", Compression.LZ4) == 1.0
    ratios.reset("t", Compression.LZ4, 0.5)
    ratios.forget("t")
    assert ratios.estimate("t", Compression.LZ4) == 1.0
