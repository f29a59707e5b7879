"""Whether a source makes sense: one of topic and files, a format that can be read, what its format needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.spark.pipelines.definition import (
    FILE_SOURCE_FORMATS,
    IN_TIME,
    REGISTERED_FORMATS,
    TOPIC_FORMATS,
    Pipeline,
    Source,
)
from ottla.spark.pipelines.faults import Fault, Place
from ottla.spark.pipelines.places import is_pattern, is_topic_name
from ottla.spark.pipelines.topic_formats import format_faults

_WITH_COLUMNS: Final = ("json", *REGISTERED_FORMATS)


def source_faults(source: Source, pipeline: Pipeline, directory: Path, place: Place) -> Iterator[Fault]:
    """All that is wrong with a source but for its rules."""
    said = [word for word in ("topic", "topic_pattern", "files") if getattr(source, word) is not None]
    if len(said) != 1:
        yield Fault(place, f"a source has one of topic, topic_pattern and files, not {' and '.join(said) or 'none'}")
        return
    formats = TOPIC_FORMATS if source.is_topic else FILE_SOURCE_FORMATS
    if source.format is not None and source.format not in formats:
        yield Fault((*place, "format"), f"{source.format!r} is not one of {', '.join(formats)}")
    if source.topic is not None:
        for topic in source.topic.split(","):
            if not is_topic_name(topic.strip()):
                yield Fault((*place, "topic"), f"{topic.strip()!r} cannot be the name of a topic")
    if source.is_topic and source.format == "json" and source.schema is None:
        yield Fault(place, "json needs a schema: the columns, as in 'user STRING, at TIMESTAMP'")
    if not source.is_topic and not source.is_static and source.schema is None and source.format != "text":
        yield Fault(place, "a stream of files needs a schema; or say static: true to read them whole")
    if source.topic_pattern is not None and not is_pattern(source.topic_pattern):
        yield Fault((*place, "topic_pattern"), f"{source.topic_pattern!r} is no regular expression")
    if source.is_topic:
        yield from (Fault((*place, word), sentence) for word, sentence in format_faults(source, pipeline, directory))
    else:
        for word in ("group", "bootstrap", "bad_records", "message", "registry", "envelope", "table"):
            if getattr(source, word):
                yield Fault((*place, word), "this is for topics only")
    if source.is_topic and source.envelope is not None and source.format not in _WITH_COLUMNS:
        yield Fault((*place, "envelope"), f"a change has columns: say format, one of {', '.join(_WITH_COLUMNS)}")
    if source.new_columns != "ignore" and not _has_json_columns(source):
        yield Fault((*place, "new_columns"), "this is for JSON of a topic with a schema, and no envelope around it")
    yield from _late(source, pipeline, place)
    if source.bad_records == "dead_letter" and pipeline.dead_letters is None:
        yield Fault((*place, "bad_records"), "the pipeline has no dead_letters; add them, or say drop or fail")


def _has_json_columns(source: Source) -> bool:
    is_json = source.is_topic and source.format in ("json", "json_schema")
    return is_json and source.schema is not None and source.envelope is None


def _late(source: Source, pipeline: Pipeline, place: Place) -> Iterator[Fault]:
    if source.watermark is None or source.watermark.late == "count":
        return
    where = (*place, "watermark", "late")
    if not source.is_topic:
        yield Fault(where, "files have no time of arrival; this is for topics only")
    if source.watermark.late == "dead_letter" and pipeline.dead_letters is None:
        yield Fault(where, "the pipeline has no dead_letters; add them, or say drop or count")
    if IN_TIME in source.expect:
        yield Fault((*place, "expect", IN_TIME), f"the rule of late records is called {IN_TIME}; give another name")
