"""Message sets v0 and v1: the same bytes as the other clients write, every quirk read, all damage one error."""

import binascii
import struct
import warnings
from types import SimpleNamespace

import cramjam
import lz4.frame
import pytest
from aiokafka.record import legacy_records as aiokafka_legacy
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptMessage
from ottla.records.compression import Compression, compress
from ottla.records.legacy import LegacyRecord, build_message_set, read_message_set

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas the old way
    import kafka.codec
    from kafka.record import legacy_records as kafka_python_legacy

NONE, GZIP, SNAPPY, LZ4 = Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4
PEERS = [kafka_python_legacy, aiokafka_legacy]
MIB = 1 << 20

payloads = st.none() | st.binary(max_size=40)
record_lists = st.lists(st.tuples(st.integers(0, 2**60), payloads, payloads), min_size=1, max_size=6).map(
    lambda rows: [LegacyRecord(offset, timestamp, k, v) for offset, (timestamp, k, v) in enumerate(rows)]
)
RECORDS = [
    LegacyRecord(0, 1000, b"key", b"value"),
    LegacyRecord(1, 3000, None, b""),
    LegacyRecord(2, 2000, b"", None),
]


def xxh32(data):
    """xxHash-32 from lz4's own library, which puts it behind a frame; digests are big-endian."""
    digest = lz4.frame.compress(data, content_checksum=True)[:-5:-1]
    return SimpleNamespace(digest=lambda: digest)


@pytest.fixture(autouse=True)
def _kafka_python_has_its_libraries(monkeypatch):
    """kafka-python wants python-snappy and xxhash; what it calls of them is here by other ways."""
    raw = SimpleNamespace(compress=cramjam.snappy.compress_raw, decompress=cramjam.snappy.decompress_raw)
    monkeypatch.setattr(kafka.codec, "snappy", raw)
    monkeypatch.setattr(kafka.codec, "xxhash", SimpleNamespace(xxh32=xxh32))


def as_read(magic, records):
    return [record._replace(timestamp_ms=record.timestamp_ms if magic else -1) for record in records]


def shifted(records, base):
    return [record._replace(offset=record.offset + base) for record in records]


# ---- the other clients ----


def built_by(peer, magic, records, codec=NONE):
    builder = peer.LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=MIB)
    for record in records:
        assert builder.append(record.offset, timestamp=record.timestamp_ms, key=record.key, value=record.value)
    return bytes(builder.build())


def read_by(peer, magic, message):
    batch = peer.LegacyRecordBatch(message, magic)
    assert batch.validate_crc()
    return [
        LegacyRecord(record.offset, -1 if record.timestamp is None else record.timestamp, record.key, record.value)
        for record in batch
    ]


def messages_of(message_set):
    while message_set:
        end = 12 + struct.unpack_from(">i", message_set, 8)[0]
        yield message_set[:end]
        message_set = message_set[end:]


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("magic", [0, 1])
@given(records=record_lists)
@settings(max_examples=50)
def test_uncompressed_sets_are_byte_for_byte_those_of_others(peer, magic, records):
    ours = build_message_set(magic, records)
    assert ours == built_by(peer, magic, records)
    assert read_message_set(ours, 0) == (as_read(magic, records), 0)
    theirs = [record for message in messages_of(ours) for record in read_by(peer, magic, message)]
    assert theirs == as_read(magic, records)


CODECS_OF_PEERS = [
    (peer, magic, codec)
    for peer in PEERS
    for magic in (0, 1)
    for codec in (GZIP, SNAPPY, LZ4)
    if (peer, magic, codec) != (aiokafka_legacy, 0, LZ4)  # aiokafka refuses lz4 for v0
]


@pytest.mark.parametrize(("peer", "magic", "codec"), CODECS_OF_PEERS)
def test_we_read_compressed_sets_of_others(peer, magic, codec):
    found = read_message_set(built_by(peer, magic, RECORDS, codec), MIB)
    assert found == (as_read(magic, RECORDS), 0)


@pytest.mark.parametrize(("peer", "magic", "codec"), CODECS_OF_PEERS)
@pytest.mark.parametrize("base", [0, 1000])
def test_others_read_our_compressed_sets(peer, magic, codec, base):
    records = shifted(RECORDS, base)
    assert read_by(peer, magic, build_message_set(magic, records, codec)) == as_read(magic, records)


# ---- what we write we read ----


@given(record_lists, st.sampled_from([0, 1]), st.sampled_from([NONE, GZIP, SNAPPY, LZ4]), st.integers(0, 2**40))
def test_round_trip(records, magic, codec, base):
    records = shifted(records, base)
    assert read_message_set(build_message_set(magic, records, codec), MIB) == (as_read(magic, records), 0)


def test_several_compressed_and_plain_sets_in_one_buffer():
    parts = [build_message_set(1, shifted(RECORDS, base), codec) for base, codec in [(0, GZIP), (3, NONE), (6, LZ4)]]
    found = read_message_set(memoryview(b"".join(parts)), MIB)
    assert [record.offset for record in found.records] == list(range(9))


def test_offsets_with_holes_survive_compression():
    records = [RECORDS[0]._replace(offset=offset) for offset in (10, 15, 99)]
    assert read_message_set(build_message_set(1, records, GZIP), MIB).records == records


def test_an_empty_set_is_no_bytes():
    assert build_message_set(1, [], GZIP) == b""
    assert read_message_set(b"", 0) == ([], 0)


def test_levels_reach_the_codec():
    with pytest.raises(ValueError, match="gzip has no compression level 10"):
        build_message_set(1, RECORDS, GZIP, 10)


@pytest.mark.parametrize(
    ("magic", "codec", "append_time", "says"),
    [(2, NONE, None, "magic 0 or 1"), (1, Compression.ZSTD, None, "zstd"), (0, NONE, 5, "no timestamps")],
)
def test_what_the_format_cannot_hold_is_not_built(magic, codec, append_time, says):
    with pytest.raises(ValueError, match=says):
        build_message_set(magic, RECORDS, codec, log_append_time_ms=append_time)


# ---- quirks ----


def message(offset, magic, attributes, value, timestamp=7, key=None, tail=b""):
    """One message by hand."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    body += tail
    return struct.pack(">qiI", offset, len(body) + 4, binascii.crc32(body)) + body


def test_a_message_by_hand():
    by_hand = message(5, 1, 0, b"value", timestamp=9, key=b"key")
    assert by_hand == build_message_set(1, [LegacyRecord(5, 9, b"key", b"value")])
    assert by_hand[:12].hex(" ") == "00 00 00 00 00 00 00 05 00 00 00 1e"


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_v1_offsets_inside_a_wrapper_are_relative_to_its_last(codec):
    inner = b"".join(message(offset, 1, 0, b"v") for offset in (0, 1, 4))
    found = read_message_set(message(104, 1, codec, compress(codec, inner)), MIB)
    assert [record.offset for record in found.records] == [100, 101, 104]


@pytest.mark.parametrize("wrapper_offset", [0, 7, 12])
def test_v0_offsets_inside_a_wrapper_are_absolute(wrapper_offset):
    inner = b"".join(message(offset, 0, 0, b"v") for offset in (10, 11, 12))
    found = read_message_set(message(wrapper_offset, 0, GZIP, compress(GZIP, inner)), MIB)
    assert [record.offset for record in found.records] == [10, 11, 12]


@pytest.mark.parametrize("wrapper_offset", [0, 1])
def test_a_wrapper_nobody_gave_an_offset_leaves_the_offsets_inside(wrapper_offset):
    inner = b"".join(message(offset, 1, 0, b"v") for offset in (0, 1, 2))
    found = read_message_set(message(wrapper_offset, 1, GZIP, compress(GZIP, inner)), MIB)
    assert [record.offset for record in found.records] == [0, 1, 2]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_log_append_time_replaces_all_timestamps(codec):
    message_set = build_message_set(1, RECORDS, codec, log_append_time_ms=5555)
    assert {record.timestamp_ms for record in read_message_set(message_set, MIB).records} == {5555}
    first = next(messages_of(message_set))
    assert first[17] == 0x08 | codec


def test_the_wrapper_carries_the_latest_timestamp():
    (wrapper,) = messages_of(build_message_set(1, RECORDS, GZIP))
    assert struct.unpack_from(">q", wrapper, 18) == (3000,)


def test_v0_lz4_has_the_old_header_checksum_and_v1_the_right_one():
    v0, v1 = (build_message_set(magic, RECORDS, LZ4) for magic in (0, 1))
    frame = bytes.fromhex("04224d186040")
    assert v0[v0.index(frame) + 6] == xxh32(frame).digest()[-2]
    assert v1[v1.index(frame) + 6] == xxh32(frame[4:]).digest()[-2]


def test_v1_refuses_the_old_lz4_header_as_java_does():
    value = compress(LZ4, message(0, 1, 0, b"v"), old_lz4_header=True)
    with pytest.raises(CorruptMessage):
        read_message_set(message(0, 1, LZ4, value), MIB)


# ---- a cut end ----


@pytest.mark.parametrize("magic", [0, 1])
@given(cut=st.integers(0, 200))
def test_a_partial_last_message_is_left_unread_and_told(magic, cut):
    parts = [build_message_set(magic, [record]) for record in RECORDS]
    whole = b"".join(parts)[:cut]
    complete = sum(len(b"".join(parts[: n + 1])) <= cut for n in range(3))
    found = read_message_set(whole, 0)
    assert found.records == as_read(magic, RECORDS[:complete])
    assert found.partial_bytes == len(whole) - len(b"".join(parts[:complete]))


# ---- damage ----


def wrapped(inner, magic=1, codec=GZIP):
    return message(9, magic, codec, compress(codec, inner))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (struct.pack(">qi", 3, 13) + bytes(13), "says 13 bytes"),
        (struct.pack(">qi", 3, -1) + bytes(13), "says -1 bytes"),
        (struct.pack(">qiIbb", 3, 14, 0, 1, 0) + bytes(8), "v1 has 22"),
        (message(3, 2, 0, b"v"), "magic 2"),
        (message(3, 1, 0, b"v")[:-1] + b"w", "CRC"),
        (message(3, 1, 0, b"v", tail=b"more"), "4 bytes after its value"),
        (message(3, 1, GZIP, None), "no value"),
        (message(3, 1, 4, b"v"), "codec 4"),
        (message(3, 1, 7, b"v"), "codec 7"),
        (message(3, 1, GZIP, b"not gzip"), "gzip data of 8 bytes"),
        (wrapped(b""), "holds no messages"),
        (wrapped(wrapped(message(0, 1, 0, b"v"))), "another compressed"),
        (wrapped(message(0, 0, 0, b"v"), magic=1), "v1 message at offset 9 holds a v0"),
        (wrapped(message(0, 1, 0, b"v")[:-1]), "inside an inner message"),
        (wrapped(message(0, 1, 0, b"v") + b"x"), "inside an inner message"),
        (wrapped(message(0, 1, 0, b"v")[:-1] + b"w"), "CRC"),
    ],
)
def test_damage_is_refused_with_its_reason(data, says):
    with pytest.raises(CorruptMessage, match=says):
        read_message_set(data, MIB)


def test_lengths_that_lie_under_a_right_crc_are_refused():
    for size in (-2, 2, 2**31 - 1):
        body = struct.pack(">bbq", 1, 0, 7) + struct.pack(">i", -1) + struct.pack(">i", size) + b"v"
        with pytest.raises(CorruptMessage, match=f"a field of {size} bytes, 1 are left"):
            read_message_set(struct.pack(">qiI", 0, len(body) + 4, binascii.crc32(body)) + body, MIB)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_the_limit_is_for_all_wrappers_together(codec):
    one = build_message_set(1, [LegacyRecord(0, 0, None, bytes(1000))], codec)
    inner_bytes = 1000 + 12 + 22
    assert len(read_message_set(one * 3, 3 * inner_bytes).records) == 3
    with pytest.raises(CorruptMessage, match="more than the"):
        read_message_set(one * 3, 3 * inner_bytes - 1)


SETS = [build_message_set(magic, RECORDS, codec) for magic in (0, 1) for codec in (NONE, GZIP, SNAPPY, LZ4)]


@given(st.sampled_from(SETS), st.data())
@settings(max_examples=300)
def test_damage_gives_no_other_exception(whole, draw):
    damaged = bytearray(whole)
    for _ in range(draw.draw(st.integers(1, 3))):
        damaged[draw.draw(st.integers(0, len(damaged) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    cut = draw.draw(st.integers(0, len(damaged)) | st.just(len(damaged)))
    try:
        read_message_set(damaged[:cut], MIB)
    except CorruptMessage:
        pass


@given(st.integers(-2, 5), st.integers(0, 15), st.none() | st.binary(), st.binary(max_size=4))
def test_any_content_under_a_right_crc_gives_no_other_exception(magic, attributes, value, tail):
    try:
        read_message_set(message(0, magic, attributes, value, tail=tail), MIB)
    except CorruptMessage:
        pass


@given(st.sampled_from([0, 1]), st.binary(max_size=60), st.sampled_from([GZIP, SNAPPY, LZ4]))
def test_any_content_of_a_wrapper_gives_no_other_exception(magic, inner, codec):
    try:
        read_message_set(wrapped(inner, magic, codec), MIB)
    except CorruptMessage:
        pass
