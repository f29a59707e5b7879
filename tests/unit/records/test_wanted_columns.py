"""decode_columns() for those who want some columns, or times in other units: each twin, and one against the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import Compression
from ottla.records.columns import RECORD_COLUMNS, ColumnSet

RECORDS = [
    (1_000, b"k", b"v", [("h", b"1"), ("i", None)]),
    (1_001, None, b"", []),
    (-1, b"", None, [("h", b"")]),
]
NOTHING = (b"\0\0\0\0", b"", None, 0)


def batch_of(twin, records, **arguments):
    builder = twin.BatchBuilder(size_limit_bytes=1 << 24, **arguments)
    for record in records:
        assert builder.append(*record)
    return bytes(builder.close())


def plain(part):
    if isinstance(part, int) or part is None:
        return part
    return tuple(map(plain, part)) if isinstance(part, tuple) else bytes(part)


def numbers(block, kind="q"):
    return list(memoryview(bytes(block)).cast(kind))


def test_what_is_not_wanted_is_empty(twin):
    data = batch_of(twin, RECORDS, base_offset=5)
    found = twin.decode_columns(data, wanted=ColumnSet.OFFSET)
    assert (found.row_count, numbers(found.offsets)) == (3, [5, 6, 7])
    assert plain(found.keys) == plain(found.values) == plain(found.header_keys) == NOTHING
    assert (bytes(found.timestamps), bytes(found.timestamp_types)) == (b"", b"")
    assert bytes(found.headers) == b"\0\0\0\0"
    assert twin.decode_columns(data, wanted=0).row_count == 3


@pytest.mark.parametrize("name", [each.name for each in ColumnSet])
def test_one_column_is_the_same_alone_and_among_the_others(twin, name):
    data = b"".join(batch_of(twin, RECORDS, base_offset=3 * index) for index in range(5))
    alone = twin.decode_columns(data, wanted=ColumnSet[name])
    among = twin.decode_columns(data, wanted=RECORD_COLUMNS | ColumnSet.TIMESTAMP_TYPE)
    fields = {"HEADERS": ["headers", "header_keys", "header_values"], "TIMESTAMP_TYPE": ["timestamp_types"]}
    for field in fields.get(name, [f"{name.lower()}s"]):
        assert plain(getattr(alone, field)) == plain(getattr(among, field))


def test_times_can_be_smaller_units_and_do_not_run_over(twin, seal):
    data = batch_of(twin, [(-1, None, None, []), (2**62, None, None, [])])
    data += seal(b"\x0c\x00\x00\x00\x01\x01\x00", 1, base_timestamp_ms=-(2**62), base_offset=2)
    found = twin.decode_columns(data, timestamp_scale=1000)
    assert numbers(found.timestamps) == [-1000, 2**63 - 1, -(2**63)]
    with pytest.raises(ValueError, match="timestamp_scale"):
        twin.decode_columns(data, timestamp_scale=7)


def test_whose_clock_it_was_is_told_for_every_row(twin):
    data = batch_of(twin, RECORDS) + batch_of(twin, RECORDS[:2], base_offset=3, log_append_time_ms=9)
    found = twin.decode_columns(data, wanted=ColumnSet.TIMESTAMP_TYPE | ColumnSet.TIMESTAMP)
    assert numbers(found.timestamp_types, "i") == [0, 0, 0, 1, 1]
    assert numbers(found.timestamps) == [1_000, 1_001, -1, 9, 9]


def test_batches_behind_the_range_are_not_even_decompressed(twin, seal):
    garbage = seal(b"not gzip", 1, attributes=1, base_offset=3)
    data = batch_of(twin, RECORDS) + garbage
    assert twin.decode_columns(data, until_offset=3).row_count == 3


records = st.tuples(
    st.integers(-1, 2**40),
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
)


@given(
    batches=st.lists(st.lists(records, min_size=1, max_size=20), max_size=5),
    codec=st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]),
    wanted=st.integers(0, 63),
    scale=st.sampled_from([1, 1000, 1_000_000]),
    bounds=st.tuples(st.none() | st.integers(0, 60), st.none() | st.integers(0, 60)),
    cut=st.integers(0, 50),
)
def test_both_twins_agree(both, batches, codec, wanted, scale, bounds, cut):
    python, native = both
    data, offset = b"", 0
    for each in batches:
        data += batch_of(python, each, base_offset=offset, compression=codec)
        offset += len(each) + 1  # compaction leaves gaps
    data = data[: len(data) - cut] if cut < len(data) else data
    arguments = {
        "wanted": wanted,
        "timestamp_scale": scale,
        "from_offset": bounds[0],
        "until_offset": bounds[1],
    }
    first, second = (twin.decode_columns(data, **arguments) for twin in (python, native))
    assert [plain(part) for part in first] == [plain(part) for part in second]
