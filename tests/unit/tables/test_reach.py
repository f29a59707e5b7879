"""What of a topic can be read, what is lost, and when a table stops."""

import pytest

from ottla.tables.marker import Marker
from ottla.tables.reach import Gap, Halt, PartitionOffsets, Reach, TopicDescription, beginning, other_topic, reach

MARKER = Marker("t", 3, {0: 10, 1: 5})


def topic(*partitions, topic_id="t"):
    return TopicDescription(topic_id, {number: PartitionOffsets(*seen) for number, seen in enumerate(partitions)})


def test_what_is_committed_behind_the_marker_can_be_read():
    found = reach({0: 10, 1: 5}, topic((0, 10), (2, 9)), stops_at_gaps=True)
    assert found == Reach({1: (5, 9)}, ())
    assert found.offsets == 4


def test_a_partition_that_came_later_is_read_from_its_first_offset():
    assert reach({0: 10}, topic((0, 10), (0, 3)), stops_at_gaps=True) == Reach({1: (0, 3)}, ())


def test_a_new_table_begins_where_the_topic_does():
    assert beginning(topic((7, 9), (0, 0))) == {0: 7, 1: 0}


def test_what_was_deleted_before_it_was_read_is_told():
    seen = topic((12, 20), (0, 5), (4, 4))
    assert reach({0: 10, 1: 5}, seen, stops_at_gaps=False) == Reach({0: (12, 20)}, (Gap(0, 10, 12), Gap(2, 0, 4)))
    stopped = reach({0: 10, 1: 5}, seen, stops_at_gaps=True)
    assert isinstance(stopped, Halt)
    assert stopped.reason.startswith(
        "records were deleted before the table had them: partition 0 offsets 10 to 11, partition 2 offsets 0 to 3"
    )


def test_a_log_that_lost_its_end_stops_the_table():
    found = reach({0: 10, 1: 5}, topic((0, 9), (0, 5)), stops_at_gaps=False)
    assert isinstance(found, Halt)
    assert "partition 0 up to offset 10, and its log ends at 9" in found.reason


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (topic((0, 20), (0, 20), topic_id="u"), "it was made anew"),
        (topic((0, 20)), "partitions that the topic does not have: [1]"),
    ],
)
def test_another_topic_of_the_same_name_stops_the_table(seen, words):
    halt = other_topic(MARKER, seen)
    assert halt is not None
    assert words in halt.reason
    assert other_topic(MARKER, topic((0, 0), (0, 0), (0, 0))) is None
