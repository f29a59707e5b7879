"""Whether replicas have the same records, judged from the bytes of each."""

from ottla.cli.commands.verify import judged
from ottla.cli.comparing import Difference, compare
from ottla.records import BatchBuilder, assign_offsets

TIME_MS = 1_700_000_000_000


def batch(offset, *values, time_ms=TIME_MS):
    builder = BatchBuilder()
    for value in values:
        builder.append(time_ms, None, value)
    data = bytearray(builder.close())
    assign_offsets(data, 0, offset, 0)
    return bytes(data)


def test_the_same_records_are_no_difference():
    data = batch(0, b"a", b"b") + batch(2, b"c")
    assert compare({1: data, 2: data}, 0, 3) == ([], 3, 3)


def test_records_are_compared_as_far_as_every_replica_sent_them_and_no_further_than_the_limit():
    first, second = batch(0, b"a", b"b"), batch(2, b"c")
    assert compare({1: first + second, 2: first}, 0, 3) == ([], 2, 2)
    assert compare({1: first + second, 2: first + second}, 0, 2) == ([], 2, 2)


def test_another_value_is_a_difference_and_other_batches_are_not():
    found = compare({1: batch(0, b"a", b"b"), 2: batch(0, b"a", b"x")}, 0, 2)
    assert found == ([Difference(1, "another record on broker 2 than on 1")], 2, 2)
    assert compare({1: batch(0, b"a", b"b"), 2: batch(0, b"a") + batch(1, b"b")}, 0, 2) == ([], 2, 2)


def test_a_record_that_one_replica_lacks_is_a_difference_unless_it_was_compacted():
    parts = {1: batch(0, b"a") + batch(1, b"b") + batch(2, b"c"), 2: batch(0, b"a") + batch(2, b"c")}
    assert compare(parts, 0, 3).differences == [Difference(1, "missing on broker 2")]
    assert compare(parts, 0, 3, is_compacted=True).differences == []


def test_a_replica_that_sends_nothing_where_others_do_is_a_difference():
    found = compare({1: batch(5, b"a"), 2: b""}, 5, 6)
    assert found.next_offset is None
    assert "broker 2 has no record from here on" in found.differences[0].what
    assert compare({1: b"", 2: b""}, 5, 6) == ([], 0, None)


def test_damage_is_a_difference_of_that_replica():
    good = batch(0, b"a")
    bad = good[:-1] + bytes([good[-1] ^ 1])
    found = compare({1: good, 2: bad}, 0, 1)
    assert found.differences[0].what.startswith("broker 2: damaged: ")


def test_a_round_trip_counts_what_is_missing_came_twice_or_late():
    result = judged(5, {"p0": [0, 2, 1], "p1": [3, 3]})
    assert result == {"sent": 5, "came back": 5, "missing": 1, "twice": 1, "out of order": 1}
