import pickle
import sys

import pytest

from ottla.errors import CorruptMessage
from ottla.records import Compression, TimestampType
from ottla.records.compression import compress
from ottla.records.varint import encode_varint, encode_varlong


def built(twin, count=3, **arguments):
    builder = twin.BatchBuilder(size_limit_bytes=1 << 20, **arguments)
    for index in range(count):
        builder.append(1000 + index, b"k%d" % index, b"v%d" % index, [("h", b"x")])
    return builder.close()


def body(*, timestamp=0, offset=0, key=None, value=None, headers=b"\x00"):
    """A record's inside, with key and value as ready-made bytes when they shall be wrong."""
    return b"\x00" + encode_varlong(timestamp) + encode_varint(offset) + (key or b"\x01") + (value or b"\x01") + headers


def framed(inside):
    return encode_varint(len(inside)) + inside


def test_a_batch_tells_what_its_header_says(twin):
    data = built(twin, base_offset=50, producer_id=3, producer_epoch=2, base_sequence=9, leader_epoch=4)
    batch = twin.RecordBatch(b"xyz" + data, 3)
    batch.check()
    assert (batch.position, batch.size_bytes, batch.magic, batch.attributes) == (3, len(data), 2, 0)
    assert (batch.base_offset, batch.last_offset_delta, batch.last_offset, batch.next_offset) == (50, 2, 52, 53)
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (1000, 1002)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (3, 2, 9, 11)
    assert (batch.leader_epoch, batch.record_count) == (4, 3)
    assert batch.compression is Compression.NONE
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert (batch.is_transactional, batch.is_control, batch.has_delete_horizon) == (False, False, False)
    assert batch.crc == twin.crc32c(data[21:])
    assert "base_offset=50" in repr(batch)


@pytest.mark.parametrize("compression", list(Compression))
def test_records_come_back(twin, compression):
    batch = twin.RecordBatch(built(twin, compression=compression))
    batch.check()
    expected = [(i, 1000 + i, b"k%d" % i, b"v%d" % i, (("h", b"x"),)) for i in range(3)]
    assert batch.tuples() == expected
    assert [tuple(record) for record in batch.records()] == expected
    assert list(batch) == batch.records()


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_buffer_will_do_and_records_outlive_it(twin, wrap):
    data = bytearray(built(twin))
    records = twin.RecordBatch(wrap(data)).records()
    data[:] = bytes(len(data))
    assert records[2].value == b"v2"
    assert records[2].headers == (("h", b"x"),)


def test_nulls_and_empty_bytes_are_different(twin):
    builder = twin.BatchBuilder()
    builder.append(0, None, None, [("h", None)])
    builder.append(0, b"", b"", [("", b"")])
    first, second = twin.RecordBatch(builder.close())
    assert (first.key, first.value, first.headers) == (None, None, (("h", None),))
    assert (second.key, second.value, second.headers) == (b"", b"", (("", b""),))


def test_sequences_start_again_at_zero_after_the_largest(twin, seal):
    data = seal(b"", 0, last_offset_delta=5, producer_id=1, producer_epoch=0, base_sequence=2**31 - 3)
    assert twin.RecordBatch(data).last_sequence == 2
    assert twin.RecordBatch(seal(b"", 0, last_offset_delta=5)).last_sequence == -1


def test_log_append_time_hides_the_deltas(twin, seal):
    data = seal(framed(body(timestamp=77)), 1, attributes=0x08, max_timestamp_ms=4321)
    (record,) = twin.RecordBatch(data)
    assert record.timestamp_ms == 4321


def test_times_and_offsets_wrap_like_java(twin, seal):
    data = seal(framed(body(timestamp=1, offset=1)), 1, base_timestamp_ms=2**63 - 1, base_offset=2**63 - 1)
    (record,) = twin.RecordBatch(data)
    assert (record.timestamp_ms, record.offset) == (-(2**63), -(2**63))


def test_text_that_is_not_utf8_does_not_block_the_record(twin, seal):
    data = seal(framed(body(headers=b"\x02\x04\xff\x41\x01")), 1)
    (record,) = twin.RecordBatch(data)
    assert record.headers == (("\ufffdA", None),)


def test_check_finds_every_flipped_bit_under_the_crc(twin):
    data = built(twin, 1)
    for position in range(21, len(data)):
        broken = bytearray(data)
        broken[position] ^= 0x10
        with pytest.raises(CorruptMessage):
            twin.RecordBatch(broken).check()


def test_the_error_says_what_and_where(twin):
    data = bytearray(b"..." + built(twin))
    data[-1] ^= 1
    with pytest.raises(CorruptMessage, match=r"batch at position 3 says its CRC is 0x\w{8}, its bytes give 0x\w{8}"):
        twin.RecordBatch(data, 3).check()


@pytest.mark.parametrize("available", [0, 1, 60])
def test_less_than_a_header_is_corrupt(twin, available):
    with pytest.raises(CorruptMessage, match="61 bytes"):
        twin.RecordBatch(built(twin)[:available])


@pytest.mark.parametrize("position", [-1, -61, 10**9, sys.maxsize])
def test_a_position_outside_the_buffer_is_corrupt(twin, position):
    with pytest.raises(CorruptMessage):
        twin.RecordBatch(built(twin), position)


@pytest.mark.parametrize(
    ("at", "value", "sentence"),
    [
        (8, b"\x7f\xff\xff\xff", "only 106 are there"),
        (8, b"\x80\x00\x00\x00", "header alone"),
        (8, b"\x00\x00\x00\x00", "header alone"),
        (8, b"\xff\xff\xff\xff", "header alone"),
        (16, b"\x01", "magic 1"),
        (16, b"\xff", "magic -1"),
        (22, b"\x05", "codec 5"),
        (22, b"\x07", "codec 7"),
        (23, b"\xff\xff\xff\xff", "last offset delta of -1"),
        (57, b"\xff\xff\xff\xff", "claims -1 records"),
        (57, b"\x00\x00\x00\x04", "claims 4 records"),
    ],
)
def test_a_header_that_cannot_be_is_refused_before_anything_is_read(twin, at, value, sentence):
    data = bytearray(built(twin))
    data[at : at + len(value)] = value
    batch = twin.RecordBatch(data)
    for read in (batch.check, batch.records, batch.tuples):
        with pytest.raises(CorruptMessage, match=sentence):
            read()


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_claimed_count_takes_no_memory_that_the_bytes_do_not_justify(twin, seal, compression):
    payload = compress(compression, framed(body()))
    data = seal(payload, 2**31 - 1, attributes=int(compression))
    with pytest.raises(CorruptMessage, match="2147483647 records in"):
        twin.RecordBatch(data).records()


def test_more_records_than_offsets_is_corrupt(twin, seal):
    with pytest.raises(CorruptMessage, match="2 records"):
        twin.RecordBatch(seal(framed(body()) * 2, 2, last_offset_delta=0)).check()


def test_unused_attribute_bits_are_ignored(twin, seal):
    batch = twin.RecordBatch(seal(framed(body()), 1, attributes=-128))
    batch.check()
    assert len(batch.records()) == 1


BROKEN = {
    "longer than the batch": b"\x7e" + body(),
    "negative length": b"\x01" + body(),
    "shorter than its content": encode_varint(len(body()) - 1) + body(),
    "longer than its content": framed(body() + b"\x00"),
    "nothing inside": b"\x00" + b"\x00" * 6,
    "length never ends": b"\xff" * 8,
    "length of 33 bits": b"\x80\x80\x80\x80\x10\x00\x00",
    "timestamp never ends": framed(b"\x00" + b"\xff" * 11),
    "key longer than the record": framed(body(key=b"\x10")),
    "key length below -1": framed(body(key=b"\x03")),
    "value longer than the record": framed(body(value=encode_varint(2**31 - 1))),
    "value length below -1": framed(body(value=encode_varint(-(2**31)))),
    "negative number of headers": framed(body(headers=b"\x01")),
    "a number of headers without headers": framed(body(headers=encode_varint(2**31 - 1))),
    "header key is null": framed(body(headers=b"\x02\x01\x01")),
    "header key longer than the record": framed(body(headers=b"\x02\x7e\x01")),
    "header value longer than the record": framed(body(headers=b"\x02\x02a\x7e")),
    "header value length below -1": framed(body(headers=b"\x02\x02a\x03")),
    "header value missing": framed(body(headers=b"\x04\x02a\x01\x02a")),
    "ends before the offset": framed(b"\x00\x00") + b"\x00" * 4,
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_a_broken_record_is_corrupt_and_named(twin, seal, name, compression):
    payload = framed(body()) + BROKEN[name]
    data = seal(compress(compression, payload), 2, attributes=int(compression))
    batch = twin.RecordBatch(data)
    batch.check()
    for read in (batch.records, batch.tuples, batch.__iter__):
        with pytest.raises(
            CorruptMessage, match=r"record 1 of the batch at position 0|bytes are left after the 2 records"
        ):
            read()


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_bytes_after_the_last_record_are_corrupt(twin, seal, compression):
    data = seal(compress(compression, framed(body()) + b"\x00"), 1, attributes=int(compression))
    with pytest.raises(CorruptMessage, match="1 bytes are left"):
        twin.RecordBatch(data).records()


@pytest.mark.parametrize("compression", [c for c in Compression if c])
def test_a_batch_may_not_grow_beyond_the_limit(twin, compression):
    builder = twin.BatchBuilder(compression=compression, size_limit_bytes=1 << 20)
    builder.append(0, None, bytes(200_000))
    batch = twin.RecordBatch(builder.close())
    batch.check()
    assert len(batch.records(limit_bytes=201_000)) == 1
    for read in (batch.records, batch.tuples):
        with pytest.raises(CorruptMessage):
            read(limit_bytes=100_000)


@pytest.mark.parametrize("compression", [c for c in Compression if c])
def test_garbage_instead_of_compressed_bytes_is_corrupt(twin, seal, compression):
    with pytest.raises(CorruptMessage):
        twin.RecordBatch(seal(b"garbage" * 3, 1, attributes=int(compression))).records()


def test_a_batch_larger_than_the_lock_free_limit_is_checked_too(twin):
    builder = twin.BatchBuilder(size_limit_bytes=1 << 20)
    builder.append(0, None, bytes(range(256)) * 2000)
    data = bytearray(builder.close())
    twin.RecordBatch(data).check()
    data[300_000] ^= 1
    with pytest.raises(CorruptMessage, match="CRC"):
        twin.RecordBatch(data).check()


def test_a_record_behaves_like_a_named_tuple(twin):
    record = twin.RecordBatch(built(twin)).records()[1]
    plain = (1, 1001, b"k1", b"v1", (("h", b"x"),))
    assert record == plain
    assert plain == record
    assert record != (1, 1001, b"k1", b"v1", ())
    assert record != 5
    assert hash(record) == hash(plain)
    assert tuple(record) == plain
    assert len(record) == 5
    assert record[2] == b"k1"
    assert record[-1] == (("h", b"x"),)
    assert record[:2] == (1, 1001)
    for outside in (5, -6):
        with pytest.raises(IndexError):
            record[outside]
    assert pickle.loads(pickle.dumps(record)) == record
    assert repr(record) == "Record(offset=1, timestamp_ms=1001, key=b'k1', value=b'v1', headers=(('h', b'x'),))"
    assert twin.Record(1, 1001, b"k1", b"v1", (("h", b"x"),)) == record
    assert twin.Record(1, 2, None, None).headers == ()


@pytest.mark.parametrize("name", ["offset", "timestamp_ms", "key", "value", "headers", "other"])
def test_a_record_cannot_be_changed(twin, name):
    record = twin.RecordBatch(built(twin)).records()[0]
    with pytest.raises(AttributeError):
        setattr(record, name, b"x")
    with pytest.raises(AttributeError):
        delattr(record, name)


def test_a_batch_keeps_its_buffer_from_shrinking(twin):
    data = bytearray(built(twin))
    batch = twin.RecordBatch(data)
    with pytest.raises(BufferError):
        data.clear()
    del batch
    data.clear()


def test_something_without_bytes_is_refused(twin):
    for make in (twin.RecordBatch, twin.BatchInfo, twin.scan, twin.RecordStream):
        with pytest.raises(TypeError):
            make("text")
