import datetime
import subprocess
import sys

import pytest

from ottla.errors import CorruptMessage
from ottla.records import Compression, arrow
from ottla.records.legacy import LegacyRecord, build_message_set

pyarrow = pytest.importorskip("pyarrow", reason="needs PyArrow: pip install 'ottla[arrow]'")


@pytest.fixture
def to_arrow(twin, monkeypatch):
    """to_arrow() on top of the twin under test."""
    monkeypatch.setattr(arrow, "decode_columns", twin.decode_columns)
    return arrow.to_arrow


def batch_of(twin, records, **arguments):
    builder = twin.BatchBuilder(size_limit_bytes=1 << 24, **arguments)
    for record in records:
        assert builder.append(*record)
    return builder.close()


RECORDS = [
    (1000, b"k", b"v", [("h", b"1"), ("ü", None)]),
    (1001, None, b"", []),
    (-1, b"", None, [("h", b"")]),
]


def rows_of(table):
    table.validate(full=True)
    return [
        (row["offset"], row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"]])
        for row in table.to_pylist()
    ]


@pytest.mark.parametrize("compression", list(Compression))
def test_records_become_rows(twin, to_arrow, compression):
    table = to_arrow(batch_of(twin, RECORDS, base_offset=5, compression=compression))
    assert rows_of(table) == [
        (5, b"k", b"v", [("h", b"1"), ("ü", None)]),
        (6, None, b"", []),
        (7, b"", None, [("h", b"")]),
    ]
    assert table.column("timestamp").cast(pyarrow.int64()).to_pylist() == [1000, 1001, -1]
    assert table.column("timestamp")[0].as_py() == datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)


def test_the_schema_is_what_spark_expects(twin, to_arrow):
    table = to_arrow(batch_of(twin, RECORDS))
    assert table.schema == arrow.schema()
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("offset", "int64"),
        ("timestamp", "timestamp[ms, tz=UTC]"),
        ("key", "binary"),
        ("value", "binary"),
        ("headers", "list<item: struct<key: string not null, value: binary> not null>"),
    ]


def test_nothing_becomes_no_rows(to_arrow):
    table = to_arrow(b"")
    table.validate(full=True)
    assert table.num_rows == 0


def test_many_batches_become_one_table_and_a_cut_off_end_is_left_out(twin, to_arrow):
    data = b"".join(batch_of(twin, RECORDS, base_offset=3 * index) for index in range(20))
    assert [row[0] for row in rows_of(to_arrow(data + data[:70]))] == list(range(60))


def test_rows_can_be_taken_from_a_range_of_offsets(twin, to_arrow):
    data = b"".join(batch_of(twin, RECORDS, base_offset=3 * index) for index in range(4))
    assert [row[0] for row in rows_of(to_arrow(data, from_offset=4, until_offset=8))] == [4, 5, 6, 7]
    assert [row[0] for row in rows_of(to_arrow(data, until_offset=1))] == [0]
    assert rows_of(to_arrow(data, from_offset=100)) == []
    assert rows_of(to_arrow(data, until_offset=-(2**63))) == []


def test_batches_before_the_range_are_not_even_decompressed(twin, to_arrow, seal):
    garbage = seal(b"not gzip", 1, attributes=1)
    data = garbage + batch_of(twin, RECORDS, base_offset=1)
    assert len(rows_of(to_arrow(data, from_offset=1))) == 3
    with pytest.raises(CorruptMessage):
        to_arrow(data)


def test_control_batches_are_left_out_unless_asked_for(twin, to_arrow):
    marker = batch_of(
        twin,
        [(9, b"\0\0\0\1", b"\0\0\0\0\0\0", [])],
        control=True,
        transactional=True,
        producer_id=1,
        producer_epoch=0,
        base_offset=3,
    )
    data = batch_of(twin, RECORDS) + marker
    assert to_arrow(data).num_rows == 3
    assert to_arrow(data, include_control=True).num_rows == 4


def test_log_append_time_is_every_rows_time(twin, to_arrow):
    table = to_arrow(batch_of(twin, RECORDS, log_append_time_ms=77))
    assert table.column("timestamp").cast(pyarrow.int64()).to_pylist() == [77, 77, 77]


def test_large_columns_are_given_over_whole(twin, to_arrow):
    records = [(i, b"%06d" % i, b"v" * (i % 300), [("header", b"%d" % i)]) for i in range(20_000)]
    table = to_arrow(batch_of(twin, records))
    table.validate(full=True)
    assert table.column("offset").to_pylist() == list(range(20_000))
    assert table.column("key").to_pylist() == [key for _, key, _, _ in records]
    assert table.column("value").to_pylist() == [value for _, _, value, _ in records]
    assert table.column("headers")[19_999].as_py() == [{"key": "header", "value": b"19999"}]


def test_a_table_outlives_the_next_calls(twin, to_arrow):
    first = to_arrow(batch_of(twin, RECORDS))
    for _ in range(5):
        to_arrow(batch_of(twin, [(0, b"other", b"other", [])] * 30))
    assert rows_of(first)[0] == (0, b"k", b"v", [("h", b"1"), ("ü", None)])


def test_a_header_key_that_is_not_text_is_repaired(twin, to_arrow, seal):
    record = b"\x14\x00\x00\x00\x01\x01\x02\x04\xff\x41\x01"
    assert rows_of(to_arrow(seal(record, 1)))[0][3] == [("\ufffdA", None)]
    # Two keys that are UTF-8 only when read as one.
    split = b"\x18\x00\x00\x00\x01\x01\x04\x02\xc3\x01\x02\xbc\x01"
    assert rows_of(to_arrow(seal(split, 1)))[0][3] == [("\ufffd", None), ("\ufffd", None)]


def test_a_wrong_sum_is_corrupt_unless_the_caller_checked_already(twin, to_arrow):
    data = bytearray(batch_of(twin, [(0, None, b"abc", [])]))
    data[-2] ^= 1
    with pytest.raises(CorruptMessage, match="CRC"):
        to_arrow(data)
    assert to_arrow(data, check_crc=False).num_rows == 1


def test_broken_records_are_corrupt(to_arrow, seal):
    with pytest.raises(CorruptMessage, match="record 0"):
        to_arrow(seal(b"\x0c\x00\x00\x00\x01\x09\x00", 1))
    with pytest.raises(CorruptMessage, match="left"):
        to_arrow(seal(b"\x0c\x00\x00\x00\x01\x01\x00\x00", 1))


def test_a_failed_call_leaves_nothing_behind(twin, to_arrow, seal):
    good, bad = batch_of(twin, RECORDS), seal(b"\x0c\x00\x00\x00\x01\x09\x00", 1)
    for _ in range(3):
        with pytest.raises(CorruptMessage):
            to_arrow(good + bad)
        assert to_arrow(good).num_rows == 3


def test_old_message_sets_are_refused(twin, to_arrow):
    old = build_message_set(1, [LegacyRecord(0, 1, None, b"x")])
    with pytest.raises(CorruptMessage, match="message sets v1"):
        to_arrow(batch_of(twin, RECORDS) + old)


def test_a_bomb_stops_at_the_limit(twin, to_arrow):
    data = batch_of(twin, [(0, None, bytes(500_000), [])], compression=Compression.ZSTD)
    with pytest.raises(CorruptMessage):
        to_arrow(data, limit_bytes=100_000)


@pytest.mark.parametrize(
    "record", [(0, b"x" * 50, None, []), (0, None, b"x" * 50, []), (0, None, None, [("h" * 50, b"x" * 50)])]
)
def test_a_column_that_offsets_cannot_count_is_refused_in_words(twin, record):
    data = batch_of(twin, [record] * 2)
    assert twin.decode_columns(data, column_limit_bytes=100).row_count == 2
    with pytest.raises(ValueError, match="pass 99 bytes: decode fewer batches"):
        twin.decode_columns(data, column_limit_bytes=99)
    with pytest.raises(ValueError, match="column_limit_bytes"):
        twin.decode_columns(data, column_limit_bytes=2**31)


def test_importing_the_records_does_not_load_pyarrow():
    code = "import sys, ottla.records, ottla.records.arrow; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
