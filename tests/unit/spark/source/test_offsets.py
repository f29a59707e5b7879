"""The position of a stream as Spark keeps it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.source.offsets import Packing, StreamOffset, UnreadableOffset
from ottla.values import TopicPartition

PARTITIONS = st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 30))
POSITIONS = st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1), max_size=8)
COUNTS = st.none() | st.integers(1, 10**6)
OFFSETS = st.builds(
    StreamOffset,
    POSITIONS,
    st.dictionaries(st.text(min_size=1, max_size=5), st.text(min_size=22, max_size=22), max_size=3),
    st.builds(Packing, st.integers(1, 100), COUNTS, COUNTS),
    POSITIONS,
)


@given(OFFSETS)
def test_an_offset_comes_back_from_its_text(offset: StreamOffset) -> None:
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@given(POSITIONS, st.randoms(use_true_random=False))
def test_the_same_position_is_the_same_text(positions: dict[TopicPartition, int], random: Any) -> None:
    shuffled = list(positions.items())
    random.shuffle(shuffled)
    one, other = StreamOffset(positions), StreamOffset(dict(shuffled))
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())


def test_the_form_is_as_documented() -> None:
    offset = StreamOffset(
        {TopicPartition("t", 10): 7, TopicPartition("t", 9): 23},
        {"t": "abc"},
        Packing(2, None, 5),
        {TopicPartition("t", 10): 0},
    )
    assert json.dumps(offset.to_json()) == (
        '{"version": 1, "offsets": {"t": {"9": 23, "10": 7}}, "topic_ids": {"t": "abc"}, "tasks": 2,'
        ' "max_records": 5, "begins": {"t": {"10": 0}}}'
    )


def test_a_checkpoint_of_the_connector_is_read() -> None:
    assert StreamOffset.from_json({"t": {"0": 23}}) == StreamOffset({TopicPartition("t", 0): 23})


@pytest.mark.parametrize(
    "found",
    [
        {"version": 2, "offsets": {}},
        {"version": 1, "offsets": {}, "new_thing": 1},
        {"version": 1, "offsets": {"t": 5}},
        {"version": 1, "offsets": {"t": {"x": 5}}},
        {"version": 1, "offsets": {"t": {"0": -1}}},
        {"version": 1, "offsets": {"t": {"0": "5"}}},
        {"version": 1, "offsets": {}, "tasks": 0},
        {"version": 1, "offsets": {}, "topic_ids": []},
        {"t": 5},
    ],
)
def test_what_is_not_known_is_refused(found: dict[str, Any]) -> None:
    with pytest.raises(UnreadableOffset):
        StreamOffset.from_json(found)


def test_how_a_batch_was_read_does_not_make_it_another_place() -> None:
    here = {TopicPartition("t", 0): 5}
    one = StreamOffset(here, {"t": "a", "gone": "b"}, Packing(2), here)
    assert one.says_the_same(StreamOffset(here, {"t": "a"}, Packing(8)))
    assert not one.says_the_same(StreamOffset(here, {"t": "c"}))
    assert not one.says_the_same(StreamOffset({TopicPartition("t", 0): 6}, {"t": "a"}))
