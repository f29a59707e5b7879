"""The driver's side of the source against a real broker, without Spark: fast, so every turn of a topic is here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.patience import HANG_S, bounded

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows
from pyspark.sql.types import StructType

from ottla import Admin, NewTopic, Producer, TopicPartition
from ottla.client.consumer.ranges import DataLost
from ottla.errors import OttlaError, UnknownTopicOrPartition
from ottla.spark.option_table import InvalidOption
from ottla.spark.source.offsets import Packing, StreamOffset
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.range_reading import read_ranges
from ottla.spark.source.ranges import OffsetRange, ReadTask
from ottla.spark.source.reader import BatchReader
from ottla.spark.source.schema import arrow_schema
from ottla.spark.source.stream_reader import NO_LIMIT, StreamReader
from ottla.spark.source.topic_positions import NothingToRead
from ottla.testing import KafkaBroker
from ottla.values import uuid_to_text

ALL = ReadAllAvailable()


class Topic:
    """A topic of its own for a test, and what one does to it."""

    def __init__(self, broker: KafkaBroker, admin: Admin, name: str) -> None:
        self.servers, self.admin, self.name = broker.bootstrap_servers, admin, name

    def make(self, partitions: int = 2, name: str | None = None) -> None:
        self.admin.create_topics([NewTopic(name or self.name, num_partitions=partitions)])

    def remove(self) -> None:
        self.admin.delete_topics([self.name])
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            try:
                self.admin.describe_topics([self.name])
            except UnknownTopicOrPartition:
                return
        raise AssertionError("the topic is still there")

    def send(
        self, count: int, partition: int = 0, *, size: int = 5, at_ms: int | None = None, to: str | None = None
    ) -> None:
        with Producer(bootstrap_servers=self.servers) as producer:
            for _ in range(count):
                producer.send(to or self.name, bytes(size), partition=partition, timestamp_ms=at_ms)
            producer.flush()

    def options(self, **more: str) -> dict[str, str]:
        given = {
            "kafka.bootstrap.servers": self.servers,
            **{name.replace("__", "."): each for name, each in more.items()},
        }
        if not {"assign", "subscribePattern"} & more.keys():
            given.setdefault("subscribe", self.name)
        return given


@pytest.fixture(scope="module")
def admin(broker: KafkaBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as made:
        yield made


@pytest.fixture
def topic(broker: KafkaBroker, admin: Admin, request: pytest.FixtureRequest) -> Topic:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return Topic(broker, admin, name)


@pytest.fixture
def stream(topic: Topic) -> Iterator[Callable[..., StreamReader]]:
    made: list[StreamReader] = []

    def make(**options: str) -> StreamReader:
        options.setdefault("startingOffsets", "earliest")
        made.append(StreamReader(SourceOptions.parse(topic.options(**options), streaming=True), StructType()))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def positions(offset: dict[str, Any]) -> dict[tuple[str, int], int]:
    return {(each.topic, each.partition): number for each, number in StreamOffset.from_json(offset).positions.items()}


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> dict[int, tuple[int, int]]:
    tasks = reader.partitions(start, end)
    ranges = [each for task in tasks if isinstance(task, ReadTask) for each in task.ranges]
    return {each.partition: (each.start, each.end) for each in ranges}


def batch(topic: Topic, **options: str) -> dict[int, tuple[int, int]]:
    reader = BatchReader(SourceOptions.parse(topic.options(**options), streaming=False), StructType())
    ranges = [each for task in reader.partitions() if isinstance(task, ReadTask) for each in task.ranges]
    return {each.partition: (each.start, each.end) for each in ranges}


# --- beginning -------------------------------------------------------------------------------------------------------


def test_a_new_stream_begins_at_the_end_and_asked_twice_says_the_same(
    topic: Topic, stream: Callable[..., StreamReader]
) -> None:
    topic.make()
    topic.send(3)
    reader = stream(startingOffsets="latest")
    first = reader.initialOffset()
    topic.send(3)
    assert reader.initialOffset() == first
    assert positions(first) == {(topic.name, 0): 3, (topic.name, 1): 0}
    assert positions(reader.latestOffset(first, ALL)) == {(topic.name, 0): 6, (topic.name, 1): 0}


def test_it_begins_where_options_say(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    topic.make()
    topic.send(5, at_ms=1_000)
    topic.send(5, at_ms=2_000)
    topic.send(5, 1, at_ms=3_000)

    def begin(**options: str) -> list[int]:
        return list(positions(stream(**options).initialOffset()).values())

    assert begin(startingTimestamp="1500") == [5, 0]
    assert begin(startingTimestamp="2500", startingOffsetsByTimestampStrategy="latest") == [10, 0]
    assert begin(startingOffsetsByTimestamp=f'{{"{topic.name}": {{"0": 2000, "1": 0}}}}') == [5, 0]
    assert begin(startingOffsets=f'{{"{topic.name}": {{"0": 7, "1": -1}}}}') == [7, 5]
    with pytest.raises(InvalidOption, match="no record is as late"):
        begin(startingTimestamp="9000")
    with pytest.raises(DataLost, match="at offset 99"):
        begin(startingOffsets=f'{{"{topic.name}": {{"0": 99, "1": -1}}}}')
    assert begin(startingOffsets=f'{{"{topic.name}": {{"0": 99, "1": -1}}}}', failOnDataLoss="false") == [10, 5]


def test_it_begins_where_a_group_has_committed(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    topic.make()
    topic.send(9)
    topic.admin.alter_consumer_group_offsets(topic.name, {TopicPartition(topic.name, 0): 4})
    reader = stream(startingGroupId=topic.name, startingOffsets="latest")
    assert list(positions(reader.initialOffset()).values()) == [4, 0]


def test_a_topic_that_does_not_exist_is_told(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    with pytest.raises(NothingToRead, match="does not exist"):
        stream().initialOffset()
    topic.make()
    with pytest.raises(NothingToRead, match="no partition"):
        stream(assign=f'{{"{topic.name}": [0, 7]}}').initialOffset()


def test_brokers_that_are_away_are_told_in_time(topic: Topic) -> None:
    options = topic.options(
        kafka__bootstrap__servers="127.0.0.1:1",
        kafka__default__api__timeout__ms="500",
        kafka__request__timeout__ms="500",
    )
    reader = StreamReader(SourceOptions.parse(options, streaming=True), StructType())
    with bounded(), pytest.raises(OttlaError):
        reader.initialOffset()
    reader.stop()


# --- limits ----------------------------------------------------------------------------------------------------------


def test_limits_are_told_to_spark_in_its_words(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    assert stream().getDefaultReadLimit() == ReadMaxRows(NO_LIMIT)
    assert stream(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="2").getDefaultReadLimit() == ReadMaxRows(5)
    assert stream(maxBytesPerTrigger="1k").getDefaultReadLimit() == ReadMaxBytes(1024)
    assert stream(minOffsetsPerTrigger="2").getDefaultReadLimit() == ReadMinRows(2)
    assert stream(maxTimePerTrigger="2s").getDefaultReadLimit() != ALL


def test_a_limit_holds_unless_spark_wants_all(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    topic.make()
    topic.send(90)
    topic.send(10, 1)
    reader = stream(maxOffsetsPerTrigger="20")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert read(reader, start, end) == {0: (0, 18), 1: (0, 2)}
    assert reader.reportLatestOffset() is not None
    assert positions(reader.reportLatestOffset() or {}) == {(topic.name, 0): 90, (topic.name, 1): 10}
    assert read(reader, end, reader.latestOffset(end, ALL)) == {0: (18, 90), 1: (2, 10)}


def test_bytes_are_limited_by_the_size_of_the_next_records(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    topic.make(1)
    topic.send(100, size=1_000)
    topic.send(900, size=100)
    reader = stream(maxBytesPerTrigger="10000")
    limit, start = reader.getDefaultReadLimit(), reader.initialOffset()
    end = reader.latestOffset(start, limit)
    ((_, taken),) = read(reader, start, end).values()
    assert 5 <= taken <= 60  # a sample may reach into the small ones
    behind = StreamOffset({TopicPartition(topic.name, 0): 500}).to_json()
    ((_, until),) = read(reader, behind, reader.latestOffset(behind, limit)).values()
    assert until - 500 == 100


def test_a_batch_waits_for_more(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    topic.make(1)
    reader = stream(minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    limit, start = reader.getDefaultReadLimit(), reader.initialOffset()
    topic.send(1)
    start = reader.latestOffset(start, limit)  # the first of a run is not delayed
    topic.send(9)
    assert reader.latestOffset(start, limit) is start
    topic.send(1)
    assert list(positions(reader.latestOffset(start, limit)).values()) == [11]


# --- runs that end ---------------------------------------------------------------------------------------------------


def test_a_run_to_the_end_reads_what_there_was_under_its_limits(
    topic: Topic, stream: Callable[..., StreamReader]
) -> None:
    topic.make()
    topic.send(25)
    reader = stream(maxOffsetsPerTrigger="10", minOffsetsPerTrigger="10")
    reader.prepareForTriggerAvailableNow()
    topic.send(50)
    topic.admin.create_partitions({topic.name: 3})
    offset, ends = reader.initialOffset(), []
    while (following := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        ends.append(positions(following)[topic.name, 0])
        offset = following
    assert ends == [10, 20, 25]


# --- the life of a topic ---------------------------------------------------------------------------------------------


def test_new_partitions_are_read_from_their_first_record(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    topic.make(1)
    topic.send(4)
    reader = stream(startingOffsets="latest")
    start = reader.initialOffset()
    topic.admin.create_partitions({topic.name: 2})
    topic.send(3, 1)
    end = reader.latestOffset(start, ALL)
    assert read(reader, start, end) == {1: (0, 3)}
    assert reader.latestOffset(end, ALL) is end
    assert read(reader, end, end) == {}


def test_a_pattern_finds_a_topic_that_is_made_later(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    topic.make(1)
    reader = stream(subscribePattern=f"{topic.name}.*")
    start = reader.initialOffset()
    later = f"{topic.name}-later"
    topic.make(1, later)
    topic.send(3, to=later)
    end = reader.latestOffset(start, ALL)
    assert positions(end) == {(topic.name, 0): 0, (later, 0): 3}
    assert read(reader, start, end) == {0: (0, 3)}


def test_a_topic_that_is_deleted(
    topic: Topic, stream: Callable[..., StreamReader], caplog: pytest.LogCaptureFixture
) -> None:
    topic.make(1)
    topic.send(4)
    strict, lenient = stream(), stream(failOnDataLoss="false")
    start = strict.initialOffset()
    topic.remove()
    with pytest.raises(DataLost, match="-0 at offset 0: its topic was deleted;"):
        strict.latestOffset(start, ALL)
    with caplog.at_level(logging.WARNING):
        end = lenient.latestOffset(start, ALL)
        assert positions(end) == {}
        assert lenient.latestOffset(end, ALL) is end
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "records are lost and failOnDataLoss=false",
        f"{topic.name} does not exist; it is read as soon as it does",
    ]
    topic.make(1)
    topic.send(2)
    back = lenient.latestOffset(end, ALL)
    assert read(lenient, end, back) == {0: (0, 2)}


def test_a_topic_that_is_deleted_and_made_again(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    topic.make(1)
    topic.send(4)
    strict, lenient = stream(), stream(failOnDataLoss="false")
    start = strict.latestOffset(strict.initialOffset(), ALL)
    topic.remove()
    topic.make(1)
    topic.send(4)  # as many as before: only the id tells
    with pytest.raises(
        DataLost, match="-0 at offset 4: its topic was deleted and made again; it can go on at offset 0"
    ):
        strict.latestOffset(start, ALL)
    end = lenient.latestOffset(start, ALL)
    assert read(lenient, start, end) == {0: (0, 4)}
    assert lenient.latestOffset(end, ALL) is end
    assert strict.latestOffset(end, ALL) is end


def test_a_task_reads_a_topic_that_was_made_again(topic: Topic) -> None:
    """The worker has read the topic of before, and keeps its connection; what it is to read now is of the new one."""
    options = SourceOptions.parse(topic.options(failOnDataLoss="false"), streaming=True)

    def rows() -> int:
        topic.make(1)
        topic.send(3)
        topic_id = topic.admin.describe_topics([topic.name])[topic.name].topic_id
        assert topic_id is not None
        wanted = OffsetRange(topic.name, 0, 0, 3, uuid_to_text(topic_id))
        return sum(each.num_rows for each in read_ranges(options, [wanted], arrow_schema(options)))

    assert rows() == 3
    topic.remove()
    assert rows() == 3


def test_records_that_are_deleted(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    topic.make(1)
    topic.send(10)
    strict, lenient = stream(), stream(failOnDataLoss="false")
    start = strict.initialOffset()
    topic.admin.delete_records({TopicPartition(topic.name, 0): 6})
    with pytest.raises(DataLost, match="-0 at offset 0: records before its first one were deleted"):
        strict.latestOffset(start, ALL)
    assert read(lenient, start, lenient.latestOffset(start, ALL)) == {0: (6, 10)}
    with pytest.raises(DataLost):
        batch(topic, startingOffsets=f'{{"{topic.name}": {{"0": 0}}}}')
    assert batch(topic, startingOffsets=f'{{"{topic.name}": {{"0": 0}}}}', failOnDataLoss="false") == {0: (6, 10)}
    assert batch(topic) == {0: (6, 10)}


def test_open_transactions_are_not_shown_and_not_lost(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    topic.make(1)
    topic.send(3)
    with Producer(bootstrap_servers=topic.servers, transactional_id=topic.name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic.name, b"open", partition=0)
        producer.flush()
        careful, careless = stream(isolationLevel="read_committed"), stream()
        start = careful.initialOffset()
        assert list(positions(careful.latestOffset(start, ALL)).values()) == [3]
        ahead = careless.latestOffset(start, ALL)
        assert list(positions(ahead).values()) == [4]
        assert careful.latestOffset(ahead, ALL) is ahead
        producer.commit_transaction()
    assert list(positions(careful.latestOffset(start, ALL)).values()) == [5]


# --- groups, batches -------------------------------------------------------------------------------------------------


def test_offsets_of_finished_batches_are_committed(topic: Topic, stream: Callable[..., StreamReader]) -> None:
    topic.make(1)
    topic.send(4)
    reader = stream(commitGroupId=topic.name)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    partition = TopicPartition(topic.name, 0)

    def committed() -> int | None:
        found = topic.admin.list_consumer_group_offsets(topic.name)[partition]
        return None if found is None else found.offset

    assert committed() == 0  # what Spark reads now is not done yet
    reader.latestOffset(end, ALL)
    assert committed() == 4


def test_a_batch_has_the_bounds_that_options_say(topic: Topic) -> None:
    topic.make()
    topic.send(5, at_ms=1_000)
    topic.send(5, at_ms=2_000)
    topic.send(5, 1, at_ms=3_000)
    assert batch(topic) == {0: (0, 10), 1: (0, 5)}
    assert batch(topic, startingTimestamp="1500", endingTimestamp="2500") == {0: (5, 10)}
    assert batch(topic, endingOffsets=f'{{"{topic.name}": {{"0": 3, "1": -1}}}}') == {0: (0, 3), 1: (0, 5)}
    assert batch(topic, assign=f'{{"{topic.name}": [1]}}') == {1: (0, 5)}
    with pytest.raises(DataLost, match="at offset 30"):
        batch(topic, endingOffsets=f'{{"{topic.name}": {{"0": 30, "1": -1}}}}')


def test_a_batch_is_planned_from_its_offsets_alone() -> None:
    """A restart with other options, or on other machines, repeats the last batch with the same tasks."""
    partition = TopicPartition("t", 0)
    start, end = StreamOffset({partition: 0}), StreamOffset({partition: 9_000}, {}, Packing(2, 5, 2_000))
    plans = []
    for more in ({}, {"minPartitions": "17"}, {"maxRecordsPerPartition": "10"}):
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", **more}
        reader = StreamReader(SourceOptions.parse(options, streaming=True), StructType())
        plans.append(reader.partitions(start.to_json(), end.to_json()))
    assert plans[0] == plans[1] == plans[2]
    assert len(plans[0]) == 5


def test_an_empty_topic_is_one_task_with_nothing(topic: Topic) -> None:
    topic.make()
    reader = BatchReader(SourceOptions.parse(topic.options(), streaming=False), StructType())
    assert reader.partitions() == [ReadTask(())]
