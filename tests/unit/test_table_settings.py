"""What a topic says about its table."""

import pytest

from ottla.errors import InvalidSetting
from ottla.table_settings import PartitionField, TableSettings, partition_fields


def test_a_partition_spec_says_its_fields():
    assert partition_fields("") == ()
    assert partition_fields("day(timestamp), bucket(16, key),country") == (
        PartitionField("day", "timestamp"),
        PartitionField("bucket", "key", 16),
        PartitionField("identity", "country"),
    )
    assert [str(each) for each in partition_fields("hour( at ) , bucket(2,id)")] == ["hour(at)", "bucket(2, id)"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("week(timestamp)", "'week(timestamp)' is no part of a table"),
        ("day(timestamp", "is no part of a table"),
        ("bucket(0, key)", "1 to 10000 buckets, not 0"),
        ("bucket(key)", "is no part of a table"),
        ("a,,b", "',b' is no part"),
        ("a,a", "comes twice"),
        ("a,b,c,d,e", "4 fields at most"),
    ],
)
def test_a_spec_that_says_nothing_is_refused_with_a_sentence(text, words):
    with pytest.raises(InvalidSetting, match=r"ottla\.table\.partition\.by") as error:
        TableSettings({"ottla.table.partition.by": text})
    assert words in str(error.value)


def test_a_location_is_that_of_many_topics_and_missing_with_a_sentence():
    settings = TableSettings.of({"ottla.table.location": "s3://lake/{topic}/", "retention.ms": "1", "x": None})
    assert settings.location_of("clicks") == "s3://lake/clicks"
    with pytest.raises(InvalidSetting, match=r"set ottla\.table\.location of the topic, or of the brokers"):
        TableSettings().location_of("clicks")


def test_dead_letters_have_a_topic_beside():
    assert TableSettings().dead_letters_of("clicks") == "clicks-dead-letters"
    assert TableSettings({"ottla.table.dead.letters.topic": "bad"}).dead_letters_of("clicks") == "bad"
