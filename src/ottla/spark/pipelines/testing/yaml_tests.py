"""Tests of a pipeline out of a YAML file.

    tests:
      a quick click is counted:
        given:
          clicks:                                           a source
            - {value: {user: ada, page: /, at: 2026-01-01T00:00:05Z, milliseconds: 7}, key: k1}
            - {value: no json}
          pages: some-pages.csv                             a file beside this one, in the source's format
        expect:
          named: [{user: ada, title: Start}]                a step: rows, of the columns that matter
          counts: {ordered: true, rows: [{key: Start, value: {clicks: 1}}]}
          dead_letters: [{rule: readable, value: no json}]  when it is not said, there must be none
      a wrong record ends the run:
        given: [{clicks: [...]}, {clicks: [...]}]           several batches, one after the other
        fails: breaks the rule is_short

1. Everything that is wrong with a file is told at once, with lines, before Spark is started.
2. A source that is not given is empty, except files: these are read as they are.
3. `pipeline:` names the pipeline's file; without it, it is the one beside the file, or beside its directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.definition import Pipeline
from ottla.spark.pipelines.faults import Fault, PipelineWrong, Place, nearest
from ottla.spark.pipelines.testing.cases import DEAD_LETTERS, DEAD_WORDS, RECORD_WORDS, Case, Expected, Given
from ottla.spark.pipelines.yaml_file import SIZE_LIMIT_BYTES

FILE_WORDS: Final = ("pipeline", "tests")
CASE_WORDS: Final = ("given", "expect", "fails")
EXPECTED_WORDS: Final = ("ordered", "rows")
GIVEN_WORDS: Final = ("rows", "schema")
DIRECTORY: Final = "tests"
SUFFIXES: Final = (".yml", ".yaml")


def files_of_tests(pipeline: Path) -> list[Path]:
    """The files in the directory `tests` beside a pipeline."""
    return sorted(path for path in (pipeline.parent / DIRECTORY).glob("*") if path.suffix in SUFFIXES)


@dataclass(frozen=True, slots=True)
class ReadFile:
    """The tests of a file, and the pipeline that it names."""

    path: Path
    pipeline: Path | None
    root: Mapping[str, Any]
    lines: Mapping[Place, int]


def open_test_file(path: Path) -> ReadFile:
    """The file as data; PipelineWrong when it is no YAML of tests."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineWrong([f"{path}: it cannot be read: {error}"]) from None
    if len(text) > SIZE_LIMIT_BYTES:
        raise PipelineWrong([f"{path}: a file of tests has at most {SIZE_LIMIT_BYTES:,} characters"])
    try:
        root, node = yaml.safe_load(text), yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise PipelineWrong([f"{path}: this is no YAML: {str(error).splitlines()[0]}"]) from None
    if not isinstance(root, dict) or not isinstance(root.get("tests"), dict) or root.keys() - set(FILE_WORDS):
        raise PipelineWrong([f"{path}: a file of tests has the word 'tests' with tests by name, and maybe 'pipeline'"])
    named = root.get("pipeline")
    return ReadFile(path, None if named is None else path.parent / str(named), root, dict(_lines(node, ())))


def _lines(node: yaml.Node, place: Place) -> Iterator[tuple[Place, int]]:
    yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _lines(value, (*place, str(key.value)))
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _lines(value, (*place, str(number)))


def read_cases(read: ReadFile, pipeline: Pipeline) -> list[Case]:
    """The tests; PipelineWrong lists all that does not fit the pipeline."""
    reader = _Reader(read.path.parent, pipeline)
    cases = [reader.case(str(name), value, ("tests", str(name))) for name, value in read.root["tests"].items()]
    if reader.faults:
        raise PipelineWrong(fault.text(str(read.path.name), read.lines) for fault in reader.faults)
    return cases


class _Reader:
    def __init__(self, directory: Path, pipeline: Pipeline) -> None:
        self._directory = directory
        self._pipeline = pipeline
        self.faults: list[Fault] = []

    def case(self, name: str, value: Any, place: Place) -> Case:
        words = self._words(value, CASE_WORDS, place)
        inputs = words.get("given") or {}
        listed = list(enumerate(inputs)) if isinstance(inputs, list) else [(None, inputs)]
        batches = [
            self._batch(batch, (*place, "given", *([] if number is None else [str(number)])))
            for number, batch in listed
        ]
        expect = {
            dataset: self._expected(dataset, rows, (*place, "expect", dataset))
            for dataset, rows in self._mapping(words.get("expect") or {}, (*place, "expect")).items()
        }
        fails = words.get("fails")
        if not expect and fails is None:
            self._fault(place, "it expects nothing: say 'expect', or 'fails' with a part of the error")
        return Case(name, batches, expect, None if fails is None else str(fails))

    # --- given --------------------------------------------------------------------------------------------------------

    def _batch(self, value: Any, place: Place) -> dict[str, Given]:
        batch = {}
        for name, rows in self._mapping(value, place).items():
            source = self._pipeline.sources.get(name)
            if source is None:
                self._fault((*place, name), f"there is no such source{nearest(name, self._pipeline.sources)}")
            else:
                batch[name] = self._input(rows, source.is_topic, (*place, name))
        return batch

    def _input(self, value: Any, is_topic: bool, place: Place) -> Given:
        if isinstance(value, str) and not is_topic:
            if not (self._directory / value).exists():
                self._fault(place, f"there is no file {value} beside this one")
            return Given(file=(self._directory / value).absolute())
        schema = None
        if isinstance(value, dict):
            words = self._words(value, GIVEN_WORDS, place)
            schema, value = words.get("schema"), words.get("rows")
            if isinstance(schema, str) and schema.endswith(".avsc"):
                schema = str((self._directory / schema).absolute())
        if not isinstance(value, list):
            self._fault(place, "here belongs a list" if is_topic else "here belongs a list of rows, or a file")
            return Given()
        for number, row in enumerate(value):
            self._words(row, RECORD_WORDS if is_topic else None, (*place, str(number)))
        return Given(value, schema=None if schema is None else str(schema))

    # --- expected -----------------------------------------------------------------------------------------------------

    def _expected(self, name: str, value: Any, place: Place) -> Expected:
        known = [DEAD_LETTERS, *self._pipeline.sources, *self._pipeline.steps, *self._pipeline.sinks]
        if name not in known:
            self._fault(place, f"there is no source, step or sink of this name{nearest(name, known)}")
        ordered = False
        if isinstance(value, dict):
            words = self._words(value, EXPECTED_WORDS, place)
            ordered, value = words.get("ordered") is True, words.get("rows")
        if not isinstance(value, list):
            self._fault(place, "here belongs a list of rows, or {ordered: true, rows: [...]}")
            return Expected(())
        for number, row in enumerate(value):
            self._words(row, self._words_of(name), (*place, str(number)))
        return Expected([row for row in value if isinstance(row, dict)], ordered)

    def _words_of(self, name: str) -> tuple[str, ...] | None:
        if name == DEAD_LETTERS:
            return DEAD_WORDS
        sink = self._pipeline.sinks.get(name)
        return RECORD_WORDS[:3] if sink is not None and sink.topic is not None else None

    # --- words --------------------------------------------------------------------------------------------------------

    def _words(self, value: Any, known: tuple[str, ...] | None, place: Place) -> dict[str, Any]:
        """A mapping whose words are known; any when `known` is None."""
        words = self._mapping(value, place)
        for word in words:
            if known is not None and word not in known:
                self._fault((*place, word), f"there is no such word{nearest(word, known)}")
        return words

    def _mapping(self, value: Any, place: Place) -> dict[str, Any]:
        if isinstance(value, dict):
            return {str(name): each for name, each in value.items()}
        self._fault(place, "here belongs a mapping")
        return {}

    def _fault(self, place: Place, sentence: str) -> None:
        self.faults.append(Fault(place, sentence))
