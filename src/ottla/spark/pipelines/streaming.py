"""The same plan as streaming queries of our own: until somebody stops it, and for what Spark's pipelines lack.

1. A flow's progress is where Spark's pipelines keep it (<storage>/_checkpoints/<target>/<flow>/<version>): a pipeline
   may run once today and all the time tomorrow, and goes on where it was.
2. Spark's pipelines have no sink for databases, none for files in subdirectories and for tables that are there, and no
   result that replaces an older one (batches.py). Flows to these run here also when the pipeline runs once, with
   Trigger.AvailableNow.
3. A flow that fails is tried again, twice as in Spark's pipelines; then the others are stopped, and PipelineFailed
   says the error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.pipelines.batches import batch_writer
from ottla.spark.pipelines.declarative import PipelineFailed, patiently, shortened
from ottla.spark.pipelines.frames import flow_frame, view_frame
from ottla.spark.pipelines.operations import Flow, Target
from ottla.spark.pipelines.plan import Plan
from ottla.spark.running.stopping import STOP_LIMIT_S, stop_between_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_EVERY_S: Final = 0.5
BEGIN_LIMIT_S: Final = 15.0
BEGIN_LOOK_S: Final = 0.2
RETRY_LIMIT: Final = 2
RETRY_AFTER_S: Final = 2.0


def is_for_pipelines(target: Target) -> bool:
    """Whether Spark's own pipelines have such a sink."""
    return target.batch is None and not target.partition_by and target.table is None


def checkpoint_of(storage: str, flow: str) -> str:
    """Where a flow's progress is kept: the newest version that Spark's pipelines have made, else their first."""
    root = f"{storage}/_checkpoints/{flow}/{flow}"
    directory = Path(storage.removeprefix("file://")) / "_checkpoints" / flow / flow
    if "://" in storage.removeprefix("file://"):
        return f"{root}/0"
    versions = [int(each.name) for each in directory.glob("*") if re.fullmatch(r"\d+", each.name)]
    return f"{root}/{max(versions, default=0)}"


class Queries:
    """Flows that run as streaming queries. `rest` waits for so many seconds."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        flows: Iterable[Flow],
        trigger: Mapping[str, Any],
        rest: Callable[[float], Any] = time.sleep,
        on_error: Callable[[str, str], None] = lambda flow, error: None,
    ) -> None:
        self._plan = plan
        self._spark = spark
        self._flows = {flow.name: flow for flow in flows}
        self._trigger = dict(trigger)
        self._rest = rest
        self._on_error = on_error
        self._failures: dict[str, int] = {}
        self.queries: dict[str, StreamingQuery] = {}

    def start(self) -> None:
        """Make the views and begin all flows; when one cannot begin, none runs."""
        from pyspark.errors import PySparkException

        try:
            for view in self._plan.views:
                view_frame(self._spark, view).createOrReplaceTempView(view.name)
        except PySparkException as error:
            raise PipelineFailed(shortened(str(error))) from None
        for flow in self._flows.values():
            self._begin(flow)

    def wait(self, is_over: Callable[[float], bool], on_end: Callable[[str, str], None]) -> None:
        """Until all have ended, one has failed too often, or `is_over` (which waits for so many seconds) says so."""
        running = set(self.queries)
        while running and not is_over(LOOK_EVERY_S):
            for name in sorted(running):
                query = self.queries[name]
                if query.isActive:
                    continue
                if (error := query.exception()) is None:
                    running.discard(name)
                    on_end(name, "completed")
                    continue
                self._on_error(name, shortened(str(error)))
                if not self._tried_again(name, query):
                    on_end(name, "failed")
                    raise PipelineFailed(f"{name}: {shortened(str(error))}")

    def _tried_again(self, name: str, query: StreamingQuery) -> bool:
        """A flow that failed is restarted; without progress in between only a limited number of times."""
        self._failures[name] = 1 if query.lastProgress is not None else self._failures.get(name, 0) + 1
        if self._failures[name] > RETRY_LIMIT:
            return False
        self._rest(RETRY_AFTER_S)
        self._begin(self._flows[name])
        return True

    def stop(self) -> None:
        """End all that still run; together they have as long for their batches as one has."""
        deadline = time.monotonic() + STOP_LIMIT_S
        for query in self.queries.values():
            if query.isActive:
                stop_between_batches(query, deadline - time.monotonic())

    def _begin(self, flow: Flow) -> None:
        """One after the other: Spark gives a Python source ten seconds to start, which is little when many do it."""
        from pyspark.errors import PySparkException

        def start() -> None:
            self.queries[flow.name] = self._started(flow)

        try:
            patiently(start)
        except PySparkException as error:
            self.stop()
            raise PipelineFailed(f"{flow.name}: {shortened(str(error))}") from None
        query = self.queries[flow.name]
        for _ in range(round(BEGIN_LIMIT_S / BEGIN_LOOK_S)):
            if not query.isActive or not query.status["message"].startswith("Initializing"):
                return
            self._rest(BEGIN_LOOK_S)

    def _started(self, flow: Flow) -> StreamingQuery:
        writer = flow_frame(self._spark, flow).writeStream.queryName(flow.name)
        writer = writer.option("checkpointLocation", checkpoint_of(self._plan.storage, flow.name))
        writer = writer.outputMode(flow.target.mode).trigger(**self._trigger)
        if flow.target.batch is not None:
            return writer.foreachBatch(batch_writer(flow, checkpoint_of(self._plan.storage, flow.name))).start()
        if flow.target.partition_by:
            writer = writer.partitionBy(*flow.target.partition_by)
        if flow.target.table is not None:
            return writer.format(flow.target.format).options(**flow.target.options).toTable(flow.target.table)
        return writer.format(flow.target.format).options(**flow.target.options).start()
