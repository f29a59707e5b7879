"""The native codec and its Python twin give the same answers: for any records, and for any damage to them."""

import importlib.machinery
import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.native_codec import load_native

import ottla.records
from ottla.errors import CorruptMessage
from ottla.records import Compression
from ottla.records.checksum import crc32c, crc32c_python
from ottla.records.varint import encode_varint

maybe_bytes = st.none() | st.binary(max_size=40) | st.binary(min_size=120, max_size=140)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=12)), max_size=3)
timestamps = st.integers(-1, 2**63 - 1) | st.integers(1_700_000_000_000, 1_700_000_100_000)
records = st.tuples(timestamps, maybe_bytes, maybe_bytes, headers)
record_lists = st.lists(records, max_size=12)
producers = st.fixed_dictionaries(
    {},
    optional={
        "base_offset": st.integers(0, 2**62),
        "leader_epoch": st.integers(-1, 2**31 - 1),
        "log_append_time_ms": st.integers(0, 2**63 - 1),
        "delete_horizon_ms": st.integers(0, 2**63 - 1),
        "control": st.booleans(),
        "size_limit_bytes": st.integers(0, 2000),
        "compression_ratio": st.floats(0.01, 3),
    },
) | st.fixed_dictionaries(
    {
        "producer_id": st.integers(0, 2**63 - 1),
        "producer_epoch": st.integers(0, 2**15 - 1),
        "base_sequence": st.integers(0, 2**31 - 1),
        "transactional": st.booleans(),
    }
)


def build(twin, record_list, **arguments):
    builder = twin.BatchBuilder(**arguments)
    taken = [builder.append(*record) for record in record_list]
    estimate = builder.size_estimate_bytes, builder.uncompressed_bytes, builder.record_count, builder.is_full
    return builder.close(), taken, estimate, builder.compression_ratio


@given(record_list=record_lists, arguments=producers, codec=st.sampled_from(Compression))
def test_both_builders_write_the_same_bytes(both, record_list, arguments, codec):
    python, native = both
    assert build(python, record_list, compression=codec, **arguments) == build(
        native, record_list, compression=codec, **arguments
    )


@given(record_list=record_lists, limit=st.integers(0, 1000), one_time=st.booleans())
def test_both_builders_take_the_same_lists(both, record_list, limit, one_time):
    times, keys, values, header_lists = (
        (list(column) for column in zip(*record_list, strict=True))
        if record_list
        else (
            [],
            [],
            [],
            [],
        )
    )
    answers = []
    for twin in both:
        builder = twin.BatchBuilder(size_limit_bytes=limit)
        answers.append((builder.append_many(7 if one_time else times, keys, values, header_lists), builder.close()))
    assert answers[0] == answers[1]


@given(record_list=record_lists, codec=st.sampled_from(Compression), base_offset=st.integers(0, 2**62))
def test_what_was_built_comes_back(twin, record_list, codec, base_offset):
    data, *_ = build(twin, record_list, compression=codec, base_offset=base_offset, size_limit_bytes=1 << 20)
    expected = [
        (base_offset + index, time, key, value, tuple(heads))
        for index, (time, key, value, heads) in enumerate(record_list)
    ]
    if not record_list:
        assert data == b""
        return
    batch = twin.RecordBatch(data)
    batch.check()
    assert batch.tuples() == expected
    assert [tuple(record) for record in batch.records()] == expected


def everything(twin, data):
    """What a twin makes of these bytes: its answers, or that it says they are corrupt. Nothing else may come."""

    def answer(read):
        try:
            return read()
        except CorruptMessage:
            return "corrupt"

    def columns():
        found = twin.decode_columns(data, limit_bytes=100_000, check_crc=False)
        return [
            None
            if part is None
            else bytes(part)
            if not isinstance(part, (int, tuple))
            else tuple(x if x is None or isinstance(x, int) else bytes(x) for x in part)
            if isinstance(part, tuple)
            else part
            for part in found
        ]

    return {
        "header": answer(lambda: twin.RecordBatch(data)._facts),
        "check": answer(lambda: twin.RecordBatch(data).check()),
        "tuples": answer(lambda: twin.RecordBatch(data).tuples(limit_bytes=100_000)),
        "records": answer(lambda: [tuple(r) for r in twin.RecordBatch(data).records(limit_bytes=100_000)]),
        "scan": answer(lambda: [(i.position, i._facts) for i in twin.scan(data)]),
        "loose scan": answer(lambda: [(i.position, i._facts) for i in twin.scan(data, check_crc=False)]),
        "stream": answer(lambda: [(b.position, b.size_bytes, b.next_offset) for b in twin.RecordStream(data)]),
        "partial": answer(lambda: twin.RecordStream(data).partial_bytes),
        "columns": answer(columns),
    }


def resealed(data):
    """The same bytes with a right CRC, so that damage reaches the code behind the check."""
    if len(data) < 61:
        return bytes(data)
    return bytes(data[:17]) + struct.pack(">I", crc32c(data[21:])) + bytes(data[21:])


@given(
    record_list=st.lists(records, min_size=1, max_size=6),
    codec=st.sampled_from(Compression),
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 7)), min_size=1, max_size=4),
    reseal=st.booleans(),
)
@settings(max_examples=300)
def test_flipped_bits_give_the_same_answer_from_both(both, record_list, codec, flips, reseal):
    python, native = both
    data, *_ = build(python, record_list, compression=codec, size_limit_bytes=1 << 20)
    broken = bytearray(data)
    for where, bit in flips:
        broken[where % len(broken)] ^= 1 << bit
    broken = resealed(broken) if reseal else bytes(broken)
    assert everything(python, broken) == everything(native, broken)


@given(record_list=st.lists(records, min_size=1, max_size=3), codec=st.sampled_from(Compression))
@settings(max_examples=15)
def test_every_truncation_is_corrupt_or_partial(both, record_list, codec):
    python, native = both
    data, *_ = build(python, record_list, compression=codec, size_limit_bytes=1 << 20)
    for length in range(len(data)):
        found = everything(native, data[:length])
        assert found == everything(python, data[:length])
        assert found["check"] == found["tuples"] == "corrupt"
        assert (found["scan"], found["stream"], found["partial"]) == ([] if length == 0 else "corrupt", [], length)


@given(data=st.binary(max_size=200))
def test_any_bytes_give_the_same_answer_from_both(both, data):
    python, native = both
    assert everything(python, data) == everything(native, data)


@given(payload=st.binary(max_size=80), count=st.integers(-2, 12), attributes=st.sampled_from([0, 8, 16, 32, 64]))
@settings(max_examples=300)
def test_any_record_bytes_give_the_same_answer_from_both(both, seal, payload, count, attributes):
    python, native = both
    data = seal(payload, count, attributes=attributes)
    assert everything(python, data) == everything(native, data)


def test_records_put_together_at_random_give_the_same_answer_from_both(both, seal):
    # Random bytes are hardly ever a record. These have the right frame and a mostly right inside.
    python, native = both
    source = random.Random(7)
    pieces = [b"\x00", b"\x01", b"\x02a", b"\x04ab", b"\x80\x00", b"\x03", b"\x06"]
    sound = 0
    for _ in range(3000):
        count = source.randrange(1, 3)
        payload = b""
        for _ in range(count):
            inside = b"\x00\x02\x00" + b"".join(source.choices(pieces, weights=(8, 4, 4, 2, 1, 1, 1), k=3))
            payload += encode_varint(len(inside)) + inside
        answers = everything(python, seal(payload, count))
        assert answers == everything(native, seal(payload, count))
        sound += answers["tuples"] != "corrupt"
    assert 500 < sound < 2500


@given(data=st.binary(max_size=300), value=st.integers(0, 2**32 - 1))
def test_all_sums_are_equal(both, data, value):
    native = both[1]
    assert native.crc32c(data, value) == native.crc32c_portable(data, value) == crc32c_python(data, value)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 767, 768, 769, 6143, 6144, 6145, 20_000, 131_071, 131_072, 300_001])
def test_long_sums_are_equal(both, length):
    native = both[1]
    data = random.Random(length).randbytes(length + 3)
    for start in range(3):
        view = memoryview(data)[start : start + length]
        assert native.crc32c(view) == native.crc32c_portable(view) == crc32c(view)


def test_the_sum_is_castagnolis(twin):
    assert twin.crc32c(b"123456789") == 0xE3069283


@given(data=st.binary(max_size=40))
def test_both_hash_keys_alike(both, data):
    python, native = both
    assert python.murmur2(data) == native.murmur2(data) == native.murmur2(memoryview(data))


def test_edits_are_the_same(both):
    answers = []
    for twin in both:
        data = bytearray(build(both[0], [(1, None, b"x", [])])[0])
        twin.assign_offsets(data, 0, 5, 6)
        twin.set_append_time(data, 0, 7)
        answers.append(bytes(data))
    assert answers[0] == answers[1]


def test_facts_and_records_are_equal_across_the_twins(both):
    python, native = both
    data, *_ = build(python, [(1, b"k", b"v", [("h", None)]), (2, None, b"w", [])])
    assert python.RecordBatch(data).records() == native.RecordBatch(data).records()
    assert native.RecordBatch(data).records() == python.RecordBatch(data).records()
    assert python.scan(data) == native.scan(data)
    assert native.scan(data) == python.scan(data)


def test_both_have_the_same_public_names(both):
    python, native = both
    for name in ("BatchBuilder", "BatchInfo", "RecordBatch", "RecordStream"):
        ours = {attribute for attribute in dir(getattr(python, name)) if not attribute.startswith("_")}
        theirs = {attribute for attribute in dir(getattr(native, name)) if not attribute.startswith("_")}
        assert ours - {"batch_type", "walk"} == theirs  # how the Python twins of others read it


@pytest.mark.parametrize(
    ("forced", "outcome"),
    [("python", "python"), ("native", "native"), ("fast", "must be 'native', 'python' or not set")],
)
def test_the_variable_forces_the_choice(both, forced, outcome):
    code = "import ottla.records as r; print(r.CHOSEN, r.BatchBuilder.__module__)"
    environment = {**os.environ, "OTTLA_RECORDS": forced}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert outcome in (ran.stdout if ran.returncode == 0 else ran.stderr)


def test_without_a_build_the_python_twin_is_taken_and_everything_is_there(tmp_path):
    # A copy of the sources alone is what an installation without a compiler leaves.
    room = Path(ottla.records.__file__).parent
    for source in [
        *room.rglob("*.py"),
        *(
            room.parent / f"{name}.py"
            for name in ("__init__", "_lazy", "errors", "light_dataclasses", "light_tuples", "native")
        ),
    ]:
        target = tmp_path / "ottla" / source.relative_to(room.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    code = (
        "import ottla.records as r; print(r.CHOSEN, [hasattr(r, name) for name in r.__all__].count(False), r.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OTTLA_RECORDS": ""}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.split()[:2] == ["python", "0"]
    assert ran.stdout.split()[2].startswith(str(tmp_path))


def test_a_native_module_that_does_not_load_is_an_error_and_not_a_slow_codec(tmp_path, monkeypatch):
    broken = tmp_path / f"_native{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(ottla.records, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "ottla.records._native", raising=False)
    with pytest.raises(ImportError):
        load_native()
