"""What calls refuse says what was given and what is wanted."""

import re
from typing import Any

import pytest

from ottla.client import arguments
from ottla.client.admin.arguments import new_topics
from ottla.values import OffsetAndMetadata, TopicPartition

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("call", "given", "words"),
    [
        (arguments.topics_of, 5, "names of topics are wanted in a list, not 5"),
        (arguments.topics_of, [5], "the name of a topic is text that is not empty, not 5"),
        (arguments.topics_of, b"t", "in a list, not b't'"),
        (arguments.topic_of, " ", "not empty, not ' '"),
        (arguments.partitions_of, T0, "a list of partitions is wanted, not one"),
        (arguments.partitions_of, 5, "partitions are wanted in a list, not 5"),
        (arguments.partitions_of, ["t"], "a partition is TopicPartition(topic, partition), not 't'"),
        (arguments.partition_of, ("t", "0"), "the number of a partition is a whole number, not '0'"),
        (arguments.offset_of, "x", "an offset is a whole number, not 'x'"),
        (arguments.offset_of, 1.5, "an offset is a whole number, not 1.5"),
        (arguments.pattern_of, 5, "a pattern is text or a compiled regular expression, not 5"),
        (arguments.seconds_of, "1", "a timeout is a number of seconds, not '1'"),
    ],
)
def test_a_wrong_kind_is_told_at_once(call: Any, given: Any, words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        call(given)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (arguments.partition_of, ("t", -1)),
        (arguments.time_ms_of, -1),
        (arguments.pattern_of, "("),
        (arguments.seconds_of, float("nan")),
    ],
)
def test_a_value_that_cannot_be_is_told_at_once(call: Any, given: Any) -> None:
    with pytest.raises(ValueError, match=r"0 or more|no regular expression|not NaN"):
        call(given)


def test_one_wrong_key_or_value_of_a_mapping_is_named() -> None:
    with pytest.raises(TypeError, match="a mapping of partitions is wanted"):
        arguments.by_partition(5, arguments.offset_of)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not 5"):
        arguments.by_partition({5: 1}, arguments.offset_of)
    with pytest.raises(ValueError, match="0 or more, not -1"):
        arguments.by_partition({T0: -1}, arguments.offset_of)


def test_what_can_be_used_is_made_the_one_form() -> None:
    class Index:
        def __index__(self) -> int:
            return 3

    assert arguments.topics_of("t") == ["t"]
    assert arguments.partition_of(("t", Index())) == TopicPartition("t", 3)
    found = arguments.by_partition({("t", 0): 5, T0._replace(partition=1): OffsetAndMetadata(6)}, arguments.offset_of)
    assert found == {T0: OffsetAndMetadata(5), TopicPartition("t", 1): OffsetAndMetadata(6)}
    assert arguments.pattern_of("a+").match("aa")


def test_topics_to_make_are_no_mapping_because_its_numbers_would_be_passed_over() -> None:
    with pytest.raises(TypeError, match=re.escape("not a mapping: write [NewTopic(name, partitions), ...]")):
        new_topics({"t": 3})
