"""Replay and mirror: the same records on the other side, once and in order, and groups that find their place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.reading import read_to_end

import ottla
from ottla.testing import KafkaBroker
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN_MS = 1_793_491_200_000
Copied = dict[int, list[tuple[bytes | None, bytes | None, int, tuple[Any, ...]]]]


@pytest.fixture(scope="module")
def other() -> Iterator[KafkaBroker]:
    with KafkaBroker() as made:
        yield made


def fill(broker: KafkaBroker, topic: str, numbers: range, partitions: int = 3) -> None:
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in numbers:
            producer.send(
                topic,
                None if number % 7 == 3 else b"value-%d" % number,
                key=None if number % 5 == 4 else b"key-%d" % number,
                headers=[("number", b"%d" % number), ("none", None)] if number % 2 else [],
                partition=number % partitions,
                # Not in the order of time: an archive then has a partition's records in several files.
                timestamp_ms=BEGIN_MS + (number * 7 % 5) * 86_400_000 + number,
            )


def records(broker: KafkaBroker, topic: str) -> Copied:
    """What a reader of committed records sees, by partition."""
    found: Copied = {}
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        partitions = len(admin.describe_topics([topic])[topic].partitions)
    with ottla.Consumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, each) for each in range(partitions)])
        for each in read_to_end(consumer):
            row = (each.key, each.value, each.timestamp_ms, tuple(each.headers or ()))
            found.setdefault(each.partition, []).append(row)
    return found


def test_a_replay_brings_every_record_back_once_as_it_was(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    from ottla.spark.jobs.archive import archive
    from ottla.spark.jobs.archive_layout import ArchiveLayout
    from ottla.spark.jobs.archive_source import ArchiveSlice
    from ottla.spark.jobs.reading import ReadPlan
    from ottla.spark.jobs.replay import ReplayPlan, replay
    from ottla.spark.jobs.target_topics import PartitionsDiffer

    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with ottla.Admin(settings) as admin:
        admin.create_topics([ottla.NewTopic("old", 3)])
        fill(broker, "old", range(30))
        archive(spark, ReadPlan(settings, ("old",)), ArchiveLayout(str(tmp_path)), count_partitions=lambda: {"old": 3})
        plan = ReplayPlan(ArchiveSlice(str(tmp_path), batch_records=12), settings, to="new")
        totals = replay(spark, plan, admin)
        assert (totals.rows, totals.batches, totals.lag) == (30, 3, 0)
        assert records(broker, "new") == records(broker, "old")
        assert replay(spark, plan, admin).rows == 0
        assert sum(map(len, records(broker, "new").values())) == 30
        admin.create_topics([ottla.NewTopic("wide", 5)])
        with pytest.raises(PartitionsDiffer):
            replay(spark, ReplayPlan(ArchiveSlice(str(tmp_path)), settings, to="wide"), admin)


def test_a_replay_waits_for_the_rest_of_a_batch_whose_writing_was_cut_short(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.spark.jobs import archive as job
    from ottla.spark.jobs.archive_layout import ArchiveLayout
    from ottla.spark.jobs.archive_source import ArchiveSlice
    from ottla.spark.jobs.following import JobFailed
    from ottla.spark.jobs.reading import ReadPlan
    from ottla.spark.jobs.replay import ReplayPlan, replay

    settings = {"bootstrap.servers": broker.bootstrap_servers}
    layout, reading = ArchiveLayout(str(tmp_path)), ReadPlan(settings, ("cut",))
    plan = ReplayPlan(ArchiveSlice(str(tmp_path)), settings, to="cut-again")
    whole = job.write_batch

    def write_some_directories(batch: Any, batch_id: int, *, layout: ArchiveLayout) -> None:
        whole(batch.where("offset <> 4"), batch_id, layout=layout)
        raise RuntimeError("cut short")

    with ottla.Admin(settings) as admin:
        admin.create_topics([ottla.NewTopic("cut", 3)])
        fill(broker, "cut", range(9))
        job.archive(spark, reading, layout)
        fill(broker, "cut", range(9, 18))
        with monkeypatch.context() as patched:
            patched.setattr(job, "write_batch", write_some_directories)
            with pytest.raises(JobFailed, match="cut short"):
                job.archive(spark, reading, layout)
        assert list(tmp_path.glob("topic=cut/partition=0/*/batch=1"))
        assert replay(spark, plan, admin).rows == 9
        job.archive(spark, reading, layout)
        assert replay(spark, plan, admin).rows == 9
    assert records(broker, "cut-again") == records(broker, "cut")


def test_a_mirror_keeps_records_and_groups_go_on_where_they_were(
    spark: SparkSession, broker: KafkaBroker, other: KafkaBroker, tmp_path: Path
) -> None:
    from ottla.spark.jobs.mirror import MirrorPlan, mirror
    from ottla.spark.jobs.reading import ReadPlan

    near, far = {"bootstrap.servers": broker.bootstrap_servers}, {"bootstrap.servers": other.bootstrap_servers}
    reading = ReadPlan(near, ("orders",), batch_records=9)
    plan = MirrorPlan(reading, far, str(tmp_path / "checkpoint"), prefix="eu.", groups=("billing",))
    with ottla.Admin(near) as source, ottla.Admin(far) as target:
        source.create_topics([ottla.NewTopic("orders", 3, configs={"retention.ms": "123456789"})])
        fill(broker, "orders", range(24))
        committed = {TopicPartition("orders", partition): offset for partition, offset in ((0, 5), (1, 0), (2, 8))}
        source.alter_consumer_group_offsets("billing", committed)
        result = mirror(spark, plan, source, target)
        assert (result.totals.rows, result.totals.lag) == (24, 0)
        assert records(other, "eu.orders") == records(broker, "orders")
        assert {each.result for each in result.moves} == {"moved"}
        assert unread(far, "billing", "eu.orders") == unread(near, "billing", "orders")

        fill(broker, "orders", range(24, 33))
        source.alter_consumer_group_offsets("billing", {TopicPartition("orders", 0): 9})
        again = mirror(spark, plan, source, target)
        assert again.totals.rows == 9
        assert records(other, "eu.orders") == records(broker, "orders")
        assert unread(far, "billing", "eu.orders") == unread(near, "billing", "orders")


def unread(settings: dict[str, str], group: str, topic: str) -> dict[int, list[Any]]:
    """What a group reads when it goes on."""
    found: dict[int, list[Any]] = {}
    with ottla.Admin(settings) as admin:
        committed = admin.list_consumer_group_offsets(group)
    reading = {**settings, "isolation.level": "read_committed", "enable.auto.commit": "false"}
    with ottla.Consumer(reading) as consumer:
        places = {each: position.offset for each, position in committed.items() if each.topic == topic and position}
        consumer.assign(list(places))
        for partition, offset in places.items():
            consumer.seek(partition, offset)
        for each in read_to_end(consumer):
            found.setdefault(each.partition, []).append((each.key, each.value))
    return found


def test_a_mirror_of_itself_is_refused(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    from ottla.spark.jobs.mirror import MirrorOfItself, MirrorPlan, mirror
    from ottla.spark.jobs.reading import ReadPlan

    settings = {"bootstrap.servers": broker.bootstrap_servers}
    plan = MirrorPlan(ReadPlan(settings, ("any",)), settings, str(tmp_path))
    with ottla.Admin(settings) as admin, pytest.raises(MirrorOfItself):
        mirror(spark, plan, admin, admin)
