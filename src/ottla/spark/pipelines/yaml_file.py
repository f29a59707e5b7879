"""A pipeline out of a YAML file, with the line of every word.

1. The words are those of definition.py; an unknown one is reported with the nearest, a value of the wrong kind with
   what is expected, and all faults of a file at once.
2. ${NAME} in a value is a parameter (parameters.py), else the process's variable; ${NAME:-other} has a value for when
   there is neither: for passwords and for addresses that differ from machine to machine.
3. Where a mapping has one word that matters, that value may stand for it: `valid: SELECT ...` is
   `valid: {sql: SELECT ...}`.
4. The file is read as data: YAML's tags that make objects are refused.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

import yaml

from ottla.spark.pipelines.definition import Pipeline
from ottla.spark.pipelines.faults import Fault, PipelineWrong, Place, nearest
from ottla.spark.pipelines.parameters import Chosen, resolved

SIZE_LIMIT_BYTES: Final = 1 << 20
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_TRUE: Final = ("true", "yes", "on")
_FALSE: Final = ("false", "no", "off")


@dataclasses.dataclass(frozen=True, slots=True)
class ReadPipeline:
    """A definition and where its words stand; a Python file has no lines."""

    pipeline: Pipeline
    lines: Mapping[Place, int]


def read_yaml(text: str, *, file_name: str, environment: Mapping[str, str], chosen: Chosen) -> ReadPipeline:
    """The pipeline of this text; PipelineWrong lists all that is wrong with it."""
    if len(text) > SIZE_LIMIT_BYTES:
        raise PipelineWrong([f"{file_name}: a pipeline's file has at most {SIZE_LIMIT_BYTES:,} characters"])
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise PipelineWrong([_syntax(error, file_name)]) from None
    reader = _Reader(environment)
    reader.choose(root, chosen)
    pipeline = reader.section(root, Pipeline, ()) if root is not None else None
    if root is None:
        reader.faults.append(Fault((), "the file is empty"))
    if reader.faults or pipeline is None:
        # Parameters are read before the rest and with it: what is wrong with them is wrong twice.
        raise PipelineWrong(fault.text(file_name, reader.lines) for fault in dict.fromkeys(reader.faults))
    return ReadPipeline(pipeline, reader.lines)


def _syntax(error: yaml.YAMLError, file_name: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    where = f"{file_name}:{mark.line + 1}" if mark is not None else file_name
    return f"{where}: this is no YAML: {problem}"


class _Reader:
    """Walks the nodes beside the dataclasses."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._parameters: Mapping[str, str] = {}
        self.faults: list[Fault] = []
        self.lines: dict[Place, int] = {}

    def choose(self, root: yaml.Node | None, chosen: Chosen) -> None:
        """Find out what the parameters are, before anything else is read."""
        pairs = root.value if isinstance(root, yaml.MappingNode) else []
        nodes = {key.value: value for key, value in pairs if isinstance(key, yaml.ScalarNode)}
        defaults: dict[str, str | None] = {}
        environments: dict[str, Mapping[str, str]] = {}
        if (node := nodes.get("parameters")) is not None:
            values = self._mapping(node, str, ("parameters",))
            defaults = {name: None if _is_null(node, name) else value for name, value in values.items()}
        if (node := nodes.get("environments")) is not None:
            environments = self._mapping(node, Mapping[str, str], ("environments",))
        self._parameters, faults = resolved(chosen, defaults, environments)
        self.faults += faults

    def section(self, node: yaml.Node, section: type[Any], place: Place) -> Any:
        """One of definition.py's classes, or None when it is not right."""
        self._note(node, place)
        fields = {field.name.rstrip("_"): field for field in dataclasses.fields(section)}
        if not isinstance(node, yaml.MappingNode):
            short = next((field for field in fields.values() if field.metadata["short"]), None)
            if short is None or not isinstance(node, yaml.ScalarNode):
                return self._fault(place, f"here belongs a mapping with the words {', '.join(fields)}")
            return section(**{short.name: self._scalar(node, place)})
        hints = typing.get_type_hints(section)
        values: dict[str, Any] = {}
        for name, value in self._pairs(node, place):
            if (field := fields.get(name)) is None:
                self._fault((*place, name), f"there is no such word{nearest(name, fields)}")
            else:
                values[field.name] = self._value(value, hints[field.name], (*place, name), field.metadata["choices"])
        return self._made(section, values, place)

    def _made(self, section: type[Any], values: dict[str, Any], place: Place) -> Any:
        missing = [
            field.name.rstrip("_")
            for field in dataclasses.fields(section)
            if field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
            and field.name not in values
        ]
        if missing:
            return self._fault(place, f"{' and '.join(map(repr, missing))} is missing")
        return section(**values)

    def _pairs(self, node: yaml.MappingNode, place: Place) -> list[tuple[str, yaml.Node]]:
        pairs: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            self.lines[(*place, name)] = key.start_mark.line + 1
            if name in pairs:
                self._fault((*place, name), "it stands here twice")
            pairs[name] = value
        return list(pairs.items())

    def _value(self, node: yaml.Node, hint: Any, place: Place, choices: tuple[str, ...]) -> Any:
        kinds = [kind for kind in typing.get_args(hint) if kind is not types.NoneType] if _is_union(hint) else [hint]
        kind = next((each for each in kinds if dataclasses.is_dataclass(each)), kinds[0])
        if dataclasses.is_dataclass(kind):
            return self.section(node, typing.cast("type[Any]", kind), place)
        if typing.get_origin(kind) is tuple:
            return self._texts(node, place)
        if typing.get_origin(kind) is not None and issubclass(typing.get_origin(kind), Mapping):
            return self._mapping(node, typing.get_args(kind)[1], place)
        text = self._scalar(node, place)
        if choices and text not in choices:
            return self._fault(place, f"{text!r} is not one of {', '.join(choices)}")
        return self._converted(text, kind, place)

    def _converted(self, text: str, kind: Any, place: Place) -> Any:
        if kind is bool:
            if text.lower() in _TRUE + _FALSE:
                return text.lower() in _TRUE
            return self._fault(place, f"{text!r} is neither true nor false")
        if kind is int:
            return int(text) if text.isdigit() else self._fault(place, f"{text!r} is no whole number")
        return text

    def _texts(self, node: yaml.Node, place: Place) -> tuple[str, ...]:
        if isinstance(node, yaml.SequenceNode):
            return tuple(self._scalar(each, place) for each in node.value)
        return tuple(part.strip() for part in self._scalar(node, place).split(",") if part.strip())

    def _mapping(self, node: yaml.Node, kind: Any, place: Place) -> dict[str, Any]:
        self._note(node, place)
        if not isinstance(node, yaml.MappingNode):
            self._fault(place, "here belongs a mapping of names to values")
            return {}
        return {name: self._entry(value, kind, (*place, name)) for name, value in self._pairs(node, place)}

    def _entry(self, node: yaml.Node, kind: Any, place: Place) -> Any:
        """One value of a mapping: a section, a mapping again, or text."""
        if dataclasses.is_dataclass(kind):
            return self.section(node, typing.cast("type[Any]", kind), place)
        if typing.get_origin(kind) is not None:
            return self._mapping(node, typing.get_args(kind)[1], place)
        return self._scalar(node, place)

    def _scalar(self, node: yaml.Node, place: Place) -> str:
        self._note(node, place)
        if not isinstance(node, yaml.ScalarNode):
            self._fault(place, "here belongs a single value")
            return ""
        return _VARIABLE.sub(lambda found: self._variable(found, place), node.value)

    def _variable(self, found: re.Match[str], place: Place) -> str:
        other: str | None = found[2]
        value = self._parameters.get(found[1], self._environment.get(found[1], other))
        if value is None:
            sentence = f"there is no parameter {found[1]}, and the environment has none; set it, or write"
            self._fault(place, f"{sentence} ${{{found[1]}:-a value}}")
        return value or ""

    def _note(self, node: yaml.Node, place: Place) -> None:
        self.lines.setdefault(place, node.start_mark.line + 1)

    def _fault(self, place: Place, sentence: str) -> Any:
        self.faults.append(Fault(place, sentence))


def _is_null(node: yaml.Node, name: str) -> bool:
    """Whether a name has no value in a mapping."""
    return any(key.value == name and value.tag.endswith(":null") for key, value in node.value)


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)
