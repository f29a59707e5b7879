"""The walk over records before an append, on both twins."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptMessage, InvalidRecord
from ottla.records import checks, log_walks, record_walk
from ottla.records.checks import REFUSALS_LIMIT, RecordsCheck, Refusal, RefusedRecord, TimeBounds
from ottla.records.implementation import CHOSEN, BatchBuilder, RecordBatch
from ottla.records.layout import HEADER_BYTES
from ottla.testing.strategies import records

try:
    from ottla.records import _checks as native
except ImportError:
    native = None

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


@pytest.fixture(params=["python", "native"])
def check_records(request):
    if request.param == "python":
        return checks.check_records
    if native is None:
        pytest.skip("ottla.records._checks is not built: that needs a C compiler")
    return native.check_records


def batch_of(*some, **how):
    builder = BatchBuilder(size_limit_bytes=2**31 - 1, **how)
    for timestamp_ms, key, value, headers in some:
        builder.append(timestamp_ms, key, value, headers)
    return builder.close()


def record_bytes(*some):
    return batch_of(*some)[HEADER_BYTES:]


def test_sound_records_are_taken_and_their_latest_time_is_found(check_records):
    data = record_bytes((100, b"k", b"v", ()), (300, None, None, (("h", None),)), (200, b"", b"v" * 200, ()))
    assert check_records(data, 3, 100) == RecordsCheck(300, True, 0, [], False)


def test_a_batch_time_stands_for_the_times_of_all(check_records):
    data = record_bytes((100, b"k", b"v", ()), (300, b"k", b"v", ()))
    found = check_records(data, 2, 100, append_time_ms=50, bounds=TimeBounds(50, 0, 0))
    assert (found.max_timestamp_ms, found.refused_count) == (50, 0)


def test_records_without_a_key_are_refused_where_keys_are_required(check_records):
    data = record_bytes((1, None, b"v", ()), (2, b"", b"v", ()), (3, None, None, ()))
    found = check_records(data, 3, 1, keys_required=True)
    assert found.refused == [RefusedRecord(0, Refusal.NO_KEY, 1), RefusedRecord(2, Refusal.NO_KEY, 3)]
    assert (found.refused_count, found.has_refused_time) == (2, False)


@pytest.mark.parametrize(
    ("timestamp_ms", "bounds", "is_taken"),
    [
        (900, TimeBounds(1000, 100, 50), True),
        (899, TimeBounds(1000, 100, 50), False),
        (1050, TimeBounds(1000, 100, 50), True),
        (1051, TimeBounds(1000, 100, 50), False),
        (-1, TimeBounds(1000, 0, 0), True),
        (0, TimeBounds(1000, INT64_MAX, 0), True),
        (INT64_MAX, TimeBounds(1000, INT64_MAX, INT64_MAX), True),
    ],
)
def test_times_out_of_bounds_are_refused(check_records, timestamp_ms, bounds, is_taken):
    found = check_records(record_bytes((timestamp_ms, b"k", b"v", ())), 1, timestamp_ms, bounds=bounds)
    assert found.refused_count == (not is_taken)
    assert found.refused == ([] if is_taken else [RefusedRecord(0, Refusal.TIME_OUT_OF_BOUNDS, timestamp_ms)])
    assert found.has_refused_time is not is_taken


def test_a_claimed_append_time_is_refused_where_times_are_free_or_missing(check_records):
    data = record_bytes((1, b"k", b"v", ()))
    refused = [RefusedRecord(0, Refusal.APPEND_TIME_CLAIMED, 9)]
    assert check_records(data, 1, 1, append_time_ms=9).refused == refused
    assert check_records(data, 1, 1, append_time_ms=-1, bounds=TimeBounds(0, 0, 0)).refused_count == 1


def test_a_missing_key_is_told_before_a_bad_time(check_records):
    found = check_records(record_bytes((1, None, b"", ())), 1, 1, keys_required=True, bounds=TimeBounds(99, 0, 0))
    assert [record.reason for record in found.refused] == [Refusal.NO_KEY]


def test_all_refused_are_counted_and_only_the_first_are_listed(check_records):
    data = record_bytes(*[(5, None, b"", ())] * REFUSALS_LIMIT, (5, None, b"", ()), (99, b"k", b"", ()))
    found = check_records(data, REFUSALS_LIMIT + 2, 5, keys_required=True, bounds=TimeBounds(5, 0, 0))
    assert (found.refused_count, len(found.refused)) == (REFUSALS_LIMIT + 2, REFUSALS_LIMIT)
    assert found.has_refused_time
    assert found.refused[-1].batch_index == REFUSALS_LIMIT - 1


def test_offsets_that_do_not_count_up_are_noticed(check_records):
    builder = BatchBuilder()
    builder.append_with_offset(0, 1, b"k", b"v")
    builder.append_with_offset(2, 1, b"k", b"v")
    assert not check_records(builder.close()[HEADER_BYTES:], 2, 1).has_consecutive_offsets


def test_times_wrap_around_as_in_java(check_records):
    data = record_bytes((5, b"k", b"v", ()), (7, b"k", b"v", ()))
    assert check_records(data, 1 + 1, INT64_MAX).max_timestamp_ms == INT64_MAX
    found = check_records(data, 2, INT64_MAX, bounds=TimeBounds(0, INT64_MAX, INT64_MAX))
    assert [record.timestamp_ms for record in found.refused] == []
    found = check_records(data, 2, INT64_MIN, bounds=TimeBounds(0, 10, INT64_MAX))
    assert found.refused_count == 1


@pytest.mark.parametrize(
    ("data", "count", "what"),
    [
        (b"", 1, "claims 1 records in 0 bytes"),
        (b"\x00" * 7, -1, "claims -1 records"),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2, "claims 2 records in 7 bytes"),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", 1, "1 bytes are left after the 1 records"),
        (b"\x0e\x00\x00\x00\x01\x01\x00", 1, "record 0 of the batch is broken"),
        (b"\x0c\x00\x00\x00\x01\x01\x00" + b"\x0c\x00\x00\x02\x03\x01\x00", 2, "record 1 of the batch is broken"),
        (b"\x00" * 7, 1, "record 0 of the batch is broken"),
        (b"\x0c\x00\x00\x00\x01\x01\x02", 1, "record 0 of the batch is broken"),
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1, "record 0 of the batch is broken"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x00", 1, "record 0 of the batch is broken"),
        (b"\xff\xff\xff\xff\xff\xff\xff", 1, "record 0 of the batch is broken"),
    ],
)
def test_broken_records_are_refused(check_records, data, count, what):
    with pytest.raises(InvalidRecord, match=what):
        check_records(data, count, 0)


def test_the_walk_is_chosen_like_the_codec():
    expected = checks if CHOSEN == "python" or native is None else native
    assert log_walks.check_records is expected.check_records
    assert log_walks.place_plain_batch is expected.place_plain_batch
    assert log_walks.place_plain_run is expected.place_plain_run
    assert log_walks.RecordsWalk is (record_walk if expected is checks else native).RecordsWalk


def outcome(check, *arguments, **how):
    try:
        return check(*arguments, **how)
    except InvalidRecord as error:
        return str(error)


@pytest.mark.skipif(native is None, reason="ottla.records._checks is not built: that needs a C compiler")
@given(
    some=st.lists(records(), min_size=1, max_size=4),
    damage=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=2),
    extra=st.integers(-1, 1),
    base=st.integers(INT64_MIN, INT64_MAX),
    append_time_ms=st.none() | st.integers(-1, 100),
    keys_required=st.booleans(),
    bounds=st.none() | st.builds(TimeBounds, *[st.integers(0, INT64_MAX)] * 3),
)
def test_the_twins_agree_on_anything(some, damage, extra, **how):
    data = bytearray(record_bytes(*some))
    for position, value in damage:
        data[position % len(data)] = value
    base = how.pop("base")
    expected = outcome(checks.check_records, data, len(some) + extra, base, **how)
    assert outcome(native.check_records, data, len(some) + extra, base, **how) == expected


@given(some=st.lists(records(), min_size=1, max_size=4), position=st.integers(0, 1 << 16), value=st.integers(0, 255))
def test_what_is_taken_can_be_read_and_the_other_way_round(some, position, value):
    batch = bytearray(batch_of(*some))
    batch[HEADER_BYTES + position % (len(batch) - HEADER_BYTES)] = value
    taken = outcome(checks.check_records, memoryview(batch)[HEADER_BYTES:], len(some), 0)
    try:
        RecordBatch(bytes(batch)).tuples()
    except CorruptMessage:
        assert isinstance(taken, str)
    else:
        assert isinstance(taken, RecordsCheck)


# --- in pieces --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["python", "native"])
def make_walk(request):
    if request.param == "native" and native is None:
        pytest.skip("ottla.records._checks is not built: that needs a C compiler")
    return record_walk.RecordsWalk if request.param == "python" else native.RecordsWalk


def walked(make_walk, data, count, base, cuts, **how):
    """What a walk finds in `data` when it comes cut at these places."""
    walk = make_walk(count, base, **how)
    places = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(places):
        walk.feed(bytes(data[start:end]))
    return walk.finish()


@pytest.mark.parametrize("twin", ["python", "native"])
@given(
    some=st.lists(records(), min_size=1, max_size=4),
    damage=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=2),
    extra=st.integers(-1, 1),
    cuts=st.lists(st.integers(0, 1 << 16), max_size=5) | st.just(None),
    base=st.integers(INT64_MIN, INT64_MAX),
    append_time_ms=st.none() | st.integers(-1, 100),
    keys_required=st.booleans(),
    bounds=st.none() | st.builds(TimeBounds, *[st.integers(0, INT64_MAX)] * 3),
)
def test_a_walk_in_pieces_finds_what_the_walk_over_all_finds(twin, some, damage, extra, cuts, **how):
    if twin == "native" and native is None:
        return
    make_walk = record_walk.RecordsWalk if twin == "python" else native.RecordsWalk
    data = bytearray(record_bytes(*some))
    for position, value in damage:
        data[position % len(data)] = value
    places = range(len(data)) if cuts is None else [cut % len(data) for cut in cuts]
    base = how.pop("base")
    expected = outcome(checks.check_records, data, len(some) + extra, base, **how)
    found = outcome(walked, make_walk, data, len(some) + extra, base, places, **how)
    if isinstance(expected, RecordsCheck):
        assert found == expected
    else:
        assert isinstance(found, str)


def test_a_record_larger_than_its_pieces_is_passed_over(make_walk):
    data = record_bytes((7, b"k" * 300, b"v" * 5000, (("h" * 200, b"x" * 900),)), (8, None, b"", ()))
    for step in (1, 2, 63, 64, 500):
        found = walked(make_walk, data, 2, 7, range(step, len(data), step))
        assert found == RecordsCheck(8, True, 0, [], False)


def test_a_walk_refuses_as_soon_as_it_knows(make_walk):
    sound = record_bytes((1, b"k", b"v", ()))
    walk = make_walk(1, 0)
    walk.feed(sound)
    with pytest.raises(InvalidRecord, match="left after the 1 records"):
        walk.feed(b"\0")
    walk = make_walk(2, 0)
    walk.feed(sound)
    with pytest.raises(InvalidRecord, match="record 1 of the batch is broken"):
        walk.finish()
    with pytest.raises(InvalidRecord, match="record 1 of the batch is broken"):
        walk.feed(b"\xff" * 6)
    with pytest.raises(InvalidRecord, match="claims -1 records"):
        make_walk(-1, 0)
