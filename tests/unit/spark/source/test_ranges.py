"""Ranges become tasks: everything once, in order, balanced, and the same plan every time."""

from __future__ import annotations

import pickle
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.source.offsets import Packing, StreamOffset
from ottla.spark.source.ranges import SMALL_TASK, TINY_TASK, OffsetRange, ReadTask, plan, ranges_between
from ottla.values import TopicPartition


def ranges_of(sizes: dict[tuple[str, int], tuple[int, int]]) -> list[OffsetRange]:
    return [OffsetRange(topic, index, start, start + size) for (topic, index), (start, size) in sizes.items()]


RANGES = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(0, 12)),
    st.tuples(st.integers(0, 10**9), st.one_of(st.integers(0, 3), st.integers(0, 60_000))),
    max_size=20,
).map(ranges_of)
PACKINGS = st.builds(Packing, st.integers(1, 16), st.none() | st.integers(1, 60), st.none() | st.integers(1_000, 10**6))


def sizes_of(tasks: list[ReadTask]) -> list[int]:
    return [task.size for task in tasks]


@given(RANGES, PACKINGS)
def test_every_offset_is_read_exactly_once(ranges: list[OffsetRange], packing: Packing) -> None:
    pieces = sorted(piece for task in plan(ranges, packing) for piece in task.ranges)
    found: dict[tuple[str, int], list[OffsetRange]] = {}
    for piece in pieces:
        assert piece.start < piece.end
        found.setdefault((piece.topic, piece.partition), []).append(piece)
    expected = {(each.topic, each.partition): each for each in ranges if each.size}
    assert found.keys() == expected.keys()
    for key, parts in found.items():
        assert (parts[0].start, parts[-1].end) == (expected[key].start, expected[key].end)
        assert all(one.end == other.start for one, other in pairwise(parts))


@given(RANGES, PACKINGS)
def test_ranges_of_a_task_are_in_order(ranges: list[OffsetRange], packing: Packing) -> None:
    for task in plan(ranges, packing):
        assert task.ranges
        assert list(task.ranges) == sorted(task.ranges)


@given(RANGES, PACKINGS, st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_ranges(
    ranges: list[OffsetRange], packing: Packing, random: object
) -> None:
    shuffled = list(ranges)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert plan(shuffled, packing) == plan(ranges, packing)


@given(RANGES, PACKINGS)
def test_no_task_is_larger_than_allowed(ranges: list[OffsetRange], packing: Packing) -> None:
    if packing.max_records is not None:
        assert max(sizes_of(plan(ranges, packing)), default=0) <= packing.max_records


@given(RANGES, PACKINGS)
def test_there_are_as_many_tasks_as_asked_for(ranges: list[OffsetRange], packing: Packing) -> None:
    total = sum(each.size for each in ranges)
    assert len(plan(ranges, packing)) >= min(packing.min_partitions or 0, total)


@given(RANGES, st.integers(1, 16))
def test_packed_tasks_are_balanced(ranges: list[OffsetRange], cores: int) -> None:
    """The lightest task plus one range is never lighter than the heaviest: else the range would have gone there."""
    tasks = plan(ranges, Packing(cores))
    for task in tasks:
        if len(task.ranges) > 1:
            smallest = min(piece.size for piece in task.ranges)
            assert task.size - smallest <= min(sizes_of(tasks))


def test_small_ranges_share_a_task() -> None:
    ranges = [OffsetRange("t", index, 0, 10) for index in range(100)]
    assert len(plan(ranges, Packing(4))) == 2  # 1,000 offsets: enough for two tasks of TINY_TASK


def test_there_is_a_task_for_each_core_when_each_has_something_to_do() -> None:
    ranges = [OffsetRange("t", index, 0, TINY_TASK) for index in range(8)]
    assert sizes_of(plan(ranges, Packing(4))) == [2 * TINY_TASK] * 4


def test_large_partitions_have_a_task_of_their_own_and_are_not_split() -> None:
    ranges = [OffsetRange("t", index, 0, 10 * SMALL_TASK) for index in range(8)]
    assert sizes_of(plan(ranges, Packing(2))) == [10 * SMALL_TASK] * 8


def test_min_partitions_splits_the_large_ones() -> None:
    ranges = [OffsetRange("t", 0, 0, 3000), OffsetRange("t", 1, 0, 1000)]
    assert sorted(sizes_of(plan(ranges, Packing(1, min_partitions=4)))) == [1000, 1000, 1000, 1000]


def test_max_records_splits_into_equal_parts() -> None:
    assert sizes_of(plan([OffsetRange("t", 0, 5, 2505)], Packing(1, max_records=1000))) == [834, 833, 833]


def test_a_batch_reads_from_offset_to_offset() -> None:
    a, b, new, moved = (TopicPartition("t", index) for index in range(4))
    start = StreamOffset({a: 5, b: 7, moved: 90})
    end = StreamOffset({a: 9, b: 7, new: 3, moved: 12}, {"t": "id"}, begins={new: 1, moved: 10})
    assert ranges_between(start, end) == [
        OffsetRange("t", 0, 5, 9, "id"),
        OffsetRange("t", 2, 1, 3, "id"),
        OffsetRange("t", 3, 10, 12, "id"),
    ]


def test_the_same_offset_twice_is_an_empty_batch_though_it_has_beginnings() -> None:
    here = StreamOffset({TopicPartition("t", 0): 5}, begins={TopicPartition("t", 0): 2})
    assert ranges_between(here, here) == []


def test_a_partition_that_only_the_end_knows_without_a_beginning_is_not_read() -> None:
    assert ranges_between(StreamOffset({}), StreamOffset({TopicPartition("t", 0): 5})) == []


def test_a_task_travels() -> None:
    task = ReadTask((OffsetRange("t", 0, 5, 9, "id"),))
    assert pickle.loads(pickle.dumps(task)) == task
