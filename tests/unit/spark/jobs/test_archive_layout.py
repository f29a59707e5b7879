"""Where an archive keeps what, and which runs may go on with it."""

from __future__ import annotations

import pytest

from ottla.spark.jobs.archive_layout import (
    ArchiveLayout,
    OtherArchive,
    check_plan,
    plan_text,
    read_topics,
    topics_text,
)
from ottla.spark.jobs.reading import ReadPlan, TopicsMissing

SERVERS = {"bootstrap.servers": "localhost:9092", "sasl.password": "secret"}


def reading(*topics: str, **options: object) -> ReadPlan:
    return ReadPlan(SERVERS, topics, **options)  # type: ignore[arg-type]


def test_hours_are_directories_only_when_asked_for() -> None:
    assert ArchiveLayout("a").partition_columns == ("topic", "partition", "date", "batch")
    assert ArchiveLayout("a", by_hour=True).partition_columns == ("topic", "partition", "date", "hour", "batch")


def test_the_checkpoint_lies_in_the_archive_where_readers_do_not_look() -> None:
    assert ArchiveLayout("s3a://bucket/clicks").checkpoint == "s3a://bucket/clicks/_ottla/checkpoint"


def test_a_run_goes_on_with_the_same_topics_in_any_order_and_other_limits() -> None:
    layout = ArchiveLayout("a")
    check_plan(plan_text(layout, reading("b", "a")), plan_text(layout, reading("a", "b", "a", batch_records=5)))


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (plan_text(ArchiveLayout("a"), reading("a", "c")), "subscribe is 'a', asked for is 'a,c'"),
        (plan_text(ArchiveLayout("a", by_hour=True), reading("a")), "hour is False, asked for is True"),
        (plan_text(ArchiveLayout("a"), ReadPlan(SERVERS, pattern="a")), "subscribe is 'a', asked for is None"),
        (
            plan_text(ArchiveLayout("a"), reading("a", isolation_level="read_uncommitted")),
            "isolationLevel is 'read_committed', asked for is 'read_uncommitted'",
        ),
    ],
)
def test_a_run_that_asks_for_something_else_is_refused(asked: str, sentence: str) -> None:
    with pytest.raises(OtherArchive, match=sentence):
        check_plan(plan_text(ArchiveLayout("a"), reading("a")), asked)


def test_a_plan_that_nobody_of_ours_wrote_is_refused() -> None:
    with pytest.raises(OtherArchive):
        check_plan("no json", plan_text(ArchiveLayout("a"), reading("a")))


def test_no_secret_is_in_the_plan_or_shown() -> None:
    plan = reading("a")
    assert "secret" not in plan_text(ArchiveLayout("a"), plan)
    assert "secret" not in repr(plan)


def test_the_counts_of_partitions_come_back() -> None:
    assert read_topics(topics_text({"b": 3, "a": 1})) == {"a": 1, "b": 3}


# --- what is read ---


def test_a_copy_reads_what_is_committed_from_the_beginning_and_fails_on_loss() -> None:
    assert reading("a", "b").options() == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.sasl.password": "secret",
        "subscribe": "a,b",
        "includeHeaders": "true",
        "isolationLevel": "read_committed",
        "failOnDataLoss": "true",
        "startingOffsets": "earliest",
    }


def test_times_and_limits_become_options() -> None:
    options = ReadPlan(SERVERS, pattern="a.*", since_ms=5, until_ms=9, batch_records=7, allow_data_loss=True).options()
    assert options["subscribePattern"] == "a.*"
    assert (options["startingTimestamp"], options["endingTimestamp"]) == ("5", "9")
    assert options["startingOffsetsByTimestampStrategy"] == "latest"
    assert (options["maxOffsetsPerTrigger"], options["failOnDataLoss"]) == ("7", "false")
    assert "startingOffsets" not in options


def test_the_options_are_ones_that_the_source_takes() -> None:
    pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")
    from ottla.spark.source.options import SourceOptions

    made = SourceOptions.parse(
        ReadPlan({"bootstrap.servers": "h:1"}, ("a",), batch_records=7).options(), streaming=True
    )
    assert made.max_offsets_per_trigger == 7
    SourceOptions.parse(ReadPlan({"bootstrap.servers": "h:1"}, ("a",), until_ms=7).options(), streaming=False)


def test_topics_and_a_pattern_exclude_each_other() -> None:
    with pytest.raises(TopicsMissing):
        ReadPlan(SERVERS)
    with pytest.raises(TopicsMissing):
        ReadPlan(SERVERS, ("a",), pattern="b")
