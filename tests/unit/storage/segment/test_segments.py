"""The ordered set of segments against a sorted list."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.segment.segments import Segments


@dataclass
class Piece:
    base_offset: int
    size_bytes: int = 10


def segments_at(*base_offsets: int) -> Segments[Piece]:
    return Segments(Piece(base_offset) for base_offset in base_offsets)


def base_offset_of(piece: Piece | None) -> int | None:
    return None if piece is None else piece.base_offset


def test_an_empty_log_has_no_first_and_no_last() -> None:
    segments: Segments[Piece] = Segments()
    assert (segments.first, segments.last, segments.floor(5), segments.higher(5)) == (None, None, None, None)
    assert (len(segments), segments.size_bytes, segments.values(0)) == (0, 0, [])


def test_an_offset_belongs_to_the_last_segment_that_begins_at_or_below_it() -> None:
    segments = segments_at(20, 0, 10)
    assert [base_offset_of(segments.floor(offset)) for offset in (-1, 0, 9, 10, 99)] == [None, 0, 0, 10, 20]
    assert [base_offset_of(segments.lower(offset)) for offset in (0, 1, 10, 99)] == [None, 0, 0, 20]
    assert [base_offset_of(segments.higher(offset)) for offset in (-1, 0, 10, 20)] == [0, 10, 20, None]
    assert base_offset_of(segments.get(10)) == 10
    assert segments.get(11) is None


def test_values_reach_from_the_segment_of_the_start_to_the_end() -> None:
    segments = segments_at(0, 10, 20, 30)
    assert [piece.base_offset for piece in segments.values(15, 30)] == [10, 20]
    assert [piece.base_offset for piece in segments.values(15, 31)] == [10, 20, 30]
    assert [piece.base_offset for piece in segments.values(-5, 1)] == [0]
    assert [piece.base_offset for piece in segments.values(15)] == [10, 20, 30]
    assert [piece.base_offset for piece in segments.above(10)] == [20, 30]
    assert [piece.base_offset for piece in segments.without_active()] == [0, 10, 20]
    with pytest.raises(ValueError, match="before they begin"):
        segments.values(5, 4)


def test_adding_at_a_taken_offset_gives_the_old_one_back() -> None:
    segments = segments_at(0, 10)
    old, new = segments.get(10), Piece(10, size_bytes=7)
    assert segments.add(new) is old
    assert segments.get(10) is new
    assert segments.size_bytes == 17


def test_removing_what_is_not_there_is_an_error() -> None:
    segments = segments_at(0, 10)
    assert segments.remove(0).base_offset == 0
    with pytest.raises(KeyError):
        segments.remove(0)
    assert segments.base_offsets == [10]


def test_segments_are_replaced_in_one_step() -> None:
    segments = segments_at(0, 10, 20)
    cleaned = Piece(0, size_bytes=3)
    segments.replace(segments.without_active(), [cleaned])
    assert segments.base_offsets == [0, 20]
    assert segments.first is cleaned


def test_a_walk_is_not_disturbed_by_changes() -> None:
    segments = segments_at(0, 10, 20)
    for piece in segments:
        segments.remove(piece.base_offset)
    assert len(segments) == 0


def test_clear_takes_all_of_them_out() -> None:
    segments = segments_at(0, 10)
    assert [piece.base_offset for piece in segments.clear()] == [0, 10]
    assert segments.last is None


@given(st.lists(st.integers(0, 30)), st.lists(st.integers(0, 30), max_size=5), st.integers(0, 30), st.integers(0, 10))
def test_it_behaves_as_a_sorted_list(added: list[int], removed: list[int], start: int, length: int) -> None:
    segments = segments_at(*added)
    model = sorted(set(added))
    for base_offset in removed:
        if base_offset in model:
            model.remove(base_offset)
            segments.remove(base_offset)
    assert segments.base_offsets == model
    assert base_offset_of(segments.floor(start)) == max((each for each in model if each <= start), default=None)
    assert base_offset_of(segments.higher(start)) == min((each for each in model if each > start), default=None)
    end = start + length
    expected = [
        each
        for each, following in zip(model, [*model[1:], 10**9], strict=False)
        if following > start and each < end and length
    ]
    assert [piece.base_offset for piece in segments.values(start, end)] == expected
