"""Batches of a good size, in their order."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer import portions
from ottla.client.consumer.portions import BYTES_MAX, FIRST_ROWS, ROWS_MAX, Portions

SCHEMA = pa.schema([("offset", pa.int64()), ("value", pa.binary())])


def batch(first, count, size=10):
    return pa.RecordBatch.from_arrays(
        [pa.array(range(first, first + count)), pa.array([b"x" * size] * count)], schema=SCHEMA
    )


def rows(batches):
    return [each for one in batches for each in one.column("offset").to_pylist()]


def test_small_batches_are_joined_and_the_rest_comes_at_the_end():
    made = Portions()
    given_out = [made.add(batch(100 * index, 100)) for index in range(10)]
    assert given_out == [[]] * 10
    last = made.rest()
    assert len(last) == 1
    assert rows(last) == list(range(1000))
    assert made.rest() == []


def test_a_batch_of_a_good_size_goes_as_it_is():
    made = Portions()
    whole = batch(0, portions.JOINED_ROWS)
    (given_out,) = made.add(whole)
    assert given_out is whole


def test_a_large_batch_is_cut_without_being_copied():
    made = Portions()
    whole = batch(0, 20, size=BYTES_MAX)
    parts = made.add(whole)
    assert rows(parts) == list(range(20))
    assert max(part.nbytes for part in parts) <= 2 * BYTES_MAX
    assert parts[0].column("value").buffers()[2].address == whole.column("value").buffers()[2].address


def test_one_record_cannot_be_cut():
    assert [part.num_rows for part in Portions().add(batch(0, 1, size=3 * BYTES_MAX))] == [1]


def test_the_target_follows_the_size_of_the_rows():
    made = Portions()
    assert made.row_target == FIRST_ROWS
    made.add(batch(0, 100, size=1_000_000))
    assert 1 <= made.row_target <= 8
    made.add(batch(100, 1_000, size=1))
    assert made.row_target == ROWS_MAX


@given(st.lists(st.tuples(st.integers(1, 3_000), st.sampled_from([0, 10, 3_000])), max_size=12))
def test_no_row_is_lost_doubled_or_moved(shapes):
    made = Portions()
    found, first = [], 0
    for count, size in shapes:
        found += rows(made.add(batch(first, count, size)))
        first += count
    assert found + rows(made.rest()) == list(range(first))
