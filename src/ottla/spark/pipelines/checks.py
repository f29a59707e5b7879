"""Whether a definition makes sense, judged before Spark is started: a wrong name must not cost ten seconds.

    graph = checked(pipeline, directory, lines, file_name)      or PipelineWrong with everything that is wrong

1. Every name that is read exists (else the nearest is named), nothing reads itself in a circle, nothing is unused.
2. What belongs together stands together (source_checks.py, sink_checks.py): one of topic and files, a schema for JSON,
   dead letters for rules that want them, a table for a database.
3. No two sinks write to one place, and none to where a source reads (places.py).
4. A stream has a sink, and a sink has a stream: what never ends or never moves cannot be written as a stream.
What only Spark knows (columns, types, functions) is left to it: `ottla pipeline dry-run`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.spark.pipelines.definition import DeadLetters, Expectation, Pipeline, Step, Watermark
from ottla.spark.pipelines.faults import Fault, Lines, PipelineWrong, Place, nearest
from ottla.spark.pipelines.graph import Graph, circle_in
from ottla.spark.pipelines.places import is_topic_name, place_faults
from ottla.spark.pipelines.python_steps import parameters, parameters_in_file, split_reference
from ottla.spark.pipelines.sink_checks import sink_faults
from ottla.spark.pipelines.source_checks import source_faults
from ottla.spark.pipelines.sql_names import tables_of

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_DELAY: Final = re.compile(r"\s*\d+(\.\d+)?\s*(milli|micro)?(second|minute|hour|day|week)s?\s*", re.IGNORECASE)


def checked(pipeline: Pipeline, directory: Path, lines: Lines, file_name: str) -> Graph:
    """The graph of a pipeline that makes sense."""
    inputs, faults = inputs_of(pipeline, directory)
    faults += list(_all_faults(pipeline, directory))
    if not faults and (circle := circle_in(inputs)) is not None:
        faults.append(Fault(("steps", circle[0]), f"it reads itself in a circle: {' -> '.join(circle)}"))
    if not faults:
        graph = Graph.of(pipeline, inputs)
        faults += list(_graph_faults(graph))
    if faults:
        raise PipelineWrong(fault.text(file_name, lines) for fault in faults)
    return graph


def inputs_of(pipeline: Pipeline, directory: Path) -> tuple[dict[str, list[str]], list[Fault]]:
    """What every step reads, and the names that are not there."""
    inputs: dict[str, list[str]] = {}
    faults: list[Fault] = []
    known = [*pipeline.sources, *pipeline.steps]
    for name, step in pipeline.steps.items():
        word, wanted, fault = _wanted(step, directory)
        if fault is not None:
            faults.append(Fault(("steps", name, *([word] if word else [])), fault))
        by_lower = {each.lower(): each for each in known}
        inputs[name] = list(dict.fromkeys(by_lower[each.lower()] for each in wanted if each.lower() in by_lower))
        missing = [each for each in wanted if each.lower() not in by_lower]
        for each in missing:
            faults.append(Fault(("steps", name, word), f"there is no source or step {each!r}{nearest(each, known)}"))
        if not inputs[name] and not missing and fault is None:
            faults.append(Fault(("steps", name, word), "it reads no source and no step"))
    return inputs, faults


def _wanted(step: Step, directory: Path) -> tuple[str, list[str], str | None]:
    """(the word that says it, the names, what is wrong) of one step."""
    said = [word for word, value in (("sql", step.sql), ("from", step.from_), ("python", step.python)) if value]
    if len(said) != 1:
        return "", [], f"a step has one of sql, from and python, not {' and '.join(said) or 'none'}"
    if step.sql is not None:
        return "sql", [table.name for table in tables_of(step.sql)], None
    if step.from_ is not None:
        return "from", [step.from_], None
    if callable(step.python):
        return "python", parameters(step.python), None
    reference = split_reference(str(step.python))
    if reference is None:
        return "python", [], f"write it as FILE.py:FUNCTION, not {step.python!r}"
    try:
        return "python", parameters_in_file(directory / reference[0], reference[1]), None
    except ValueError as error:
        return "python", [], str(error)


def _all_faults(pipeline: Pipeline, directory: Path) -> Iterator[Fault]:
    yield from _names(pipeline)
    for name, source in pipeline.sources.items():
        place = ("sources", name)
        yield from source_faults(source, pipeline, directory, place)
        yield from _rules(source.expect, pipeline, place)
        yield from _watermark(source.watermark, place)
    for name, step in pipeline.steps.items():
        yield from _rules(step.expect, pipeline, ("steps", name))
        yield from _watermark(step.watermark, ("steps", name))
        if step.watermark is not None and step.watermark.late != "count":
            yield Fault(("steps", name, "watermark", "late"), "this is for the watermark of a source that is a topic")
    for name, sink in pipeline.sinks.items():
        yield from sink_faults(sink, pipeline, directory, ("sinks", name))
    if pipeline.dead_letters is not None:
        yield from _dead_letters(pipeline.dead_letters)
    yield from place_faults(pipeline, directory)


def _names(pipeline: Pipeline) -> Iterator[Fault]:
    if not _NAME.fullmatch(pipeline.name.replace("-", "_")):
        yield Fault(("name",), f"{pipeline.name!r} is no name: letters, digits, _ and - only, a letter first")
    for empty in [word for word in ("sources", "sinks") if not getattr(pipeline, word)]:
        yield Fault((empty,), "there is none")
    seen: dict[str, str] = {}
    for section in ("sources", "steps", "sinks"):
        for name in getattr(pipeline, section):
            if not _NAME.fullmatch(name) or "__" in name:
                sentence = f"{name!r} is no name: letters, digits and single _ only, a letter first"
                yield Fault((section, name), sentence)
            if (other := seen.setdefault(name.lower(), section)) != section or list(
                map(str.lower, getattr(pipeline, section))
            ).count(name.lower()) > 1:
                sentence = f"there is another {name!r} in {other}; names that differ only in case are the same"
                yield Fault((section, name), sentence)


def _rules(rules: Mapping[str, Expectation], pipeline: Pipeline, place: Place) -> Iterator[Fault]:
    for name, rule in rules.items():
        where = (*place, "expect", name)
        if not rule.condition.strip():
            yield Fault(where, "the condition is empty")
        if rule.action == "dead_letter" and pipeline.dead_letters is None:
            yield Fault(where, "the pipeline has no dead_letters; add them, or say action: drop")


def _watermark(watermark: Watermark | None, place: Place) -> Iterator[Fault]:
    if watermark is not None and not _DELAY.fullmatch(watermark.delay):
        yield Fault((*place, "watermark", "delay"), f"{watermark.delay!r} is no time; write it as '10 minutes'")


def _dead_letters(letters: DeadLetters) -> Iterator[Fault]:
    said = [word for word in ("topic", "files") if getattr(letters, word) is not None]
    if len(said) != 1:
        yield Fault(("dead_letters",), f"they have one of topic and files, not {' and '.join(said) or 'none'}")
    if letters.topic is not None and not is_topic_name(letters.topic):
        yield Fault(("dead_letters", "topic"), f"{letters.topic!r} cannot be the name of a topic")


def _graph_faults(graph: Graph) -> Iterator[Fault]:
    for name, sink in graph.pipeline.sinks.items():
        if not graph.is_stream(sink.from_):
            sentence = f"{sink.from_!r} comes only from sources that are read whole (static); nothing would move"
            yield Fault(("sinks", name, "from"), sentence)
    for name, step in graph.pipeline.steps.items():
        if step.unique_by and not any(map(graph.has_watermark, graph.inputs[name])):
            sentence = "it remembers rows as long as a watermark says, and nothing that it reads has one: say watermark"
            yield Fault(("steps", name, "unique_by"), sentence)
    for name in graph.order:
        if not graph.is_stream(name):
            node = graph.pipeline.sources.get(name) or graph.pipeline.steps[name]
            section = "sources" if name in graph.pipeline.sources else "steps"
            if node.watermark is not None:
                yield Fault((section, name, "watermark"), "what is read whole at every run cannot be late")
            if any(rule.action == "dead_letter" for rule in node.expect.values()):
                yield Fault((section, name, "expect"), "what is read whole at every run has no dead letters; say drop")


def unread(graph: Graph) -> Sequence[str]:
    """Datasets that nothing reads: allowed, but probably forgotten."""
    return [name for name in graph.order if not graph.readers(name)]
