"""To run a period of the sources again: first a plan, then a batch of Spark, beside the pipeline's own progress.

    --from and --to  ──►  offsets of every partition  ──►  the pipeline with tables instead of streams  ──►  its sinks

1. A period is of records' timestamps: the first record that is as late as `from`, up to the first that is as late as
   `to`. It becomes offsets once, and these are kept in the storage: a backfill that was cut short and is started again
   reads the same records, although others may have come since.
2. All is computed as a batch, so every window of the period is written, the last one too, and nothing is late.
3. Topics and PostgreSQL get the rows exactly once, however often it is started: the write has the backfill's name.
   Files go into a directory of their own, which a repetition replaces. Other tables get them at least once.
4. Records that the flow has read already are counted: their rows are in its topic or table before, and the backfill
   must be told to write them again. Files have no such doubt.
5. A result that is kept up to date (mode update or complete) is one of all records: a period of it would put less in
   the place of more. Such flows are refused; a reset counts them anew.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.light_dataclasses import replace as replaced
from ottla.spark.option_table import Where
from ottla.spark.pipelines.batches import TOPICS, batch_writer
from ottla.spark.pipelines.declarative import PipelineFailed, shortened
from ottla.spark.pipelines.definition import Pipeline, Source, Step
from ottla.spark.pipelines.faults import nearest
from ottla.spark.pipelines.flow_positions import flows_from, known_positions
from ottla.spark.pipelines.frames import OUT, operated, view_frame
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.operations import Flow, Target
from ottla.spark.pipelines.plan import Plan, make_plan
from ottla.spark.pipelines.resetting import UnknownFlow
from ottla.spark.pipelines.storage import OWN, Storage
from ottla.spark.pipelines.topics import topic_reads
from ottla.spark.source.option_rows import SOURCE_OPTIONS
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.survey import begin_with
from ottla.spark.source.topic_positions import TopicPositions
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_STREAMS: Final = frozenset(option.name.lower() for option in SOURCE_OPTIONS if option.where is Where.STREAM)


class NoPeriod(OttlaError):
    """A backfill needs a period, and something in it."""


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition of a source."""

    source: str
    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Backfill:
    """What is to be done."""

    name: str
    spans: tuple[Span, ...]
    plan: Plan
    done: tuple[str, ...] = ()
    """Flows that an earlier start has finished."""

    def records(self, flow: Flow, graph: Graph) -> int:
        """At most so many: offsets between which there may be gaps."""
        sources = graph.sources_of(flow.dead_letters_of or flow.dataset)
        return sum(span.end - span.start for span in self.spans if span.source in sources)


def plan_backfill(
    plan: Plan, graph: Graph, directory: Path, servers: str, period_ms: tuple[int, int], flows: Collection[str]
) -> Backfill:
    """The offsets of the period, and the plan that reads them; what was begun before is gone on with."""
    known = [flow.name for flow in plan.flows]
    for name in flows:
        if name not in known:
            raise UnknownFlow(f"{name!r}{nearest(name, known)}")
    if period_ms[0] >= period_ms[1]:
        raise NoPeriod("--from must be before --to")
    name = "-".join(_moment(moment_ms) for moment_ms in period_ms)
    file = _file(plan, name)
    noted = json.loads(file.read_text()) if file.exists() else {}
    spans = tuple(Span(**each) for each in noted.get("spans", ())) or tuple(_spans(plan, period_ms))
    if not any(span.end > span.start for span in spans):
        raise NoPeriod("no topic has a record of that time")
    as_batch = make_plan(Graph.of(_as_tables(graph.pipeline, spans), graph.inputs), directory, servers)
    targeted = [replaced(flow, target=_target(plan, flow, name)) for flow in as_batch.flows]
    wanted = tuple(flow for flow in targeted if not flows or flow.name in flows)
    for flow in wanted:
        if flow.target.mode != "append":
            raise NoPeriod(f"{flow.name} keeps a result of all records up to date; `ottla pipeline reset` counts anew")
    return Backfill(name, spans, replaced(as_batch, flows=wanted), tuple(noted.get("done", ())))


def _moment(moment_ms: int) -> str:
    """As a part of names."""
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return moment.strftime("%Y%m%dT%H%M%S") + (f".{moment_ms % 1000:03}" if moment_ms % 1000 else "")


def _file(plan: Plan, name: str) -> Path:
    storage = Storage(plan.storage)
    if storage.directory is None:
        raise NoPeriod(f"a backfill notes what is done in the storage, and {plan.storage} is not on this machine")
    return storage.directory / OWN / "backfills" / f"{name}.json"


def _spans(plan: Plan, period_ms: tuple[int, int]) -> list[Span]:
    spans = []
    for source, read in topic_reads(plan):
        if not read.stream:
            continue
        places = TopicPositions(SourceOptions.parse(read.options, streaming=True))
        try:
            partitions = begin_with(SourceOptions.parse(read.options, streaming=True), places).partitions
            ends = places.latest(partitions)
            begin, end = (places.at_times(dict.fromkeys(partitions, moment_ms)) for moment_ms in period_ms)
        finally:
            places.close()
        for at in sorted(partitions):
            start = _or_end(begin[at], ends[at])
            spans.append(Span(source, at.topic, at.partition, start, max(start, _or_end(end[at], ends[at]))))
    return spans


def _or_end(offset: int | None, end: int) -> int:
    return end if offset is None else min(offset, end)


def overlap(plan: Plan, graph: Graph, backfill: Backfill) -> dict[str, int]:
    """How many offsets of the period each flow has read in its own runs; files are not counted, because a backfill
    writes them elsewhere."""
    storage = Storage(plan.storage)
    counts: dict[str, int] = {}
    for source in {span.source: None for span in backfill.spans}:
        for flow in flows_from(backfill.plan, graph, source):
            if flow.target.is_files:
                continue
            known = known_positions(storage, flow)
            for span in backfill.spans:
                if span.source == source:
                    until = min(span.end, known.get(TopicPartition(span.topic, span.partition), span.start))
                    counts[flow.name] = counts.get(flow.name, 0) + max(0, until - span.start)
    return counts


# --- streams as tables ------------------------------------------------------------------------------------------------


def _as_tables(pipeline: Pipeline, spans: Collection[Span]) -> Pipeline:
    """The pipeline over tables that hold the period: a batch has no watermarks, and needs no groups."""
    letters = "dead_letter" if pipeline.dead_letters is not None else "fail"
    sources = {name: _table(name, source, spans, letters) for name, source in pipeline.sources.items()}
    steps: Mapping[str, Step] = {name: replace(step, watermark=None) for name, step in pipeline.steps.items()}
    return replace(pipeline, sources=sources, steps=steps)


def _table(name: str, source: Source, spans: Collection[Span], letters: str) -> Source:
    if source.static:
        return source
    whole = replace(source, static=True, watermark=None)
    if not source.is_topic:
        return whole
    begins: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for span in spans:
        if span.source == name:
            begins.setdefault(span.topic, {})[str(span.partition)] = span.start
            ends.setdefault(span.topic, {})[str(span.partition)] = span.end
    options = {option: value for option, value in source.options.items() if option.lower() not in _OF_STREAMS}
    options |= {"startingOffsets": json.dumps(begins), "endingOffsets": json.dumps(ends)}
    bad = source.bad_records or letters
    return replace(whole, group=None, start="earliest", bad_records=bad, options=options)


def _target(plan: Plan, flow: Flow, name: str) -> Target:
    target = flow.target
    if target.format == TOPICS:
        return replaced(
            target, options={**target.options, "jobName": f"{plan.name}-{flow.name}-{name}", "batchId": "0"}
        )
    if target.is_files:
        return replaced(target, options={**target.options, "path": f"{target.options['path']}-{name}"})
    return target


# --- doing it ---------------------------------------------------------------------------------------------------------


def run_backfill(
    plan: Plan, backfill: Backfill, spark: SparkSession, on_done: Callable[[str, int], None]
) -> dict[str, int]:
    """Write all flows that are not done; returns how many rows each wrote."""
    from pyspark.errors import PySparkException

    file, done, rows = _file(plan, backfill.name), list(backfill.done), dict[str, int]()
    _note(file, backfill.spans, done)
    for view in backfill.plan.views:
        view_frame(spark, view).createOrReplaceTempView(view.name)
    for flow in backfill.plan.flows:
        if flow.name in done:
            continue
        try:
            rows[flow.name] = _written(spark, flow, file)
        except PySparkException as error:
            raise PipelineFailed(f"{flow.name}: {shortened(str(error))}") from None
        done.append(flow.name)
        _note(file, backfill.spans, done)
        on_done(flow.name, rows[flow.name])
    return rows


def _note(file: Path, spans: Collection[Span], done: Collection[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_suffix(".new")
    fields = ("source", "topic", "partition", "start", "end")
    noted = [{name: getattr(span, name) for name in fields} for span in spans]
    half.write_text(json.dumps({"spans": noted, "done": list(done)}))
    half.replace(file)


def _written(spark: SparkSession, flow: Flow, file: Path) -> int:
    from pyspark.sql import Observation, functions

    frame = operated(spark.read.table(flow.dataset), flow.operations)
    if flow.target.batch is not None:
        rows = frame.count()  # not while it is written: a batch that is there already is not computed
        batch_writer(flow, _as_checkpoint(file))(frame, 0)
        return rows
    seen = Observation(OUT)
    counted = frame.observe(seen, functions.expr("count(*) AS rows"))
    writer: Any = counted.write.format(flow.target.format).options(**flow.target.options)
    if flow.target.partition_by:
        writer = writer.partitionBy(*flow.target.partition_by)
    writer = writer.mode("overwrite" if flow.target.is_files else "append")
    if flow.target.table is not None:
        writer.saveAsTable(flow.target.table)
    else:
        writer.save()
    return int(seen.get.get("rows") or 0)


def _as_checkpoint(file: Path) -> str:
    """What a batch of a query takes its identity from: the same at every start of this backfill."""
    place = file.with_suffix("")
    place.mkdir(exist_ok=True)
    query = {"id": str(uuid.uuid5(uuid.NAMESPACE_URL, str(file)))}
    (place / "metadata").write_text(json.dumps(query))
    return str(place)
