"""Whether a sink makes sense: what it reads is there, one place, and a format that this place can have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.spark.pipelines.databases import database_faults
from ottla.spark.pipelines.definition import (
    FILE_SINK_FORMATS,
    MERGING_FORMATS,
    REGISTERED_FORMATS,
    TABLE_FORMATS,
    TOPIC_SINK_FORMATS,
    Pipeline,
    Sink,
)
from ottla.spark.pipelines.faults import Fault, Place, nearest
from ottla.spark.pipelines.places import is_topic_name
from ottla.spark.pipelines.topic_formats import format_faults

FORMATS: Final = {"topic": TOPIC_SINK_FORMATS, "files": FILE_SINK_FORMATS, "jdbc": (), "table": TABLE_FORMATS}
# The words that belong to one kind of place only.
_BELONGS: Final = {
    "topic": (
        "value",
        "headers",
        "partitions",
        "bootstrap",
        "schema",
        "key_schema",
        "message",
        "registry",
    ),
}


def sink_faults(sink: Sink, pipeline: Pipeline, directory: Path, place: Place) -> Iterator[Fault]:
    """All that is wrong with a sink."""
    known = [*pipeline.sources, *pipeline.steps]
    if sink.from_ not in known:
        yield Fault((*place, "from"), f"there is no source or step {sink.from_!r}{nearest(sink.from_, known)}")
    said = [word for word in FORMATS if getattr(sink, word) is not None and (word != "table" or sink.jdbc is None)]
    if len(said) != 1:
        yield Fault(place, f"a sink has one of topic, files, jdbc and table, not {' and '.join(said) or 'none'}")
        return
    if sink.topic is not None and not is_topic_name(sink.topic):
        yield Fault((*place, "topic"), f"{sink.topic!r} cannot be the name of a topic")
    for kind, words in _BELONGS.items():
        for word in words:
            if kind != said[0] and getattr(sink, word):
                yield Fault((*place, word), f"this is for {kind}, and the sink has {said[0]}")
    if sink.partition_by and said[0] not in ("files", "table"):
        yield Fault((*place, "partition_by"), f"this is for files and table, and the sink has {said[0]}")
    if sink.format is not None and sink.format not in FORMATS[said[0]]:
        yield Fault((*place, "format"), _cannot(said[0], sink.format))
    elif sink.topic is not None:
        yield from (Fault((*place, word), sentence) for word, sentence in format_faults(sink, pipeline, directory))
    if sink.jdbc is not None:
        yield from (Fault((*place, word), sentence) for word, sentence in database_faults(sink))
    yield from (Fault((*place, word), sentence) for word, sentence in _key_faults(sink, said[0]))


def _key_faults(sink: Sink, kind: str) -> Iterator[tuple[str, str]]:
    """What belongs together where rows replace others."""
    if kind == "files":
        for word in ("key", "delete", "order_by"):
            if getattr(sink, word) is not None:
                yield word, "this is for topic, jdbc and table: rows in files are not replaced"
        if sink.mode != "append":
            yield "mode", "files are only appended to; say append, or write a topic or a table of PostgreSQL"
        return
    if kind == "table" and sink.mode != "append" and sink.format not in MERGING_FORMATS:
        yield "mode", f"rows of {sink.format or 'parquet'} cannot be replaced: say append, or format: delta or iceberg"
    if sink.key is None and (sink.mode != "append" or sink.delete is not None):
        word = "mode" if sink.mode != "append" else "delete"
        yield word, "rows replace and delete what their key had: say key"
    if sink.order_by is not None and sink.mode == "append":
        yield "order_by", "this is for mode: update, where the last row of a key counts"
    if sink.delete is not None and sink.mode == "complete":
        yield "delete", "a complete result deletes what it does not have any more; filter the rows in a step instead"
    if sink.mode == "complete" and sink.key_format in REGISTERED_FORMATS:
        yield "key_format", "a complete result is compared by its keys as text; say string, or use mode: update"
    if kind in ("jdbc", "table") and sink.mode == "append" and sink.key is not None:
        yield "key", "this is for mode: update and complete; append adds rows to the table as they are"


def _cannot(kind: str, name: str) -> str:
    """Why a place cannot have a format, and what can."""
    if not FORMATS[kind]:
        return "a table of a database has columns and no format; leave it out"
    others = " and ".join(other for other in FORMATS if name in FORMATS[other])
    where = f" (it is for {others})" if others else ""
    written = "the values of a topic" if kind == "topic" else kind
    return f"{written} cannot be written as {name!r}{where}; say one of {', '.join(FORMATS[kind])}"
