"""The map of offsets: a group that moves to a mirror reads everything that it had not read."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.jobs.offset_map import (
    OffsetMap,
    Run,
    Segment,
    SegmentBuilder,
    UnreadableSegment,
    read_segment,
    runs_of,
    segment_key,
    segment_value,
)
from ottla.values import TopicPartition

CLICKS = TopicPartition("clicks", 0)


def test_the_example_of_the_files_story_is_true() -> None:
    segment = Segment(20, (Run(5, 3), Run(10, 2)))
    assert [segment.translate(offset) for offset in (5, 8, 10, 12)] == [20, 23, 23, 25]


def test_where_nothing_was_mirrored_there_is_no_answer() -> None:
    assert OffsetMap().translate(CLICKS, 7) is None


def test_an_offset_before_everything_becomes_the_first_beginning() -> None:
    offsets = OffsetMap()
    offsets.add(CLICKS, Segment(40, (Run(100, 5),)))
    assert offsets.translate(CLICKS, 3) == 40


def test_a_segment_that_is_not_exact_gives_its_beginning_only() -> None:
    offsets = OffsetMap()
    offsets.add(CLICKS, Segment(40, (Run(100, 5),), is_exact=False))
    assert [offsets.translate(CLICKS, offset) for offset in (100, 103, 105)] == [40, 40, 40]


def test_of_two_segments_with_one_beginning_the_later_counts() -> None:
    offsets = OffsetMap()
    offsets.add(CLICKS, Segment(0, (Run(0, 5),)))
    offsets.add(CLICKS, Segment(70, (Run(0, 5),)))
    assert offsets.translate(CLICKS, 2) == 72


def test_a_segment_with_too_many_gaps_is_cut_and_the_parts_follow_each_other() -> None:
    builder = SegmentBuilder(10, runs_limit=2)
    made = [*builder.add([0, 2, 4, 6, 8]), *builder.end()]
    assert made == [
        Segment(10, (Run(0, 1), Run(2, 1))),
        Segment(12, (Run(4, 1), Run(6, 1))),
        Segment(14, (Run(8, 1),)),
    ]


def test_runs_that_touch_across_two_batches_are_one() -> None:
    builder = SegmentBuilder(0)
    assert builder.add([3, 4]) == []
    assert builder.add([5, 6, 9]) == []
    assert builder.end() == [Segment(0, (Run(3, 4), Run(9, 1)))]
    assert builder.end() == []


@given(st.sets(st.integers(0, 200)))
def test_runs_hold_every_offset_once_and_never_touch(offsets: set[int]) -> None:
    runs = runs_of(sorted(offsets))
    assert [each for run in runs for each in range(run.start, run.start + run.length)] == sorted(offsets)
    assert all(second.start > first.start + first.length for first, second in itertools.pairwise(runs))


@st.composite
def mirrored(draw: st.DrawFn) -> tuple[list[tuple[int, int]], OffsetMap]:
    """A mirror's run: batches of a source with gaps, a target with markers and aborted attempts between them."""
    pairs: list[tuple[int, int]] = []
    offsets, source, target = OffsetMap(), draw(st.integers(0, 20)), draw(st.integers(0, 50))
    for _ in range(draw(st.integers(1, 6))):
        steps = draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))
        aborted = draw(st.integers(0, 5))
        # The place was asked for before the aborted attempt was seen to be over: not exact.
        is_exact = not aborted or draw(st.booleans())
        asked = target + aborted if is_exact else target
        target += aborted
        builder = SegmentBuilder(asked, is_exact=is_exact, runs_limit=draw(st.integers(1, 4)))
        sources = []
        for step in steps:
            source += step
            sources.append(source)
            pairs.append((source, target))
            target += 1
        cut = draw(st.integers(0, len(sources)))
        for segment in [*builder.add(sources[:cut]), *builder.add(sources[cut:]), *builder.end()]:
            offsets.add(CLICKS, segment)
        target += 1
    return pairs, offsets


@given(mirrored(), st.integers(0, 300))
def test_a_group_that_moves_misses_nothing(made: tuple[list[tuple[int, int]], OffsetMap], committed: int) -> None:
    pairs, offsets = made
    translated = offsets.translate(CLICKS, committed)
    assert translated is not None
    unread = {target for source, target in pairs if source >= committed}
    read = {target for _, target in pairs if target >= translated}
    assert unread <= read


@given(mirrored(), st.integers(0, 300))
def test_a_group_that_moves_reads_nothing_twice_where_the_place_was_known(
    made: tuple[list[tuple[int, int]], OffsetMap], committed: int
) -> None:
    pairs, offsets = made
    if not all(segment.is_exact for segment in offsets._segments[CLICKS].values()):
        return
    translated = offsets.translate(CLICKS, committed)
    assert translated is not None
    assert {target for _, target in pairs if target >= translated} == {
        target for source, target in pairs if source >= committed
    }


@given(st.sets(st.integers(0, 500), min_size=1), st.integers(0, 2**40), st.booleans())
def test_a_segment_comes_back_from_its_record(offsets: set[int], target: int, is_exact: bool) -> None:
    segment = Segment(target, tuple(runs_of(sorted(offsets))), is_exact)
    key, value = segment_key("c1", CLICKS, segment), segment_value(segment)
    assert read_segment(key, value) == ("c1", CLICKS, segment)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b'{"cluster":"c","topic":"t","partition":0,"offset":0}', None),
        (b'{"cluster":"c","topic":"t","partition":0,"offset":0}', b'{"version":2}'),
        (b'{"cluster":"c","topic":"t","partition":0}', b'{"version":1,"target_offset":0,"exact":true,"runs":[]}'),
        (b'{"cluster":"c","topic":"t","partition":0}', b'{"version":1,"target_offset":0,"exact":true,"runs":[[5,0]]}'),
        (b"[]", b"[]"),
    ],
)
def test_what_no_mirror_wrote_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(UnreadableSegment):
        read_segment(key, value)
