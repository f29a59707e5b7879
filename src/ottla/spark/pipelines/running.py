"""From a file to a run: reading, checking, planning, and the three modes to run.

    loaded = load(Path("clicks.yml"), environment=os.environ)
    plan = loaded.plan("localhost:9092")
    with open_session("clicks", settings=plan.settings) as spark:
        run_triggered(plan, spark, loaded.watch(plan), is_over)

Loading and planning need neither Spark nor a broker. `is_over` is asked twice a second with how long it may wait.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.checks import checked
from ottla.spark.pipelines.declarative import Event, PipelineFailed, run_once
from ottla.spark.pipelines.definition import DROPPED_COLUMNS
from ottla.spark.pipelines.expectations import READABLE
from ottla.spark.pipelines.faults import Lines, PipelineWrong
from ottla.spark.pipelines.file_logs import refuse_foreign_directories
from ottla.spark.pipelines.frames import view_frame
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.group_progress import groups_shown
from ottla.spark.pipelines.parameters import Chosen, answering
from ottla.spark.pipelines.plan import Plan, make_plan
from ottla.spark.pipelines.streaming import Queries, is_for_pipelines
from ottla.spark.pipelines.tracing import BatchSpans
from ottla.spark.pipelines.watching import Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING_CHOSEN: Final = Chosen()
REPORTS_LIMIT_S: Final = 5.0
FILE_NAMES: Final = ("pipeline.yml", "pipeline.yaml", "pipeline.py")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pipeline that makes sense, and where it lies."""

    file: Path
    graph: Graph
    lines: Lines

    def plan(self, servers: str) -> Plan:
        """What Spark will run; `servers` are the brokers when the file names none."""
        from ottla.spark.pipelines.topics import option_faults

        plan = make_plan(self.graph, self.file.parent, self.graph.pipeline.bootstrap or servers)
        if faults := list(option_faults(plan)):
            raise PipelineWrong(fault.text(self.file.name, self.lines) for fault in faults)
        return plan

    def watch(self, plan: Plan) -> Watch:
        pipeline = self.graph.pipeline
        rules = {name: source.rules for name, source in pipeline.sources.items()}
        rules |= {name: step.expect for name, step in pipeline.steps.items()}
        actions = {(name, rule): expectation.action for name in rules for rule, expectation in rules[name].items()}
        actions |= {(name, DROPPED_COLUMNS): "drop columns" for name in pipeline.sources}
        letters = "dead_letter" if pipeline.dead_letters is not None else "fail"
        for name, source in pipeline.sources.items():
            actions.setdefault((name, READABLE), source.bad_records or ("fail" if source.is_static else letters))
        return Watch(plan, actions)


def find_file(path: Path | None, here: Path) -> Path:
    """The file of a pipeline: the one that is named, or the one in the directory."""
    if path is not None and path.is_file():
        return path.absolute()
    directory = path if path is not None and path.is_dir() else here
    if path is not None and directory is here:
        raise PipelineWrong([f"{path}: there is no such file"])
    for name in FILE_NAMES:
        if (directory / name).is_file():
            return (directory / name).absolute()
    raise PipelineWrong([f"{directory}: there is no {', '.join(FILE_NAMES)}; name the file, or: ottla pipeline init"])


def load(file: Path, environment: Mapping[str, str], chosen: Chosen = NOTHING_CHOSEN) -> Loaded:
    """Read and check a file; PipelineWrong lists everything that is wrong with it."""
    if file.suffix == ".py":
        from ottla.spark.pipelines.python_steps import read_python

        with answering(chosen):
            pipeline = read_python(file)
        return Loaded(file, checked(pipeline, file.parent, {}, file.name), {})
    try:
        from ottla.spark.pipelines.yaml_file import read_yaml
    except ImportError as error:
        from ottla.spark.running.spark_home import SparkMissing

        raise SparkMissing(str(error)) from None
    try:
        text = file.read_text()
    except UnicodeDecodeError:
        raise PipelineWrong([f"{file.name}: this is no text in UTF-8"]) from None
    read = read_yaml(text, file_name=file.name, environment=environment, chosen=chosen)
    return Loaded(file, checked(read.pipeline, file.parent, read.lines, file.name), read.lines)


def dry_run(plan: Plan, spark: SparkSession) -> dict[str, str]:
    """Let Spark resolve everything, and run nothing; returns the columns of every source and step."""
    run_once(plan, spark, dry=True)
    columns = {}
    for view in plan.views:
        frame = view_frame(spark, view)
        frame.createOrReplaceTempView(view.name)
        if "__" not in view.name:
            fields = frame.schema.fields
            columns[view.name] = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
    return columns


def run_triggered(plan: Plan, spark: SparkSession, watch: Watch, is_over: Callable[[float], bool]) -> None:
    """Work off what is there now, and end."""
    refuse_foreign_directories(plan)
    with groups_shown(plan, watch.on_positions), _listened(spark, watch, _spans(plan)):
        theirs = tuple(flow for flow in plan.flows if is_for_pipelines(flow.target))
        if theirs:
            run_once(plan, spark, flows=theirs, on_event=lambda event: _note(watch, event))
        ours = [flow for flow in plan.flows if not is_for_pipelines(flow.target)]
        if ours:
            _run_queries(watch, Queries(plan, spark, ours, {"availableNow": True}, on_error=watch.note_error), is_over)
        watch.wait_for_ends(REPORTS_LIMIT_S)


def run_always(
    plan: Plan, spark: SparkSession, watch: Watch, is_over: Callable[[float], bool], every: str | None
) -> None:
    """Run until `is_over`; a batch begins as soon as the last is done, or every so often."""
    refuse_foreign_directories(plan)
    with groups_shown(plan, watch.on_positions), _listened(spark, watch, _spans(plan)):
        trigger = {"processingTime": every or "0 seconds"}
        queries = Queries(plan, spark, plan.flows, trigger, on_error=watch.note_error)
        _run_queries(watch, queries, is_over)
        watch.wait_for_ends(REPORTS_LIMIT_S)


def _run_queries(watch: Watch, queries: Queries, is_over: Callable[[float], bool]) -> None:
    queries.start()
    for name in queries.queries:
        watch.note_state(name, "running")
    try:
        queries.wait(is_over, watch.note_state)
    finally:
        queries.stop()
        for name, figures in watch.flows.items():
            if name in queries.queries and figures.state == "running":
                watch.note_state(name, "stopped")


def _note(watch: Watch, event: Event) -> None:
    if event.flow is not None and event.state is not None:
        watch.note_state(event.flow, event.state)
        if event.error is not None:
            watch.note_error(event.flow, event.error)


def _spans(plan: Plan) -> BatchSpans | None:
    return BatchSpans(plan.name) if plan.traces else None


@contextmanager
def _listened(spark: SparkSession, watch: Watch, spans: BatchSpans | None) -> Iterator[None]:
    """While this is open Spark reports every batch to the watch, and to what makes spans.

    The listener then only turns deaf and stays until the session ends: to remove it can hang for ever. PySpark (4.3)
    holds a lock while it waits for the thread that hands out events, and that thread wants the same lock for each.
    """
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from ottla.spark.source.lag import ends_of, lag_of

    class Listener(StreamingQueryListener):
        is_over = False

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            return

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            if self.is_over:
                return
            lag = lag_of(event.progress)
            progress = json.loads(event.progress.json)
            watch.note(progress, None if lag is None else lag.total, ends_of(event.progress))
            if spans is not None:
                spans.note(progress)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            return

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            watch.note_end(str(event.id))

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        listener.is_over = True


__all__ = ["Loaded", "PipelineFailed", "dry_run", "find_file", "load", "run_always", "run_triggered"]
