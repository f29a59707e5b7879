"""What reads what in a pipeline: order, circles, streams and tables, and the picture of it.

    graph = Graph.of(pipeline, inputs)
    graph.order                   sources, then steps, each behind all that it reads
    graph.is_stream("valid")      whether records keep coming
    graph.tree()                  lines for people

1. A step is a stream when anything that it reads is one.
2. Names that are read and not there, and circles, are faults (checks.py); a Graph has neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.databases import is_postgresql, shown_address
from ottla.spark.pipelines.definition import Pipeline, Sink, Source, Step


@dataclass(frozen=True, slots=True)
class Graph:
    """Datasets (sources and steps) with their inputs, and sinks."""

    pipeline: Pipeline
    inputs: Mapping[str, Sequence[str]]
    order: tuple[str, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, inputs: Mapping[str, Sequence[str]]) -> Graph:
        """The graph; `inputs` are those of the steps."""
        complete = {**dict.fromkeys(pipeline.sources, ()), **inputs}
        return cls(pipeline, complete, tuple(TopologicalSorter(complete).static_order()))

    def is_stream(self, name: str) -> bool:
        source = self.pipeline.sources.get(name)
        if source is not None:
            return not source.is_static
        return any(map(self.is_stream, self.inputs[name]))

    def has_watermark(self, name: str) -> bool:
        """Whether something that leads to this dataset, or the dataset itself, says how late records may come."""
        node = self.pipeline.sources.get(name) or self.pipeline.steps[name]
        return node.watermark is not None or any(map(self.has_watermark, self.inputs[name]))

    def readers(self, name: str) -> list[str]:
        """Steps and sinks that read this dataset."""
        steps = [step for step in self.pipeline.steps if name in self.inputs[step]]
        return steps + [sink for sink, definition in self.pipeline.sinks.items() if definition.from_ == name]

    def sources_of(self, name: str) -> list[str]:
        """The sources that a dataset comes from, at last."""
        if name in self.pipeline.sources:
            return [name]
        found: dict[str, None] = {}
        for each in self.inputs[name]:
            found.update(dict.fromkeys(self.sources_of(each)))
        return list(found)

    def has_dead_letters(self, name: str) -> bool:
        """Whether rows of this dataset may become dead letters."""
        letters = self.pipeline.dead_letters is not None
        source = self.pipeline.sources.get(name)
        if source is None:
            return any(rule.action == "dead_letter" for rule in self.pipeline.steps[name].expect.values())
        bad = source.bad_records or ("dead_letter" if letters and not source.static else "fail")
        is_read = source.is_topic and source.format not in (None, "binary")
        return (is_read and bad == "dead_letter") or any(r.action == "dead_letter" for r in source.rules.values())

    def tree(self) -> list[str]:
        """The sinks, each with what leads to it; what was drawn already is only named."""
        lines: list[str] = []
        drawn: set[str] = set()
        for name, sink in self.pipeline.sinks.items():
            lines.append(f"{name}  → {shown_sink(sink)}")
            self._branch(sink.from_, "", lines, drawn, last=True)
        return lines

    def _branch(self, name: str, indent: str, lines: list[str], drawn: set[str], *, last: bool) -> None:
        shown = "see above" if name in drawn and self.inputs[name] else self.shown(name)
        lines.append(f"{indent}{'└─ ' if last else '├─ '}{name}  {shown}")
        if name in drawn:
            return
        drawn.add(name)
        below = self.inputs[name]
        for number, each in enumerate(below):
            self._branch(each, indent + ("   " if last else "│  "), lines, drawn, last=number == len(below) - 1)

    def shown(self, name: str) -> str:
        """One dataset in a few words."""
        source = self.pipeline.sources.get(name)
        if source is not None:
            return ", ".join([shown_source(source), *_extras(source), *(["read whole"] if source.is_static else [])])
        step = self.pipeline.steps[name]
        kind = "sql" if step.sql is not None else "python" if step.python is not None else "all columns"
        return ", ".join([kind, *_extras(step), *([] if self.is_stream(name) else ["read whole"])])


def circle_in(inputs: Mapping[str, Sequence[str]]) -> list[str] | None:
    """Names that read each other in a circle, if there is one."""
    try:
        TopologicalSorter(inputs).prepare()
    except CycleError as error:
        circle: list[str] = list(reversed(error.args[1]))
        return circle
    return None


def shown_source(source: Source) -> str:
    if source.files is not None:
        return f"files {source.files}"
    return f"topic {source.topic}" if source.topic is not None else f"topics like {source.topic_pattern}"


def shown_sink(sink: Sink) -> str:
    how = {"append": "", "update": " by key", "complete": " by key, the whole result"}[sink.mode]
    if sink.topic is not None:
        at_least = sink.options.get("deliveryGuarantee") == "at-least-once"
        form = f" as {sink.format}" if sink.format is not None else ""
        return f"topic {sink.topic}{form}{how}, {'at least once' if at_least else 'exactly once'}"
    if sink.files is not None:
        return f"{sink.format or 'parquet'} files {sink.files}"
    if sink.jdbc is None:
        return f"{sink.format or 'parquet'} table {sink.table}{how}, exactly once"
    guarantee = "exactly once" if is_postgresql(sink) else "at least once"
    return f"table {sink.table} of {shown_address(sink)}{how}, {guarantee}"


def _extras(node: Source | Step) -> list[str]:
    words = []
    if node.watermark is not None:
        words.append(f"{node.watermark.delay} late at most")
    words += [f"{name}: else {rule.action.replace('_', ' ')}" for name, rule in node.expect.items()]
    return words
