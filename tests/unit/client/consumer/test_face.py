"""What calls of a consumer say about arguments that are not what they take."""

import pytest

from ottla.client.consumer.face import checked_partitions
from ottla.values import TopicPartition


def test_partitions_are_taken_as_values_or_plain_tuples():
    assert checked_partitions((TopicPartition("t", 0), ("t", 1))) == [("t", 0), ("t", 1)]


@pytest.mark.parametrize("wrong", [[TopicPartition("t", 0)], "t", 0, None])
def test_a_list_or_a_name_in_place_of_a_partition_is_told_how_to_write_it(wrong):
    with pytest.raises(TypeError, match=r"TopicPartition\(topic, partition\), a list as \*list"):
        checked_partitions((wrong,))
