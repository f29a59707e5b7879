"""What a task of a mirror does with its rows before the sink gets them: new names, and segments of the offset map.

1. A row goes on as it came: key, value, headers, timestamp and number of the partition are not touched, the order
   neither; the topic gets the prefix.
2. For each partition the task appends the segments (offset_map.py) of the rows it passed on, as rows of the topic of
   mapped offsets. They are rows like any other, so the sink writes them in the same transaction: a map speaks of
   records if and only if these are there.
3. Where the first row of a partition will lie is asked of the target before it goes on: the end of the partition, once
   no transaction is open there. The mirror is the only writer, and the batch before is done; so an open transaction is
   one whose last marker is on its way, or what a killed task left and the sink is about to abort. After WAIT_S it is
   left at that: the segment then is not exact, and says only what is certain.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow
from pyarrow import compute
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType, TimestampType

from ottla.errors import OttlaError, UnknownTopicOrPartition
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.spark.jobs.offset_map import Segment, SegmentBuilder, segment_key, segment_value
from ottla.spark.running.arrow_types import as_arrow
from ottla.spark.source.schema import HEADERS_TYPE
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

WAIT_S: Final = 10.0
ASK_AGAIN_S: Final = 0.02
MAP_PARTITION: Final = 0

RECORD_SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS_TYPE),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("timestamp", TimestampType()),
    ]
)
"""What leaves; what comes in has the column `offset` besides."""


class TargetPartitionMissing(OttlaError):
    """The target lacks a topic or partition, because it is new at the source. Start the mirror again: it makes it."""


class TargetEnd(NamedTuple):
    """Where the next record of a partition will lie, or, if that is not known, a place that is not behind it."""

    offset: int
    is_exact: bool


AskEnd: TypeAlias = Callable[[TopicPartition], TargetEnd]


@dataclass(frozen=True)
class MirrorRows:
    """The function for mapInArrow; pickled and sent to the tasks."""

    cluster_id: str
    prefix: str
    map_topic: str
    settings: Mapping[str, object] = field(repr=False)
    """Of the client of the target cluster."""

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from ottla.client.admin.admin import Admin

        with Admin(dict(self.settings)) as admin:
            yield from self.passed_on(batches, lambda partition: ask_end(admin, partition))

    def passed_on(self, batches: Iterator[pyarrow.RecordBatch], ask: AskEnd) -> Iterator[pyarrow.RecordBatch]:
        """All rows, and behind them the rows of the map."""
        builders: dict[TopicPartition, SegmentBuilder] = {}
        for batch in batches:
            for partition, rows in stretches(batch):
                if partition not in builders:
                    end = ask(TopicPartition(self.prefix + partition.topic, partition.partition))
                    builders[partition] = SegmentBuilder(end.offset, is_exact=end.is_exact)
                full = builders[partition].add(rows.column("offset").to_pylist())
                yield self._renamed(rows, partition)
                yield from self._mapped(partition, full)
        for partition, builder in builders.items():
            yield from self._mapped(partition, builder.end())

    def _renamed(self, rows: Any, partition: TopicPartition) -> pyarrow.RecordBatch:
        schema = as_arrow(RECORD_SCHEMA)
        topic = pyarrow.repeat(pyarrow.scalar(self.prefix + partition.topic), rows.num_rows)
        columns = [topic if each.name == "topic" else rows.column(each.name).cast(each.type) for each in schema]
        return pyarrow.RecordBatch.from_arrays(columns, schema=schema)

    def _mapped(self, partition: TopicPartition, segments: list[Segment]) -> Iterator[pyarrow.RecordBatch]:
        schema = as_arrow(RECORD_SCHEMA)
        for segment in segments:
            row = {
                "key": segment_key(self.cluster_id, partition, segment),
                "value": segment_value(segment),
                "topic": self.map_topic,
                "partition": MAP_PARTITION,
            }
            yield pyarrow.RecordBatch.from_pylist([row], schema=schema)


def stretches(batch: Any) -> Iterator[tuple[TopicPartition, Any]]:
    """The rows of a batch, cut where the partition changes."""
    topics, partitions = batch.column("topic"), batch.column("partition")
    if batch.num_rows and _is_one(topics) and _is_one(partitions):
        yield TopicPartition(topics[0].as_py(), partitions[0].as_py()), batch
        return
    names = [TopicPartition(*pair) for pair in zip(topics.to_pylist(), partitions.to_pylist(), strict=True)]
    start = 0
    for index in range(1, len(names) + 1):
        if index == len(names) or names[index] != names[start]:
            yield names[start], batch.slice(start, index - start)
            start = index


def _is_one(column: Any) -> bool:
    found = compute.min_max(column)
    return bool(found["min"].as_py() == found["max"].as_py())


def ask_end(
    admin: Admin,
    partition: TopicPartition,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> TargetEnd:
    """The end of a partition, when no transaction is open in it, else where the first open one begins."""
    from ottla.client.admin.offsets import OffsetSpec

    deadline = monotonic() + WAIT_S
    while True:
        try:
            stable = admin.list_offsets({partition: OffsetSpec.LATEST}, isolation_level="read_committed")
            end = admin.list_offsets({partition: OffsetSpec.LATEST})
        except UnknownTopicOrPartition as error:
            raise TargetPartitionMissing(str(partition)) from error
        is_exact = stable[partition].offset == end[partition].offset
        if is_exact or monotonic() >= deadline:
            return TargetEnd(stable[partition].offset, is_exact)
        sleep(ASK_AGAIN_S)
