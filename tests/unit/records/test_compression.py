"""The four codecs: read from and by the other clients, refused when broken, never larger than allowed."""

import gzip
import os
import struct
import subprocess
import sys
import threading
import tracemalloc
import warnings
import zlib
from collections.abc import Callable
from random import Random
from types import SimpleNamespace

import aiokafka.codec
import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptMessage, UnsupportedCompressionType
from ottla.records.codecs import zstd
from ottla.records.codecs.codec import LEVELS, PIECE_BYTES
from ottla.records.codecs.lz4 import _header_checksum
from ottla.records.compression import (
    Compression,
    check_level,
    compress,
    decompress,
    decompress_in_pieces,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas the old way
    import kafka.codec

GZIP, SNAPPY, LZ4, ZSTD = Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD
CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
MIB = 1 << 20
LINES = b"".join(b'{"id":%d,"name":"row %d","ok":true}\n' % (i, i * 7) for i in range(6000))
SAMPLES = {"one byte": b"x", "lines": LINES, "noise": os.urandom(100_000), "zeros": bytes(300_000)}


# ---- names and levels ----


@pytest.mark.parametrize(("number", "label"), list(enumerate(["none", "gzip", "snappy", "lz4", "zstd"])))
def test_ids_and_names_are_kafkas(number, label):
    assert Compression.named(label) == number
    assert Compression(number).label == label


def test_an_unknown_name_is_refused_with_the_names_that_exist():
    with pytest.raises(ValueError, match=r"'lzma'.*none, gzip, snappy, lz4, zstd"):
        Compression.named("lzma")


@pytest.mark.parametrize("codec", [5, 7, -1])
def test_an_unknown_codec_id_is_unsupported(codec):
    with pytest.raises(UnsupportedCompressionType, match=str(codec)):
        decompress(codec, b"", 100)
    with pytest.raises(UnsupportedCompressionType):
        compress(codec, b"")


@pytest.mark.parametrize(
    ("codec", "level"), [(GZIP, 0), (GZIP, 10), (GZIP, -2), (LZ4, 0), (LZ4, 18), (ZSTD, 23), (ZSTD, -131073)]
)
def test_a_level_kafka_does_not_have_is_refused(codec, level):
    with pytest.raises(ValueError, match=f"{codec.label} has no compression level {level}; use"):
        compress(codec, b"x", level)


@pytest.mark.parametrize("codec", [Compression.NONE, SNAPPY])
def test_a_level_for_a_codec_without_levels_is_refused(codec):
    check_level(codec, None)
    with pytest.raises(ValueError, match="no compression levels"):
        compress(codec, b"x", 1)


@pytest.mark.parametrize(
    ("codec", "level"),
    [(GZIP, -1), (GZIP, 1), (GZIP, 9), (LZ4, 1), (LZ4, 8), (LZ4, 17), (ZSTD, -131072), (ZSTD, 1), (ZSTD, 22)],
)
def test_every_level_round_trips(codec, level):
    assert decompress(codec, compress(codec, LINES, level), len(LINES)) == LINES


@pytest.mark.parametrize("codec", list(LEVELS))
def test_no_level_is_the_default_level(codec):
    assert compress(codec, LINES) == compress(codec, LINES, LEVELS[codec].default)


def test_levels_reach_the_library():
    assert len(compress(GZIP, LINES, 9)) < len(compress(GZIP, LINES, 1))
    assert len(compress(ZSTD, LINES, 19)) < len(compress(ZSTD, LINES, -50))


def test_lz4_by_default_is_the_fast_compressor_as_in_java():
    fast = lz4.frame.compress(LINES, compression_level=0, block_linked=False, store_size=False)
    assert compress(LZ4, LINES) == compress(LZ4, LINES, 9) == fast
    assert len(compress(LZ4, LINES, 10)) < len(fast)


# ---- round trips ----


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("data", [b"", *SAMPLES.values()], ids=["nothing", *SAMPLES])
def test_round_trip_with_a_limit_that_just_fits(codec, data):
    assert decompress(codec, compress(codec, data), len(data)) == data


@given(st.sampled_from(Compression), st.lists(st.sampled_from([b"ab", b"\0" * 999, b"\xff\x80 key"])), st.binary())
def test_round_trip(codec, pieces, tail):
    data = b"".join(pieces) + tail
    assert decompress(codec, compress(codec, data), len(data)) == data


@given(st.sampled_from(sorted(LEVELS)), st.data(), st.binary(max_size=2000))
@settings(max_examples=50)
def test_round_trip_at_any_level(codec, draw, data):
    level = draw.draw(st.integers(LEVELS[codec].lowest, LEVELS[codec].highest))
    assert decompress(codec, compress(codec, data * 3, level), 6000) == data * 3


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", [bytes, bytearray, lambda data: memoryview(b"." + data)[1:]])
def test_any_buffer_will_do(codec, kind):
    assert decompress(codec, kind(compress(codec, kind(LINES))), len(LINES)) == LINES


@pytest.mark.parametrize("codec", CODECS)
def test_threads_do_not_disturb_each_other(codec):
    wrong = []

    def work(number):
        data = LINES + bytes([number]) * 1000
        for _ in range(20):
            if decompress(codec, compress(codec, data), len(data)) != data:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_importing_it_imports_no_library():
    libraries = "{'cramjam', 'lz4', 'zstandard', 'zlib'}"
    code = f"import sys, ottla.records.compression; sys.exit(str({libraries} & set(sys.modules) or '') or 0)"
    done = subprocess.run([sys.executable, "-S", "-c", "import sys; sys.exit('zlib' in sys.modules)"], check=False)
    if done.returncode:
        code = code.replace(", 'zlib'", "")  # some interpreters have loaded it before we come
    path = os.pathsep.join(sys.path)
    environment = os.environ | {"PYTHONPATH": path}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0


# ---- the other clients ----


@pytest.fixture(autouse=True)
def _kafka_python_has_snappy(monkeypatch):
    """kafka-python wants python-snappy, which only passes calls on to cramjam; its framing is its own."""
    raw = SimpleNamespace(compress=cramjam.snappy.compress_raw, decompress=cramjam.snappy.decompress_raw)
    monkeypatch.setattr(kafka.codec, "snappy", raw)


THEIR_ENCODERS = [
    (GZIP, kafka.codec.gzip_encode),
    (GZIP, aiokafka.codec.gzip_encode),
    (SNAPPY, kafka.codec.snappy_encode),
    (SNAPPY, lambda data: kafka.codec.snappy_encode(data, xerial_compatible=False)),
    (SNAPPY, lambda data: aiokafka.codec.snappy_encode(data, xerial_blocksize=100)),
    (LZ4, kafka.codec.lz4_encode),
    (LZ4, aiokafka.codec.lz4_encode),
    (ZSTD, kafka.codec.zstd_encode),
    (ZSTD, aiokafka.codec.zstd_encode),
]
THEIR_DECODERS = [
    (codec, getattr(client, f"{codec.label}_decode")) for codec in CODECS for client in (kafka.codec, aiokafka.codec)
]


@pytest.mark.parametrize(("codec", "encode"), THEIR_ENCODERS)
@pytest.mark.parametrize("data", list(SAMPLES.values()), ids=list(SAMPLES))
def test_we_read_what_others_write(codec, encode, data):
    assert decompress(codec, encode(data), len(data)) == data


@pytest.mark.parametrize(("codec", "decode"), THEIR_DECODERS)
@pytest.mark.parametrize("data", list(SAMPLES.values()), ids=list(SAMPLES))
def test_others_read_what_we_write(codec, decode, data):
    assert bytes(decode(compress(codec, data))) == data


# ---- gzip ----


def test_gzip_members_one_after_the_other_are_one_text():
    assert decompress(GZIP, gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two"), 7) == b"one two"


def test_the_limit_holds_across_gzip_members():
    with pytest.raises(CorruptMessage, match="more than the 6 bytes"):
        decompress(GZIP, gzip.compress(b"one ") + gzip.compress(b"two"), 6)


def test_gzip_with_name_comment_and_time_is_read():
    header = b"\x1f\x8b\x08\x18" + b"\x01\x02\x03\x04" + b"\x00\x03" + b"name\0" + b"comment\0"
    assert decompress(GZIP, header + gzip.compress(b"text", mtime=0)[10:], 4) == b"text"


def test_gzip_bytes_do_not_depend_on_the_time():
    assert compress(GZIP, b"text")[4:8] == bytes(4)


# ---- snappy ----

XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def block(data):
    raw = bytes(cramjam.snappy.compress_raw(data))
    return struct.pack(">i", len(raw)) + raw


def test_snappy_is_written_as_javas_stream_does():
    # "abc" as raw snappy by hand: length 3, then one literal of 3 bytes (tag (3 - 1) << 2).
    assert compress(SNAPPY, b"abc") == XERIAL + b"\0\0\0\5" + b"\3\x08abc"
    assert compress(SNAPPY, b"") == XERIAL


def test_snappy_blocks_hold_32_kib_of_input():
    first, second = os.urandom(32 * 1024), b"rest"
    assert compress(SNAPPY, first + second) == XERIAL + block(first) + block(second)


@pytest.mark.parametrize(
    "data",
    [
        XERIAL + block(b"one ") + block(b"two"),
        XERIAL + block(b"one ") + XERIAL + block(b"two"),  # streams glued together, as Java's reader allows
        XERIAL + block(b"one ") + block(b"") + block(b"two"),
        b"\x82SNAPPY\0" + struct.pack("<ii", 1, 1) + block(b"one two"),  # written in the wrong byte order
        b"\7\x18one two",  # librdkafka: raw, by hand
        b"\7\x0cone \x08two",
        b"\x0e\x18one two\x1a\7\0"[:9] + b"\x1a\7\0",  # a copy of 7 bytes from 7 back, by hand
    ],
)
def test_snappy_variants_are_read(data):
    assert decompress(SNAPPY, data, 14) in (b"one two", b"one twoone two")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x82SNAPPY\0\0\0\0\1", "inside a stream header"),
        (XERIAL + b"\0\0", "inside a block size"),
        (XERIAL + b"\0\0\0\6\3\x08abc", "says 6 bytes, 5 are there"),
        (XERIAL + b"\xff\xff\xff\xff", "says -1 bytes"),
        (XERIAL + b"\0\0\0\0", "cannot be decompressed"),
        (XERIAL + b"\0\0\0\5\4\x08abc", "cannot be decompressed"),
        (b"", "cannot be decompressed"),
        (b"\3\x08abcd", "cannot be decompressed"),
    ],
)
def test_broken_snappy_is_refused(data, says):
    with pytest.raises(CorruptMessage, match=says):
        decompress(SNAPPY, data, 100)


# ---- lz4 ----


def test_lz4_is_written_as_java_does():
    # Magic, version 1 with independent blocks (0x60), 64 KiB blocks (0x40), checksum; a stored block; the end mark.
    assert compress(LZ4, b"abc").hex(" ") == "04 22 4d 18 60 40 82 03 00 00 80 61 62 63 00 00 00 00"


def test_lz4_blocks_are_64_kib_and_stand_alone():
    info = lz4.frame.get_frame_info(compress(LZ4, bytes(200_000)))
    assert (info["block_size"], info["block_linked"]) == (65536, False)
    assert [info[part] for part in ("content_checksum", "block_checksum", "content_size")] == [False, False, 0]


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("store_size", [True, False])
def test_every_kind_of_lz4_frame_is_read(block_size, linked, checksums, store_size):
    frame = lz4.frame.compress(
        LINES,
        block_size=block_size,
        block_linked=linked,
        content_checksum=checksums,
        block_checksum=checksums,
        store_size=store_size,
    )
    assert decompress(LZ4, frame, len(LINES)) == LINES


@given(st.binary(max_size=15))
def test_the_header_checksum_is_xxhash(data):
    content_checksum = lz4.frame.compress(data, content_checksum=True)[-4:]
    assert _header_checksum(data) == content_checksum[1]


def test_the_old_header_is_written_and_read_when_asked_for():
    old = compress(LZ4, LINES, old_lz4_header=True)
    assert old[:6] == compress(LZ4, LINES)[:6]
    assert old[6] == _header_checksum(old[:6]) != _header_checksum(old[4:6])
    assert decompress(LZ4, old, len(LINES), old_lz4_header=True) == LINES


def test_a_right_header_is_also_read_where_old_ones_are_expected():
    assert decompress(LZ4, compress(LZ4, LINES), len(LINES), old_lz4_header=True) == LINES


def test_an_old_header_with_a_content_size_is_read():
    frame = bytearray(lz4.frame.compress(LINES, store_size=True))
    frame[14] = _header_checksum(frame[:14])
    assert decompress(LZ4, frame, len(LINES), old_lz4_header=True) == LINES


@pytest.mark.parametrize("old", [True, False])
def test_any_other_header_checksum_is_refused(old):
    for wrong in set(range(256)) - {0x82, 0x1A}:
        frame = bytearray(compress(LZ4, b"abc"))
        frame[6] = wrong
        with pytest.raises(CorruptMessage):
            decompress(LZ4, frame, 3, old_lz4_header=old)


def test_the_old_header_is_refused_where_it_is_not_expected():
    with pytest.raises(CorruptMessage, match="header"):
        decompress(LZ4, compress(LZ4, b"abc", old_lz4_header=True), 3)


def test_an_lz4_frame_that_needs_a_dictionary_is_refused():
    with pytest.raises(CorruptMessage, match="dictionary"):
        decompress(LZ4, b"\x04\x22\x4d\x18\x61\x40" + bytes(20), 100)


# ---- zstd ----


def zstd_frames(data, *, content_size=True, checksum=False):
    compressor = zstandard.ZstdCompressor(write_content_size=content_size, write_checksum=checksum)
    if content_size:
        return compressor.compress(data)
    stream = compressor.compressobj()
    return stream.compress(data) + stream.flush()


@pytest.mark.parametrize("content_size", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("data", [b"", *SAMPLES.values()], ids=["nothing", *SAMPLES])
def test_every_kind_of_zstd_frame_is_read(content_size, checksum, data):
    frame = zstd_frames(data, content_size=content_size, checksum=checksum)
    assert decompress(ZSTD, frame, len(data)) == data


def test_a_zstd_frame_with_javas_largest_window_is_read_and_its_memory_is_not_kept(monkeypatch):
    wide = zstandard.ZstdCompressionParameters.from_level(1, window_log=27, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    frame = stream.compress(LINES) + stream.flush()
    assert zstandard.get_frame_parameters(frame).window_size == 128 * MIB
    monkeypatch.setattr(zstd, "_spare_decompressors", [])
    assert decompress(ZSTD, frame, len(LINES)) == LINES
    assert zstd._spare_decompressors == []
    assert decompress(ZSTD, zstd_frames(LINES), len(LINES)) == LINES
    assert len(zstd._spare_decompressors) == 1


def test_a_zstd_context_grown_large_is_not_kept(monkeypatch):
    monkeypatch.setattr(zstd, "_spare_compressors", {})
    compress(ZSTD, LINES, 3)
    compress(ZSTD, bytes(8 * MIB), 19)
    assert {level: len(spare) for level, spare in zstd._spare_compressors.items()} == {3: 1, 19: 0}


def test_zstd_frames_one_after_the_other_are_one_text():
    skippable = b"\x5a\x2a\x4d\x18" + struct.pack("<I", 3) + b"any"
    frames = zstd_frames(b"one ") + skippable + zstd_frames(b"", content_size=False) + zstd_frames(b"two")
    assert decompress(ZSTD, frames, 7) == b"one two"
    with pytest.raises(CorruptMessage, match="more than the 6 bytes"):
        decompress(ZSTD, frames, 6)


@pytest.mark.parametrize("frame", [b"\x5a\x2a\x4d\x18\4\0\0\0any", b"\x5a\x2a\x4d\x18\4\0\0", b"\x28\xb5\x2f\xfd", b""])
def test_half_a_zstd_frame_is_refused(frame):
    with pytest.raises(CorruptMessage):
        decompress(ZSTD, frame, 100)


@pytest.mark.parametrize("kind", [0, 2])
def test_a_zstd_frame_that_hides_its_content_behind_a_size_of_0_is_refused(kind):
    # One segment, content size 0; a last block of 3 bytes, stored or compressed.
    block_header = (3 << 3 | kind << 1 | 1).to_bytes(3, "little")
    with pytest.raises(CorruptMessage, match="claims to hold 0"):
        decompress(ZSTD, b"\x28\xb5\x2f\xfd\x20\x00" + block_header + b"abc", 100)


# ---- limits ----


def zstd_bomb(blocks):
    """Window of 1 MiB, no content size; every block is one byte repeated 128 KiB times and costs 4 bytes."""
    repeat = (1 << 17) << 3 | 1 << 1
    body = (repeat.to_bytes(3, "little") + b"\0") * (blocks - 1) + (repeat | 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x50" + body


def zstd_claim(size):
    return b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + (1 << 3 | 1).to_bytes(3, "little") + b"x"


def lz4_claim(size):
    frame = bytearray(lz4.frame.compress(b"x", store_size=True))
    frame[6:14] = size.to_bytes(8, "little")
    frame[14] = _header_checksum(frame[4:14])
    return bytes(frame)


def lz4_bomb():
    # Blocks that stand alone and are equal, so that compressing once is enough.
    frame = lz4.frame.compress(bytes(4 * MIB), block_size=7, block_linked=False, store_size=False)
    return frame[:7] + frame[7:-4] * 256 + bytes(4)


BOMBS = {
    "gzip": (GZIP, lambda: gzip.compress(bytes(64 * MIB))),
    "gzip of many members": (GZIP, lambda: gzip.compress(bytes(MIB // 2)) * 1000),
    "snappy": (SNAPPY, lambda: XERIAL + block(bytes(32 * 1024)) * 40_000),
    "snappy raw": (SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(bytes(64 * MIB)))),
    "snappy claim": (SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + b"\0x"),
    "lz4": (LZ4, lz4_bomb),
    "lz4 claim": (LZ4, lambda: lz4_claim(1 << 40)),
    "zstd": (ZSTD, lambda: zstd_frames(bytes(64 * MIB))),
    "zstd of unknown size": (ZSTD, lambda: zstd_bomb(10_000)),
    "zstd of many frames": (ZSTD, lambda: zstd_frames(bytes(MIB // 2)) * 4000),
    "zstd claim": (ZSTD, lambda: zstd_claim(1 << 40)),
    "none": (Compression.NONE, lambda: bytes(MIB + 1)),
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_a_bomb_is_refused_before_it_goes_off(name):
    codec, make = BOMBS[name]
    bomb = make()
    decompress(codec, compress(codec, b"libraries are loaded now"), 100)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptMessage, match=f"{codec.label} data of {len(bomb)} bytes"):
            decompress(codec, bomb, MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The limit, joined once more at the very end, and one lz4 block of the largest kind.
    assert peak < 2 * MIB + 4 * MIB


def test_snappy_does_not_even_begin_with_too_much(monkeypatch):
    # The library's memory is not Python's and cannot be traced, so: it must not be called.
    monkeypatch.delattr(cramjam.snappy, "decompress_raw")
    for bomb in (b"\xff\xff\xff\xff\x0f\0x", bytes(cramjam.snappy.compress_raw(bytes(2 * MIB)))):
        with pytest.raises(CorruptMessage):
            decompress(SNAPPY, bomb, MIB)


@pytest.mark.parametrize(
    ("codec", "claim"), [(SNAPPY, b"\xff\xff\xff\xff\x0f\0x"), (ZSTD, zstd_claim(1 << 31)), (LZ4, lz4_claim(1 << 31))]
)
def test_a_claim_the_bytes_do_not_justify_takes_no_memory_even_under_a_large_limit(codec, claim, monkeypatch):
    monkeypatch.delattr(cramjam.snappy, "decompress_raw")
    tracemalloc.start()
    try:
        with pytest.raises(CorruptMessage, match=r"claims to hold|frameSize_wrong"):
            decompress(codec, claim, 1 << 40)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", list(SAMPLES.values()), ids=list(SAMPLES))
def test_one_byte_too_many_is_refused(codec, data):
    with pytest.raises(CorruptMessage, match=f"more than the {len(data) - 1} bytes allowed"):
        decompress(codec, compress(codec, data), len(data) - 1)


def test_a_zstd_frame_of_unknown_size_is_held_to_the_limit():
    frame = zstd_frames(LINES, content_size=False)
    with pytest.raises(CorruptMessage, match=f"more than the {len(LINES) - 1} bytes allowed"):
        decompress(ZSTD, frame, len(LINES) - 1)


# ---- damage ----


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", list(SAMPLES.values()), ids=list(SAMPLES))
def test_a_missing_end_is_noticed(codec, data):
    whole = compress(codec, data)
    for kept in {0, 1, len(whole) // 2, len(whole) - 5, len(whole) - 1}:
        # Snappy's stream has no end mark: a cut between two blocks is not visible. That is the format's.
        if codec is SNAPPY and kept == len(XERIAL):
            continue
        with pytest.raises(CorruptMessage):
            decompress(codec, whole[:kept], MIB)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("garbage", [b"\0", b"garbage behind the end"])
def test_garbage_behind_the_end_is_refused(codec, garbage):
    with pytest.raises(CorruptMessage):
        decompress(codec, compress(codec, LINES) + garbage, MIB)


@pytest.mark.parametrize(
    ("codec", "whole"),
    [
        (GZIP, gzip.compress(LINES)),
        (LZ4, lz4.frame.compress(LINES, content_checksum=True)),
        (LZ4, lz4.frame.compress(LINES, block_checksum=True)),
        (ZSTD, zstd_frames(LINES, checksum=True)),
    ],
)
def test_a_wrong_checksum_is_refused(codec, whole):
    for position in (len(whole) - 2, len(whole) // 2):
        broken = bytearray(whole)
        broken[position] ^= 0x40
        with pytest.raises(CorruptMessage):
            decompress(codec, broken, MIB)


def test_a_gzip_with_a_wrong_size_is_refused():
    with pytest.raises(CorruptMessage):
        decompress(GZIP, gzip.compress(LINES)[:-4] + struct.pack("<I", len(LINES) + 1), MIB)


WHOLE = [(codec, compress(codec, data)) for codec in CODECS for data in (b"abc", LINES[:3000], bytes(70_000))]
WHOLE += [
    (LZ4, lz4.frame.compress(LINES[:3000], block_checksum=True, content_checksum=True)),
    (ZSTD, zstd_frames(LINES[:3000], content_size=False, checksum=True)),
    (ZSTD, zstd_frames(b"one") + zstd_frames(b"two")),
    (GZIP, zlib.compress(b"one", wbits=31) + zlib.compress(b"two", wbits=31)),
]


@given(st.sampled_from(WHOLE), st.data(), st.booleans())
@settings(max_examples=400)
def test_damage_gives_no_other_exception(whole, draw, old):
    codec, data = whole
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        damaged[draw.draw(st.integers(0, len(damaged) - 1))] ^= draw.draw(st.integers(1, 255))
    cut = draw.draw(st.integers(0, len(damaged)) | st.just(len(damaged)))
    try:
        assert len(decompress(codec, damaged[:cut], 100_000, old_lz4_header=old)) <= 100_000
    except CorruptMessage:
        pass


@given(
    st.sampled_from(CODECS),
    st.sampled_from([b"", XERIAL, b"\x04\x22\x4d\x18\x60\x40\x82", b"\x28\xb5\x2f\xfd"]),
    st.binary(),
)
def test_any_bytes_give_no_other_exception(codec, start, rest):
    try:
        decompress(codec, start + rest, 1000)
    except CorruptMessage:
        pass


# ---- in pieces ----


def in_pieces(codec: Compression, data: bytes, limit_bytes: int) -> bytes:
    return b"".join(decompress_in_pieces(codec, data, limit_bytes))


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.label)
def test_large_content_comes_in_pieces_and_small_content_in_one(codec: Compression) -> None:
    content = (bytes(range(256)) * 100 + bytes(30_000)) * 60  # above three megabytes
    pieces = list(decompress_in_pieces(codec, compress(codec, content), 1 << 30))
    assert b"".join(pieces) == content
    if codec is not Compression.NONE:
        assert max(map(len, pieces)) <= PIECE_BYTES
    assert [bytes(piece) for piece in decompress_in_pieces(codec, compress(codec, b"small"), 5)] == [b"small"]


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.label)
def test_pieces_are_refused_above_the_limit_and_not_below(codec: Compression) -> None:
    packed = compress(codec, bytes(3 << 20))
    assert len(in_pieces(codec, packed, 3 << 20)) == 3 << 20
    with pytest.raises(CorruptMessage, match="more than the 3145727 bytes allowed"):
        in_pieces(codec, packed, (3 << 20) - 1)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec], ids=lambda codec: codec.label)
def test_broken_content_is_refused_in_pieces_as_it_is_in_one(codec: Compression) -> None:
    source = Random(codec.label)
    packed = compress(codec, source.randbytes(100_000) + bytes(2 << 20))
    for _ in range(60):
        damaged = bytearray(packed)
        match source.randrange(3):
            case 0:
                damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
            case 1:
                del damaged[source.randrange(len(damaged)) :]
            case _:
                damaged += source.randbytes(3)
        assert refused(in_pieces, codec, damaged) == refused(decompress, codec, damaged)


def refused(take: Callable[[Compression, bytes, int], bytes], codec: Compression, data: bytes) -> bytes | None:
    try:
        return take(codec, data, 1 << 26)
    except CorruptMessage:
        return None


def test_a_bomb_takes_no_more_memory_than_a_few_pieces() -> None:
    for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        packed = compress(codec, bytes(64 << 20))
        tracemalloc.start()
        try:
            assert sum(map(len, decompress_in_pieces(codec, packed, 64 << 20))) == 64 << 20
            assert tracemalloc.get_traced_memory()[1] < 1 << 20, codec
        finally:
            tracemalloc.stop()
