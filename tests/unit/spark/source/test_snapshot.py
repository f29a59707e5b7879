"""What a batch query reads, and what a task of a micro-batch reads of it when the plan has grown old."""

from __future__ import annotations

import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from ottla import TopicPartition
from ottla.spark.source import range_reading, snapshot
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import Share
from ottla.spark.source.reader import BATCH_ID, BatchReader
from ottla.spark.source.snapshot import is_fixed
from ottla.spark.source.topic_positions import NothingToRead
from ottla.testing import FakeBroker

VALUES = StructType([StructField("value", BinaryType())])
TASKS = 3


@pytest.fixture
def fake():
    with FakeBroker() as fake:
        fake.create_topic("table", 2)
        fake.append("table", [b"0"], partition=0)
        yield fake
    range_reading._kept.close()
    snapshot._kept.close()


@pytest.fixture
def in_a_micro_batch(monkeypatch):
    class Context:
        def getLocalProperty(self, name):  # noqa: N802
            return "7" if name == BATCH_ID else None

    monkeypatch.setattr(TaskContext, "get", Context)


def reader(fake, **more):
    topics = {} if "subscribePattern" in more else {"subscribe": "table"}
    base = {"kafka.bootstrap.servers": fake.bootstrap_servers, **topics, **more}
    return BatchReader(SourceOptions.parse(base, streaming=False), VALUES)


def read(source, tasks):
    return [value for task in tasks for batch in source.read(task) for value in batch.column("value").to_pylist()]


def test_every_action_reads_what_was_planned(fake):
    source = reader(fake)
    tasks = source.partitions()
    fake.append("table", [b"1"], partition=0)
    assert read(source, tasks) == [b"0"]


@pytest.mark.usefixtures("in_a_micro_batch")
def test_a_task_of_a_micro_batch_reads_what_there_is_when_it_begins(fake):
    source = reader(fake)
    tasks = source.partitions()
    fake.append("table", [b"1"], partition=0)
    fake.append("table", [b"2"], partition=1)
    assert sorted(read(source, tasks)) == [b"0", b"1", b"2"]


@pytest.mark.usefixtures("in_a_micro_batch")
def test_a_plan_of_an_empty_topic_reads_what_came_since(fake):
    fake.create_topic("other", 1)
    source = reader(fake, subscribe="other")
    tasks = source.partitions()
    fake.append("other", [b"1"], partition=0)
    assert read(source, tasks) == [b"1"]


@pytest.mark.usefixtures("in_a_micro_batch")
@pytest.mark.parametrize("tasks", [1, 2, TASKS])
def test_a_topic_that_matches_since_is_read_once_by_one_of_the_tasks(fake, tasks):
    fake.append("table", [b"%d" % number for number in range(1, 4)], partition=1)
    source = reader(fake, subscribePattern="table.*", minPartitions=str(tasks))
    planned = source.partitions()
    assert len(planned) == tasks
    fake.create_topic("table-2", 2)
    for partition in range(2):
        fake.append("table-2", [b"new %d" % partition], partition=partition)
    assert sorted(read(source, planned)) == [b"0", b"1", b"2", b"3", b"new 0", b"new 1"]


@pytest.mark.usefixtures("in_a_micro_batch")
def test_offsets_that_are_all_named_are_read_as_planned(fake):
    exact = {"startingOffsets": '{"table": {"0": 0, "1": 0}}', "endingOffsets": '{"table": {"0": 1, "1": 0}}'}
    source = reader(fake, **exact)
    tasks = source.partitions()
    asked = fake.asked("ListOffsets")
    assert read(source, tasks) == [b"0"]
    assert fake.asked("ListOffsets") == asked


@pytest.mark.usefixtures("in_a_micro_batch")
def test_a_task_that_fails_to_look_keeps_no_connection(fake):
    source = reader(fake)
    tasks = source.partitions()
    with fake.lock:
        del fake.cluster.topics["table"]
    with pytest.raises(NothingToRead):
        read(source, tasks)
    assert snapshot._kept._waiting == []


@pytest.mark.parametrize(
    ("options", "fixed"),
    [
        ({}, False),
        ({"startingOffsets": '{"table": {"0": 3}}'}, False),
        ({"startingOffsets": '{"table": {"0": -2}}', "endingOffsets": '{"table": {"0": 9}}'}, False),
        ({"startingOffsets": '{"table": {"0": 3}}', "endingOffsets": '{"table": {"0": 9}}'}, True),
        ({"startingTimestamp": "1", "endingTimestamp": "2"}, False),
    ],
)
def test_only_offsets_that_are_all_named_do_not_grow_old(options, fixed):
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "table", **options}
    assert is_fixed(SourceOptions.parse(given, streaming=False)) is fixed


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_a_partition_has_one_task_and_neighbours_have_others(tasks):
    partitions = [TopicPartition("t", number) for number in range(10)]
    chosen = [[each for each in partitions if Share(task, tasks).has(each)] for task in range(tasks)]
    assert sorted(each for share in chosen for each in share) == partitions
    assert {len(each) for each in chosen} == {10 // tasks}
