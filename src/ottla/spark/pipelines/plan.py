"""A pipeline as views and flows: what Spark will run, decided without Spark.

    plan = make_plan(graph, directory, servers)
    plan.views      every source and step, and the checked forms of those with rules
    plan.flows      every sink, and the dead letters of every dataset that has some

1. A source that is a topic has the columns of its schema (or `value`) and those of ORIGIN, that say where it came from.
2. A view is not stored. Every flow runs what leads to it, with its own place in the topics: flows do not wait for
   each other, and each is exactly once by itself.
3. Relative paths are beside the pipeline's file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.light_dataclasses import dataclass
from ottla.spark.formats.quick_json import QUICK_JSON
from ottla.spark.pipelines.batches import POSTGRESQL, TOPICS
from ottla.spark.pipelines.databases import is_postgresql, key_columns
from ottla.spark.pipelines.dead_letters import dead_letters
from ottla.spark.pipelines.definition import (
    DROPPED_COLUMNS,
    HAS_NEW,
    DeadLetters,
    Pipeline,
    Sink,
    Source,
    Step,
    Watermark,
)
from ottla.spark.pipelines.expectations import BROKEN, CHANGE, ORIGIN, UNREADABLE, Rules
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.operations import (
    Batch,
    Beginning,
    Call,
    Count,
    Dataset,
    Drop,
    Flow,
    Group,
    Operation,
    Query,
    Read,
    Sample,
    Select,
    Target,
    Unique,
    View,
    Where,
)
from ottla.spark.pipelines.python_steps import split_reference
from ottla.spark.pipelines.sql_names import tables_of
from ottla.spark.pipelines.topic_columns import columns_of, is_decoded, quick_schema, unreadable_reason
from ottla.spark.pipelines.topic_formats import option_of, sink_options, source_options
from ottla.spark.pipelines.topic_records import record_of
from ottla.spark.pipelines.tracing import TRACEPARENT

SERVERS: Final = "kafka.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that Spark will run."""

    name: str
    storage: str
    views: tuple[View, ...]
    flows: tuple[Flow, ...]
    settings: Mapping[str, str]
    groups: tuple[Group, ...] = ()
    traces: bool = False


def make_plan(graph: Graph, directory: Path, servers: str) -> Plan:
    """The plan of a checked pipeline; `servers` are the brokers for topics that name none."""
    return _Planner(graph, directory, servers).plan()


class _Planner:
    def __init__(self, graph: Graph, directory: Path, servers: str) -> None:
        self._graph = graph
        self._pipeline: Pipeline = graph.pipeline
        self._directory = directory
        self._servers = servers

    def plan(self) -> Plan:
        views: list[View] = []
        flows = [self._sink_flow(name, sink) for name, sink in self._pipeline.sinks.items()]
        for name in self._graph.order:
            source = self._pipeline.sources.get(name)
            made, letters = self._source(name, source) if source else self._step(name, self._pipeline.steps[name])
            views += made
            flows += letters
        storage = self._path(self._pipeline.storage)
        return Plan(
            self._pipeline.name,
            storage,
            tuple(views),
            tuple(flows),
            dict(self._pipeline.spark),
            tuple(self._groups(flows)),
            self._pipeline.traces,
        )

    def _groups(self, flows: Sequence[Flow]) -> Iterator[Group]:
        """A group shows all flows that read its source: several sources may have one group."""
        for name, source in self._pipeline.sources.items():
            if source.group is not None and not source.is_static:
                readers = [
                    flow for flow in flows if name in self._graph.sources_of(flow.dead_letters_of or flow.dataset)
                ]
                if readers:
                    options = self._topic(source, with_headers=False).options
                    yield Group(source.group, tuple(flow.name for flow in readers), options)

    # --- sources ------------------------------------------------------------------------------------------------------

    def _source(self, name: str, source: Source) -> tuple[list[View], list[Flow]]:
        if not source.is_topic:
            rules = Rules(self._pipeline.name, name, source.expect)
            return self._checked(name, self._files(source), (), (), rules, source.watermark)
        rules = self._rules_of_topic(name, source)
        keep_headers = _has_headers(source, default=bool(rules.dead) or self._traces(source))
        quick = quick_schema(source, self._pipeline.spark)
        columns = columns_of(
            source, keep_headers=keep_headers, traces=self._pipeline.traces, is_quick=quick is not None
        )
        read = self._topic(source, with_headers=keep_headers or source.headers, quick=quick)
        sampled = (Sample(name),) if self._traces(source) else ()
        operations = (*columns.operations, *sampled)
        return self._checked(name, read, operations, columns.internal, rules, source.watermark)

    def _traces(self, source: Source) -> bool:
        """Whether traces are looked at: a table that a stream is joined with has no part in a batch."""
        return self._pipeline.traces and not source.is_static

    def _files(self, source: Source) -> Read:
        options = {**source.options, "path": self._path(str(source.files))}
        return Read(source.format or "parquet", options, stream=not source.is_static, schema=source.schema)

    def _topic(self, source: Source, *, with_headers: bool, quick: str | None = None) -> Read:
        options = self._topic_options(source.bootstrap)
        if source.topic is not None:
            options["subscribe"] = ",".join(topic.strip() for topic in source.topic.split(","))
        else:
            options["subscribePattern"] = str(source.topic_pattern)
        options["startingOffsets"] = "earliest" if source.is_static and source.start == "latest" else source.start
        if not {"isolationlevel", "kafka.isolation.level"} & {name.lower() for name in source.options}:
            options["isolationLevel"] = "read_committed"  # another pipeline's topic has what it aborted and wrote again
        if with_headers:
            options["includeHeaders"] = "true"
        if quick is not None:
            options[QUICK_JSON] = quick
        if is_decoded(source):
            options |= source_options(source, self._pipeline, self._directory)
            options["badRecords"] = "fail" if self._bad_records(source) == "fail" else "null"
        return Read(TOPICS, {**options, **source.options}, stream=not source.is_static)

    def _rules_of_topic(self, name: str, source: Source) -> Rules:
        bad = self._bad_records(source)
        # What the connector decodes it refuses itself, and says more than we could.
        is_refused_before = is_decoded(source) and bad == "fail" and source.envelope is None
        is_checked = unreadable_reason(source) is not None and not is_refused_before
        unreadable = UNREADABLE if is_checked else None
        noted = {DROPPED_COLUMNS: HAS_NEW} if source.new_columns == "drop" else {}
        return Rules(self._pipeline.name, name, source.rules, unreadable, bad, noted)

    def _bad_records(self, source: Source) -> str:
        if source.bad_records is not None:
            return source.bad_records
        return "dead_letter" if self._pipeline.dead_letters is not None and not source.is_static else "fail"

    # --- steps --------------------------------------------------------------------------------------------------------

    def _step(self, name: str, step: Step) -> tuple[list[View], list[Flow]]:
        rules = Rules(self._pipeline.name, name, step.expect)
        unique = (Unique(step.unique_by),) if step.unique_by else ()
        return self._checked(name, self._beginning(name, step), unique, (), rules, step.watermark)

    def _beginning(self, name: str, step: Step) -> Beginning:
        if step.sql is not None:
            return Query(self._streamed(step.sql))
        inputs = tuple(Dataset(each, self._graph.is_stream(each)) for each in self._graph.inputs[name])
        if step.from_ is not None:
            return inputs[0]
        reference = split_reference(step.python) if isinstance(step.python, str) else None
        function = (str(self._directory / reference[0]), reference[1]) if reference is not None else step.python
        return Call(function, inputs)

    def _streamed(self, sql: str) -> str:
        """The query with STREAM before every table that is a stream: Spark wants it, people need not write it."""
        text = sql.strip().rstrip(";")
        for table in reversed(tables_of(text)):
            known = next((each for each in self._graph.order if each.lower() == table.name.lower()), None)
            if known is not None and not table.streamed and self._graph.is_stream(known):
                text = f"{text[: table.start]}STREAM({text[table.start : table.end]}){text[table.end :]}"
        return text

    # --- rules --------------------------------------------------------------------------------------------------------

    def _checked(
        self,
        name: str,
        beginning: Beginning,
        columns: tuple[Operation, ...],
        internal: tuple[str, ...],
        rules: Rules,
        watermark: Watermark | None,
    ) -> tuple[list[View], list[Flow]]:
        """The views of one dataset, and the flow of its dead letters."""
        passed_name = f"{name}__passed" if watermark is not None else name
        late = [View(name, Query(_late(passed_name, watermark)))] if watermark is not None else []
        if not rules:
            return [View(passed_name, beginning, (*columns, *_without(internal))), *late], []
        judged = (
            *columns,
            Select(("*", f"{rules.verdict()} AS {BROKEN}")),
            Count(name, tuple(rules.names), rules.noted),
        )
        checked = View(f"{name}__checked", beginning, judged)
        passed = Dataset(checked.name, self._graph.is_stream(name))
        operations = (Where(f"{BROKEN} IS NULL"), *_without((BROKEN, *internal)))
        views = [checked, View(passed_name, passed, operations), *late]
        return views, [self._dead_flow(rules, checked.name)] if rules.dead else []

    def _dead_flow(self, rules: Rules, checked: str) -> Flow:
        letters = self._pipeline.dead_letters
        assert letters is not None, "checks.py has asked for them"
        source = self._pipeline.sources.get(rules.dataset)
        of_topic = source is not None and source.is_topic
        operations = dead_letters(rules, of_topic=of_topic, into_topic=letters.topic is not None)
        target = self._dead_target(letters, rules.dataset)
        return Flow(f"{rules.dataset}__dead", checked, operations, target, rules.dataset)

    def _dead_target(self, letters: DeadLetters, dataset: str) -> Target:
        if letters.topic is not None:
            options = {**self._topic_options(letters.bootstrap), "topic": letters.topic, "includeHeaders": "true"}
            return Target(TOPICS, {**options, **letters.options})
        path = f"{self._path(str(letters.files))}/step={dataset}"
        return Target("parquet", {**letters.options, "path": path})

    # --- sinks --------------------------------------------------------------------------------------------------------

    def _sink_flow(self, name: str, sink: Sink) -> Flow:
        if sink.topic is not None:
            options = {**self._topic_options(sink.bootstrap), "topic": sink.topic}
            options |= {"includeHeaders": "true"} if sink.headers else {}
            options |= sink_options(sink, self._pipeline, self._directory)
            options |= sink.options
            if sink.mode == "append":
                return Flow(name, sink.from_, record_of(sink, self._without()), Target(TOPICS, options))
            batch = Batch((str(sink.key),), sink.order_by, None, record_of(sink, self._without()))
            return Flow(name, sink.from_, (), Target(TOPICS, options, mode=sink.mode, batch=batch))
        if sink.files is not None:
            options = {**sink.options, "path": self._path(sink.files)}
            return Flow(name, sink.from_, (), Target(sink.format or "parquet", options, sink.partition_by))
        if is_postgresql(sink):
            options = {**sink.options, "url": str(sink.jdbc), "table": str(sink.table)}
            batch = Batch(key_columns(sink), sink.order_by, sink.delete, without=self._without())
            return Flow(name, sink.from_, (), Target(POSTGRESQL, options, mode=sink.mode, batch=batch))
        if sink.jdbc is None:
            form, beside = sink.format or "parquet", self._without()
            batch = Batch(key_columns(sink), sink.order_by, sink.delete, without=beside)
            written = None if sink.mode == "append" else batch
            target = Target(form, sink.options, sink.partition_by, sink.mode, written, table=str(sink.table))
            return Flow(name, sink.from_, () if written else (Drop(beside),), target)
        options = {**sink.options, "url": str(sink.jdbc), "dbtable": str(sink.table)}
        return Flow(name, sink.from_, (), Target("jdbc", options, batch=Batch()))

    def _without(self) -> tuple[str, ...]:
        """Columns that are known of a row and are no part of it."""
        has_changes = any(source.envelope is not None for source in self._pipeline.sources.values())
        return (*ORIGIN, *(CHANGE if has_changes else ()), *((TRACEPARENT,) if self._pipeline.traces else ()))

    def _topic_options(self, servers: str | None) -> dict[str, str]:
        named = {f"kafka.{name}": value for name, value in self._pipeline.kafka.items()}
        return {**named, SERVERS: servers or self._servers}

    def _path(self, path: str) -> str:
        return path if "://" in path or path.startswith("/") else str(self._directory / path)


def _has_headers(source: Source, *, default: bool) -> bool:
    """Whether the connector is asked for headers: as the source's options say, else as it is needed."""
    chosen = option_of(source.options, "includeHeaders")
    return default if chosen is None else chosen.lower() == "true"


def _without(columns: tuple[str, ...]) -> tuple[Operation, ...]:
    return (Select((f"* EXCEPT ({', '.join(columns)})",)),) if columns else ()


def _late(name: str, watermark: Watermark) -> str:
    """As SQL: Spark's withWatermark asks for the columns at once, which is forbidden while a pipeline is declared."""
    column = watermark.column.replace("`", "``")
    return f"SELECT * FROM STREAM({name}) WATERMARK `{column}` DELAY OF INTERVAL {watermark.delay.strip()}"
