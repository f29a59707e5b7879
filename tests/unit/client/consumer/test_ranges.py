"""What is a loss and what is not, and which ranges are read together."""

import pytest

from ottla.client.consumer.ranges import Lost, TopicRange, find_loss, sentence, waves
from ottla.values import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_different_partitions_are_read_together_and_one_partition_in_turns():
    ranges = [TopicRange("t", 0, 0, 5), TopicRange("t", 1, 0, 9), TopicRange("t", 0, 7, 8), TopicRange("t", 0, 20, 21)]
    assert waves(ranges) == [{A: (0, 5), B: (0, 9)}, {A: (7, 8)}, {A: (20, 21)}]


def test_empty_ranges_are_nothing_to_read():
    assert waves([TopicRange("t", 0, 5, 5)]) == []
    assert waves([TopicRange("t", 0, 5, 5), TopicRange("t", 0, 1, 2)]) == [{A: (1, 2)}]


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 4)])
def test_what_is_no_range_is_refused(start, end):
    with pytest.raises(ValueError, match="no range"):
        waves([TopicRange("t", 0, start, end)])


@pytest.mark.parametrize(
    ("position", "end", "log", "expected"),
    [
        (10, 20, (0, 30, 30), None),
        (10, 20, (10, 20, 20), None),
        # retention
        (10, 20, (15, 30, 30), (10, 15)),
        (10, 20, (20, 30, 30), (10, 20)),
        (10, 20, (25, 30, 30), (10, 20)),
        # the log ends before the range
        (10, 20, (0, 10, 10), (10, 20)),
        (12, 20, (0, 10, 10), (12, 20)),
        (10, 20, (0, 15, 15), None),  # what is there is read first
        (15, 20, (0, 15, 15), (15, 20)),
        # an open transaction: the log only seems to end
        (15, 20, (0, 15, 20), None),
        (15, 20, (0, 15, 18), (15, 20)),
        # not known
        (10, 20, (None, None, None), None),
        (10, 20, (None, 10, None), (10, 20)),
    ],
)
def test_losses(position, end, log, expected):
    log_start, log_end, high_watermark = log
    found = find_loss(position, end, log_start=log_start, log_end=log_end, high_watermark=high_watermark)
    assert (None if found is None else (found.start, found.end)) == expected


def test_only_a_beginning_is_sure():
    assert find_loss(0, 9, log_start=5, log_end=9, high_watermark=9).is_sure
    assert not find_loss(5, 9, log_start=0, log_end=5, high_watermark=5).is_sure


def test_a_loss_names_its_offsets():
    assert sentence(A, Lost(3, 7, "why", True)) == "offsets 3 to 6 of t-0 are gone: why"
