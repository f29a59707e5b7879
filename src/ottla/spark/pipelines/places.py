"""Where a pipeline reads and writes, and that these places do not meet.

1. Two sinks at one place are refused: of two that write files into one directory the second's batches count as done
   already (Spark keeps one list of them there), and two that write one topic or table take each other's rows for their
   own. What belongs together is one step (UNION ALL) with one sink. The dead letters have a place, too.
2. A source that reads what a sink of the same pipeline writes would never come to an end, and is refused.
3. A place of a topic is its cluster and name. Addresses are compared as they are written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.spark.pipelines.definition import DeadLetters, Pipeline, Sink, Source
from ottla.spark.pipelines.faults import Fault, Place

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Written(NamedTuple):
    """Something that the pipeline writes: what it is called, where it stands, what kind of place, where, which."""

    name: str
    place: Place
    kind: str
    where: str
    which: str


def is_topic_name(name: str) -> bool:
    """Whether Kafka lets a topic be called so."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def is_pattern(text: str) -> bool:
    """Whether this is a regular expression."""
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def place_faults(pipeline: Pipeline, directory: Path) -> Iterator[Fault]:
    """Places that are written twice, and places that are read and written."""
    written = list(_written(pipeline, directory))
    for index, later in enumerate(written):
        for earlier in written[:index]:
            if _meet(earlier, later):
                sentence = f"{earlier.name} writes there already{_within(earlier, later)}; one step with UNION ALL"
                yield Fault(later.place, f"{sentence} can take the rows of both to one sink")
    for name, source in pipeline.sources.items():
        for target in written:
            word = _read_by(source, target, pipeline, directory)
            if word is not None:
                sentence = f"{target.name} writes what is read here: the pipeline would feed itself without an end"
                yield Fault(("sources", name, word), f"{sentence}; write to another {target.kind}")


def _written(pipeline: Pipeline, directory: Path) -> Iterator[Written]:
    targets: dict[str, Sink | DeadLetters] = {f"sinks.{name}": sink for name, sink in pipeline.sinks.items()}
    if pipeline.dead_letters is not None:
        targets["dead_letters"] = pipeline.dead_letters
    for name, target in targets.items():
        place = tuple(name.split("."))
        if target.topic is not None:
            yield Written(name, (*place, "topic"), "topic", _cluster(target, pipeline), target.topic)
        elif target.files is not None:
            yield Written(name, (*place, "files"), "directory", "", _path(target.files, directory))
        elif isinstance(target, Sink) and target.jdbc is not None:
            yield Written(name, (*place, "table"), "table", target.jdbc, str(target.table))
        elif isinstance(target, Sink) and target.table is not None:
            yield Written(name, (*place, "table"), "table", "", target.table.lower())


def _meet(one: Written, other: Written) -> bool:
    if (one.kind, one.where) != (other.kind, other.where):
        return False
    return one.which == other.which or (one.kind == "directory" and _holds(one.which, other.which))


def _within(earlier: Written, later: Written) -> str:
    if earlier.which == later.which:
        return ""
    return " (one directory is inside the other, and Spark reads them as one)"


def _holds(one: str, other: str) -> bool:
    """Whether one directory is inside the other."""
    return one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _read_by(source: Source, target: Written, pipeline: Pipeline, directory: Path) -> str | None:
    """The word by which a source reads what is written there."""
    if target.kind == "topic" and source.is_topic and _cluster(source, pipeline) == target.where:
        if source.topic is not None:
            return "topic" if target.which in map(str.strip, source.topic.split(",")) else None
        pattern = str(source.topic_pattern)
        return "topic_pattern" if is_pattern(pattern) and re.fullmatch(pattern, target.which) else None
    if target.kind == "directory" and source.files is not None and not source.is_static:
        return "files" if _reads(_path(source.files, directory), target.which) else None
    return None


def _reads(files: str, directory: str) -> bool:
    """Whether a directory, or a pattern of files or directories, has the files of this directory."""
    if not set("*?[{") & set(files):
        return files == directory or _holds(files, directory)
    return fnmatchcase(directory, files) or fnmatchcase(directory, files.rpartition("/")[0])


def _cluster(node: Source | Sink | DeadLetters, pipeline: Pipeline) -> str:
    return node.bootstrap or pipeline.bootstrap or ""


def _path(path: str, directory: Path) -> str:
    return path.rstrip("/") if "://" in path else os.path.normpath(directory / path)
