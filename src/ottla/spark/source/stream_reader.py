"""A streaming query, seen from the driver: what is new, how much of it the next batch reads, and by which tasks.

Spark asks in this order, one batch at a time, in a process of its own for each source:

    initialOffset            a new query only; a query that is started again brings its offset from the checkpoint
    latestOffset(start, …)   everything before `start` is done; the end of the next batch, or `start` for "nothing"
    reportLatestOffset       what there is, for the progress of the query
    partitions(start, end)   the tasks, a pure function of both offsets (ranges.py)
    read(task)               in the worker of a task (range_reading.py)

1. `latestOffset` gets a limit. ReadAllAvailable means all, whatever the options say; any other limit is ours, from
   getDefaultReadLimit, and stands for all limits of the options together, because Spark has no limit that is several.
2. Trigger.AvailableNow reads what there was when the run began, under the same limits, and then ends; only
   minOffsetsPerTrigger does not count then, because nothing more would come to make it true.
3. Without any limit a batch is made so small that it takes about five minutes (maxTimePerTrigger): one that is longer
   than a transaction of the sink may be open fails first, and is written twice.
4. Offsets of finished batches are committed to commitGroupId when Spark asks for the next one (group_commits.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.light_dataclasses import replace
from ottla.spark.running.arrival import Arriving
from ottla.spark.running.cores import task_count
from ottla.spark.source import data_loss
from ottla.spark.source.batch_limits import BatchLimits
from ottla.spark.source.bounds import starting_positions
from ottla.spark.source.group_commits import GroupCommits
from ottla.spark.source.offsets import Packing, StreamOffset
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import plan, ranges_between, with_logins
from ottla.spark.source.reader import read_task
from ottla.spark.source.survey import Frozen, Survey, begin_with, freeze, survey, within
from ottla.spark.source.topic_positions import TopicPositions
from ottla.spark.tokens.handout import with_login

if TYPE_CHECKING:
    from pyarrow import RecordBatch

log = logging.getLogger(__name__)

NO_LIMIT: Final = 2**63 - 1


class StreamReader(Arriving, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side of a streaming query; `read` is the worker's."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._driver: _Driver | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A task gets a copy that reads; connections and what the driver has learnt stay here.
        return {"_options": replace(self._options, login={}), "_schema": self._schema, "_driver": None}

    @property
    def _asked(self) -> _Driver:
        """With the token of now, where tokens are handed out: a query lives longer than a token."""
        options = with_login(self._options)
        if self._driver is None:
            self._driver = _Driver(options)
        elif options.login != self._options.login:
            self._driver.log_in_anew(options)
        self._options = options
        return self._driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._asked.initial().to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._asked.end_with_what_there_is()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadMaxRows(NO_LIMIT)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        known = StreamOffset.from_json(start)
        end = self._asked.next_after(known, limited=not isinstance(limit, ReadAllAvailable))
        # Spark compares texts: nothing new must be the very text that it gave.
        return start if end is None else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        latest = self._asked.latest
        return None if latest is None else latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        until = StreamOffset.from_json(end)
        if self._driver is None or not self._driver.has_planned(until):
            ranges = ranges_between(StreamOffset.from_json(start), until)
            self._asked.runs_again(until, sum(each.size for each in ranges))
        tasks = plan(ranges_between(StreamOffset.from_json(start), until), until.packing)
        return with_logins(tasks, with_login(self._options).login)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return read_task(self._options, self._schema, partition)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()


class _Driver:
    """What the source knows between two questions of Spark."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._positions = TopicPositions(options)
        self._initial: StreamOffset | None = None
        self._frozen: Frozen | None = None
        self._batches = BatchLimits(options)
        group_id = options.commit_group_id
        self._commits = None if group_id is None else GroupCommits(group_id, self._positions)
        self._reported_missing: frozenset[str] = frozenset()
        self._planned: StreamOffset | None = None
        self.latest: StreamOffset | None = None

    def close(self) -> None:
        self._positions.close()
        self._batches.close()

    def log_in_anew(self, options: SourceOptions) -> None:
        """Connect with another login at the next question."""
        self._positions.log_in_anew(options)
        self._batches.log_in_anew(options)

    def end_with_what_there_is(self) -> None:
        self._frozen = freeze(self._positions)

    def initial(self) -> StreamOffset:
        """Spark may ask twice, and must hear the same."""
        if self._initial is None:
            options = self._options
            listed = begin_with(options, self._positions)
            begin = starting_positions(options, listed.partitions, self._positions)
            begins, _, losses = within(begin, listed.known_ids(), begin.positions, self._positions)
            data_loss.report_losses(losses, fails=options.fail_on_data_loss)
            self._initial = StreamOffset(begins, listed.known_ids(), self._packing(0))
        return self._initial

    def next_after(self, start: StreamOffset, *, limited: bool) -> StreamOffset | None:
        """The end of the next batch; None when there is nothing new, or not enough yet."""
        if self._commits is not None:
            self._commits.done_before(start)
        found = survey(start, self._positions, self._frozen)
        self.latest = StreamOffset(found.latest, found.topic_ids)
        data_loss.report_losses(found.losses if self._options.fail_on_data_loss else (), fails=True)
        self._report_missing(found.missing - {each.topic for each in start.positions})
        counts = self._batches.counts(found, is_run_to_an_end=self._frozen is not None) if limited else found.waiting
        if counts is None:
            return None
        data_loss.report_losses(found.losses, fails=False)
        end = self._end(start, found, counts)
        if end.says_the_same(start):
            return None
        self._planned = end
        return end

    def has_planned(self, end: StreamOffset) -> bool:
        """Whether the batch that ends there was planned by this run."""
        return self._planned is not None and self._planned.says_the_same(end)

    def runs_again(self, end: StreamOffset, offsets: int) -> None:
        """A batch that an earlier run has planned begins; how long it takes counts as well."""
        self._planned = end
        self._batches.begins(offsets)

    def _report_missing(self, missing: frozenset[str]) -> None:
        """A query that is started again may name topics that are not there (any more); it reads them when they are."""
        if missing - self._reported_missing:
            log.warning(
                "%s does not exist; it is read as soon as it does", ", ".join(sorted(missing - self._reported_missing))
            )
        self._reported_missing = missing

    def _end(self, start: StreamOffset, found: Survey, counts: dict[Any, int]) -> StreamOffset:
        ends = {each: begin + counts.get(each, 0) for each, begin in found.begins.items()}
        elsewhere = {each: begin for each, begin in found.begins.items() if start.positions.get(each) != begin}
        return StreamOffset(ends, found.topic_ids, self._packing(sum(counts.values())), elsewhere)

    def _packing(self, offsets: int) -> Packing:
        return Packing(task_count(offsets), self._options.min_partitions, self._options.max_records_per_partition)
