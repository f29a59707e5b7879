"""A batch query: one snapshot of offsets, planned once, read by tasks.

1. Begin and end of every partition are decided when Spark plans the query; every later action on that DataFrame reads
   the same offsets.
2. What was asked for and is gone (offsets below the first record, or beyond the end) is a loss as in data_loss.py.
3. No filter is pushed down: Spark 4.3 keeps the pushed plan and gives it to other queries on the same DataFrame too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.light_dataclasses import replace
from ottla.spark.running.arrival import Arriving
from ottla.spark.running.cores import core_count
from ottla.spark.running.worker_memory import freeze_what_is_loaded
from ottla.spark.source import data_loss
from ottla.spark.source.bounds import ending_positions, starting_positions
from ottla.spark.source.offsets import Packing, StreamOffset
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import ReadTask, plan, ranges_between, with_logins
from ottla.spark.source.survey import begin_with, within
from ottla.spark.source.topic_positions import TopicPositions
from ottla.spark.tokens.handout import with_login

if TYPE_CHECKING:
    from pyarrow import RecordBatch


class BatchReader(Arriving, DataSourceReader):
    """Reads what there is when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        options = self._options = with_login(self._options)
        positions = TopicPositions(options)
        try:
            start, end = self._snapshot(positions)
        finally:
            positions.close()
        tasks = plan(ranges_between(start, end), end.packing)
        return list(with_logins(tasks or [ReadTask(())], options.login))

    def _snapshot(self, positions: TopicPositions) -> tuple[StreamOffset, StreamOffset]:
        options = self._options
        listed = begin_with(options, positions)
        begin = starting_positions(options, listed.partitions, positions)
        wanted = ending_positions(options, listed.partitions, positions)
        topic_ids = listed.known_ids()
        begins, ends, losses = within(begin, topic_ids, wanted, positions)
        data_loss.report_losses(losses, fails=options.fail_on_data_loss)
        packing = Packing(core_count(), options.min_partitions, options.max_records_per_partition)
        return StreamOffset(begins, topic_ids), StreamOffset(ends, topic_ids, packing)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return read_task(self._options, self._schema, partition)


def read_task(options: SourceOptions, schema: StructType, task: Any) -> Iterator[RecordBatch]:
    """What a task does, in batch and stream."""
    # Loaded by the worker only: the driver needs none of it.
    from ottla.spark.source.range_reading import read_ranges
    from ottla.spark.source.schema import chosen_columns

    assert isinstance(task, ReadTask), "it was planned by us"
    freeze_what_is_loaded()
    options = replace(options, login=task.login)
    return read_ranges(options, task.ranges, chosen_columns(options, schema))
