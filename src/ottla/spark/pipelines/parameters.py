"""What differs between the places where one pipeline runs: values with names, from the file and from the command.

    parameters: {topic: clicks, limit: 10}         names, with the values they have unless something else is said
    environments:
      prod: {topic: clicks-prod}                   ottla pipeline run --environment prod
    sources:
      clicks: {topic: "${topic}"}                  ottla pipeline run --param topic=other

1. The command's value is nearer than that of the environment, and that is nearer than the default. A parameter with
   neither is an error that names it; so is a name that the file does not have.
2. In a Python file it is `parameter("topic", "clicks", prod="clicks-prod")`; a name that no call asks for is an error
   as well.
3. `${NAME}` of something that is no parameter is a variable of the process's environment, as for passwords.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.spark.pipelines.faults import Fault, nearest


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the command says: values by name, and which environment is meant."""

    values: Mapping[str, str] = field(default_factory=dict)
    environment: str | None = None


class ParameterMissing(OttlaError):
    """A parameter has no value. Say --param NAME=VALUE, or give it a default in the file."""


class ParameterUnknown(OttlaError):
    """The pipeline has no such parameter. Look at what it asks for."""


def resolved(
    chosen: Chosen, defaults: Mapping[str, str | None], environments: Mapping[str, Mapping[str, str]]
) -> tuple[dict[str, str], list[Fault]]:
    """The values of a YAML file's parameters, and what is wrong with them."""
    faults = []
    if chosen.environment is not None and chosen.environment not in environments:
        sentence = f"there is no environment {chosen.environment!r}{nearest(chosen.environment, environments)}"
        faults.append(Fault(("environments",), sentence))
    for name, values in environments.items():
        for word in values.keys() - defaults.keys():
            sentence = f"it is no parameter; write its default among parameters{nearest(word, defaults)}"
            faults.append(Fault(("environments", name, word), sentence))
    for word in chosen.values.keys() - defaults.keys():
        faults.append(Fault(("parameters",), f"there is no parameter {word!r}{nearest(word, defaults)}"))
    named = {**defaults, **environments.get(chosen.environment or "", {}), **chosen.values}
    for word, value in named.items():
        if value is None:
            sentence = f"it has no value: say --param {word}=..., or a default"
            faults.append(Fault(("parameters", word), sentence))
    return {word: value for word, value in named.items() if value is not None}, faults


@dataclass(slots=True)
class _Asked:
    """What a Python file has asked for while it was run."""

    chosen: Chosen
    names: set[str] = field(default_factory=set)
    environments: set[str] = field(default_factory=set)


_ASKED: ContextVar[_Asked | None] = ContextVar("ottla-pipeline-parameters", default=None)


def parameter(name: str, default: str | None = None, **by_environment: str) -> str:
    """The value of a parameter in a Python file, with its default and with others by the names of environments."""
    asked = _ASKED.get() or _Asked(Chosen())
    asked.names.add(name)
    asked.environments.update(by_environment)
    chosen = asked.chosen
    value = chosen.values.get(name, by_environment.get(chosen.environment or "", default))
    if value is None:
        raise ParameterMissing(name)
    return value


@contextmanager
def answering(chosen: Chosen) -> Iterator[None]:
    """While a Python file is run: `parameter` answers what the command says, and what nobody asks for is an error."""
    asked = _Asked(chosen)
    token = _ASKED.set(asked)
    try:
        yield
    finally:
        _ASKED.reset(token)
    for word in chosen.values.keys() - asked.names:
        raise ParameterUnknown(f"{word!r}{nearest(word, asked.names)}")
    if chosen.environment is not None and chosen.environment not in asked.environments:
        raise ParameterUnknown(
            f"the environment {chosen.environment!r}{nearest(chosen.environment, asked.environments)}"
        )
