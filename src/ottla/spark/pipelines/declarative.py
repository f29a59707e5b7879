"""A plan handed to Spark's own declarative pipelines: one run that works off what is there, and ends.

1. Views become temporary views, flows become append flows into sinks. Spark resolves the graph, runs the flows side by
   side with Trigger.AvailableNow, tries a failed one again, and keeps their progress under
   <storage>/_checkpoints/<target>/<flow>/<version>.
2. Nothing is stored as a table, so no catalog is needed: Spark's default one forgets its tables at the end of a
   process, and a second run would die of the files it finds.
3. What Spark says comes as events, one after the other; a run that cannot go on raises PipelineFailed with the flows'
   own errors instead of a stack trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.frames import flow_frame, view_frame
from ottla.spark.pipelines.operations import Call, Flow, View
from ottla.spark.pipelines.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DETAIL_LIMIT: Final = 2_000
LATE_LIMIT: Final = 2
_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"
_LATE: Final = "worker failed to connect back"
_STATE: Final = re.compile(r"Flow '?(?:[\w`]+\.)*`?(\w+)`?'? (?:is|has|was) ([A-Z_]+)")
_UNRESOLVED: Final = re.compile(r"Failed to resolve flow: '(?:[\w`]+\.)*`?(\w+)`?'\.?\s*Error: (.*)", re.DOTALL)


class PipelineFailed(OttlaError):
    """The pipeline failed."""

    def __str__(self) -> str:
        return self.detail or self.what


@dataclass(frozen=True, slots=True)
class Event:
    """Something that Spark says about a run; `flow` and `state` when it is about a flow."""

    message: str
    flow: str | None = None
    state: str | None = None
    error: str | None = None


def parsed_event(message: str) -> Event:
    """What a message of Spark's pipelines says."""
    if found := _UNRESOLVED.match(message):
        return Event(message, found[1], "UNRESOLVED", shortened(found[2]))
    if found := _STATE.match(message):
        error = message.partition("Error:")[2].strip() or None
        return Event(message, found[1], found[2], shortened(error) if error else None)
    return Event(message)


def run_once(
    plan: Plan,
    spark: SparkSession,
    *,
    dry: bool = False,
    flows: tuple[Flow, ...] | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> None:
    """Register the plan and run it once; `dry` only resolves it."""
    from pyspark.errors import PySparkException
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    errors: dict[str, str] = {}

    def run() -> None:
        errors.clear()
        graph = create_dataflow_graph(spark, None, None, dict(plan.settings))
        with graph_element_registration_context(SparkConnectGraphElementRegistry(spark, graph)):
            for view in plan.views:
                _declare_view(spark, plan, view)
            for flow in plan.flows if flows is None else flows:
                _declare_flow(spark, flow)
        for event in _events(start_run(spark, graph, [], False, [], dry, _address(plan.storage))):
            if event.flow is not None and event.error is not None:
                errors[event.flow] = event.error
            on_event(event)

    try:
        patiently(run, lambda error: _failure_text(errors, error))
    except PySparkException as error:
        raise PipelineFailed(_failure_text(errors, error)) from None


def patiently(act: Callable[[], None], text_of: Callable[[Exception], str] = str) -> None:
    """Retry when Python did not start within Spark's ten seconds: that happens on a busy machine."""
    from pyspark.errors import PySparkException

    for attempt in range(LATE_LIMIT + 1):
        try:
            return act()
        except PySparkException as error:
            if attempt == LATE_LIMIT or _LATE not in text_of(error):
                raise
    return None


def _declare_view(spark: SparkSession, plan: Plan, view: View) -> None:
    from pyspark import pipelines

    # What people write in Python may ask Spark something (a udf asks what "string" is): so it is called before.
    called = _called(spark, plan, view) if isinstance(view.beginning, Call) else None

    def query() -> DataFrame:
        return view_frame(spark, view) if called is None else called

    pipelines.temporary_view(name=view.name)(query)


def _called(spark: SparkSession, plan: Plan, view: View) -> DataFrame:
    """The frame that a function makes. One that asks for columns, as transformWithState does, finds them in views of
    the session; they are made only for it, because that takes seconds."""
    from pyspark.errors import AnalysisException

    try:
        return view_frame(spark, view)
    except AnalysisException as error:
        if error.getCondition() != _NOT_FOUND:
            raise
        for earlier in plan.views[: plan.views.index(view)]:
            view_frame(spark, earlier).createOrReplaceTempView(earlier.name)
        return view_frame(spark, view)


def _declare_flow(spark: SparkSession, flow: Flow) -> None:
    from pyspark import pipelines

    def query() -> DataFrame:
        return flow_frame(spark, flow)

    pipelines.create_sink(flow.name, flow.target.format, dict(flow.target.options))
    pipelines.append_flow(target=flow.name, name=flow.name)(query)


def _events(answers: Iterator[dict[str, Any]]) -> Iterator[Event]:
    for answer in answers:
        if "pipeline_event_result" in answer:
            yield parsed_event(str(answer["pipeline_event_result"].event.message))


def _failure_text(errors: dict[str, str], error: Exception) -> str:
    if errors:
        return "\n".join(f"{flow}: {text}" for flow, text in errors.items())
    return shortened(str(error))


def shortened(text: str) -> str:
    """An error of Spark without its stack trace and its plans."""
    lines = text.strip().partition("\n\tat ")[0].partition("\n\nJVM stacktrace")[0].partition("\n== ")[0].strip()
    return lines[:DETAIL_LIMIT]


def _address(path: str) -> str:
    return path if "://" in path else f"file://{path}"
