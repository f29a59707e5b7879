"""A plan of a test runs on real Spark: what its sinks, steps and dead letters hold in the end.

1. Every flow is a streaming query of the real kind (streaming.py) with Trigger.AvailableNow, so windows, watermarks,
   joins, dropDuplicates and state are Spark's own, batch by batch; what a window has not ended yet is not written.
2. Records are read back as text and JSON, as people write them in tests; what is neither stays bytes.
3. A run that fails is an outcome, too: `error` is what Spark said. Its flows hold what they had until then.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.declarative import PipelineFailed, shortened
from ottla.spark.pipelines.definition import Pipeline
from ottla.spark.pipelines.expectations import HEADERS
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.operations import Flow
from ottla.spark.pipelines.plan import Plan
from ottla.spark.pipelines.streaming import Queries
from ottla.spark.pipelines.testing.cases import DEAD_LETTERS, Given
from ottla.spark.pipelines.testing.given import SETTINGS, plan_of_test, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S: Final = 0.02
RUN_LIMIT_S: Final = 600.0
SESSION: Final = {
    **SETTINGS,
    "spark.sql.session.timeZone": "UTC",
    # One part is enough for the few rows of a test; every further one is a task, and state of its own.
    "spark.sql.shuffle.partitions": "1",
    # To compile a query takes longer than to interpret it for a few rows.
    "spark.sql.codegen.wholeStage": "false",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was written, by the names of sinks, sources and steps; dead letters under DEAD_LETTERS."""

    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    error: str | None = None

    def __getitem__(self, name: str) -> Sequence[Mapping[str, Any]]:
        if name not in self.rows and self.error is not None:
            raise PipelineFailed(self.error)
        return self.rows[name]

    @property
    def dead_letters(self) -> Sequence[Mapping[str, Any]]:
        return self.rows.get(DEAD_LETTERS, ())


def try_plan(
    spark: SparkSession, plan: Plan, graph: Graph, batches: Sequence[Mapping[str, Given]], wanted: Collection[str]
) -> Outcome:
    """Run it on what is given, as far as it leads to the sinks, steps and sources in `wanted`, and to dead letters."""
    sinks = [name for name in graph.pipeline.sinks if name in wanted]
    datasets = [name for name in graph.inputs if name in wanted]
    with tempfile.TemporaryDirectory(prefix="ottla-test-") as directory:
        streams = [name for name in datasets if graph.is_stream(name)]
        tried = plan_of_test(plan, batches, sinks, streams, Path(directory))
        with _configured(spark, tried.settings):
            queries = Queries(tried, spark, tried.flows, {"availableNow": True}, lambda s: time.sleep(min(s, LOOK_S)))
            try:
                error = _run(queries)
                rows = _rows(spark, tried.flows, graph.pipeline)
                for name in datasets:
                    table = name if name not in streams else table_of(name)
                    if error is None or spark.catalog.tableExists(table):
                        rows[name] = spark.table(table).toArrow().to_pylist()
            finally:
                queries.stop()
                _forget(spark, tried)
    return Outcome(rows, error)


def _run(queries: Queries) -> str | None:
    """Until all have ended; returns what one of them failed with."""
    try:
        queries.start()
    except PipelineFailed as failed:
        return str(failed)
    deadline = time.monotonic() + RUN_LIMIT_S
    for name, query in queries.queries.items():
        while query.isActive and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        if (error := query.exception()) is not None:
            return f"{name}: {shortened(str(error))}"
        if query.isActive:
            return f"{name}: it has not ended within {RUN_LIMIT_S:.0f} s"
    return None


@contextlib.contextmanager
def _configured(spark: SparkSession, settings: Mapping[str, str]) -> Any:
    """Settings for this test only; those that a session cannot change were given when it began."""
    from pyspark.errors import PySparkException

    before: dict[str, str | None] = {}
    for name, value in {**settings, **SESSION}.items():
        with contextlib.suppress(PySparkException):
            before[name] = spark.conf.get(name, None)
            spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            with contextlib.suppress(PySparkException):
                spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def _forget(spark: SparkSession, plan: Plan) -> None:
    """The next test has tables of the same names."""
    for name in [*(view.name for view in plan.views), *(flow.name for flow in plan.flows)]:
        spark.catalog.dropTempView(name)


# --- what was written -------------------------------------------------------------------------------------------------


def _rows(spark: SparkSession, flows: Sequence[Flow], pipeline: Pipeline) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {DEAD_LETTERS: []}
    for flow in flows:
        if flow.name not in pipeline.sinks and flow.dead_letters_of is None:
            continue
        rows = spark.table(flow.name).toArrow().to_pylist() if spark.catalog.tableExists(flow.name) else []
        if flow.dead_letters_of is not None:
            found[DEAD_LETTERS] += map(_dead_letter, rows)
        else:
            is_topic = pipeline.sinks[flow.name].topic is not None
            found[flow.name] = list(map(_record, rows)) if is_topic else rows
    return found


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    """A record as a test says it."""
    headers = {each["key"]: as_text(each["value"]) for each in row.get("headers") or ()}
    return {"key": as_text(row.get("key")), "value": as_value(row.get("value")), "headers": headers}


def _dead_letter(row: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of it in columns, whether it was written into a topic or into files."""
    record = _record(row)
    own = {name: value for name, value in record["headers"].items() if name not in HEADERS}
    known = {name.rpartition(".")[2]: record["headers"].get(name, row.get(name.rpartition(".")[2])) for name in HEADERS}
    return {**known, **record, "headers": own}


def as_text(content: bytes | None) -> str | bytes | None:
    """Bytes as text, when they are some."""
    if not isinstance(content, bytes):
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def as_value(content: bytes | None) -> Any:
    """A JSON object as a mapping, else as text."""
    text = as_text(content)
    if isinstance(text, str) and text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    return text
