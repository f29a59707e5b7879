"""A batch query: one snapshot of offsets, planned once, read by tasks.

1. Begin and end of every partition are decided when Spark plans the query; every later action on that DataFrame reads
   the same offsets. As the static side of a stream it is another matter: there every task asks again (snapshot.py).
2. What was asked for and is gone (offsets below the first record, or beyond the end) is a loss as in data_loss.py.
3. No filter is pushed down: Spark 4.3 keeps the pushed plan and gives it to other queries on the same DataFrame too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.spark.running.arrival import Arriving
from ottla.spark.running.worker_exit import exit_quietly_when_closed
from ottla.spark.running.worker_memory import freeze_what_is_loaded
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import ReadTask, Share, plan, ranges_between, with_logins
from ottla.spark.source.snapshot import is_fixed, ranges_of_now, snapshot
from ottla.spark.source.topic_positions import TopicPositions
from ottla.spark.tokens.handout import with_login

if TYPE_CHECKING:
    from pyarrow import RecordBatch

BATCH_ID: Final = "streaming.sql.batchId"

exit_quietly_when_closed()  # a worker that has only tasks imports no more than this


class BatchReader(Arriving, DataSourceReader):
    """Reads what there is when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options = with_login(self._options)
        positions = TopicPositions(options)
        try:
            start, end = snapshot(options, positions)
        finally:
            positions.close()
        tasks = plan(ranges_between(start, end), end.packing) or [ReadTask(())]
        shares = [replace(task, share=Share(number, len(tasks))) for number, task in enumerate(tasks)]
        return list(with_logins(shares, options.login))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        assert isinstance(partition, ReadTask), "it was planned by us"
        if is_in_a_micro_batch() and not is_fixed(self._options):
            options = replace(self._options, login=partition.login)
            partition = replace(partition, ranges=ranges_of_now(options, partition.share))
        return read_task(self._options, self._schema, partition)


def is_in_a_micro_batch() -> bool:
    """Whether this task works for a batch of a stream, which uses the plan of a batch query again and again."""
    context = TaskContext.get()
    return context is not None and context.getLocalProperty(BATCH_ID) is not None


def read_task(options: SourceOptions, schema: StructType, task: Any) -> Iterator[RecordBatch]:
    """What a task does, in batch and stream."""
    # Loaded by the worker only: the driver needs none of it.
    from ottla.spark.source.range_reading import read_ranges
    from ottla.spark.source.schema import chosen_columns

    assert isinstance(task, ReadTask), "it was planned by us"
    freeze_what_is_loaded()
    options = replace(options, login=task.login)
    return read_ranges(options, task.ranges, chosen_columns(options, schema))
