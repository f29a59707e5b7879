"""Columns of records in any format: a bad record costs itself, frames, and what is left for the careful reader."""

import pyarrow as pa
import pytest

from ottla.schemas.arrow.decoded import decode_each, decode_rest, decode_text, without_frames
from ottla.schemas.arrow.json_rows import JsonRows
from ottla.schemas.arrow.json_values import NotInJson


def test_what_arrow_refuses_costs_its_record_only():
    found = decode_each(pa.array([b"1", b"300", None, b"x", b"4"], pa.binary()), pa.int8(), int)
    assert found.column.to_pylist() == [1, None, None, None, 4]
    assert list(found.problems) == [1, 3]
    assert found.problems[1].startswith("it does not fit into its columns")


def test_the_careful_reader_has_what_the_quick_one_left():
    column = pa.array([b"1", b"2", None, b"x", b"5"], pa.binary())
    asked = []

    def read(content):
        asked.append(content)
        return int(content)

    found = decode_rest(column, pa.array([1, None, None, None, 5]), read)
    assert asked == [b"2", b"x"]
    assert found.column.to_pylist() == [1, 2, None, None, 5]
    assert list(found.problems) == [3]


@pytest.mark.parametrize("values", [[], [None], [b"{}"], [b"\0\0\0\0\1{}"], [None, b"{}", b"\0\0\0\0\1{}", b"\0", b""]])
def test_a_frame_is_taken_off_where_there_is_one(values):
    wanted = [value[5:] if value and value[0] == 0 else value for value in values]
    for repeated in (1, 1_000):
        column = pa.array(values * repeated, pa.binary())
        assert without_frames(column).to_pylist() == wanted * repeated
        assert without_frames(column.slice(1)).to_pylist() == (wanted * repeated)[1:]


def test_frames_of_long_values_are_taken_off():
    column = pa.array([b"\0\0\0\0\1" + b"x" * 1_000] * 10_000, pa.binary())
    assert set(without_frames(column).to_pylist()) == {b"x" * 1_000}


def test_text_that_is_none_is_bad_alone():
    found = decode_text(pa.array([b"a", b"\xff", None], pa.binary()))
    assert (found.column.to_pylist(), list(found.problems)) == (["a", None, None], [1])


def test_decimals_have_all_their_digits():
    rows = JsonRows(pa.struct([("a", pa.decimal128(38, 2))]))
    digits = "123456789012345678901234567890123456"
    found = rows.decode(pa.array([f'{{"a": "{digits}.78"}}'.encode(), f'{{"a": {digits}}}'.encode()], pa.binary()))
    assert [str(value["a"]) for value in found.column.to_pylist()] == [f"{digits}.78", f"{digits}.00"]


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.map_(pa.int32(), pa.int32()), pa.large_string()])
def test_a_column_that_json_has_no_values_for_is_refused_at_once(kind):
    with pytest.raises(NotInJson):
        JsonRows(pa.struct([("a", kind)]))


def test_a_struct_without_fields_is_no_null():
    rows = JsonRows(pa.struct([("a", pa.struct([]))]))
    found = rows.decode(pa.array([b'{"a": {}}', b'{"a": null}', b'{"a": 1}'], pa.binary()))
    assert found.column.to_pylist() == [{"a": {}}, {"a": None}, None]
