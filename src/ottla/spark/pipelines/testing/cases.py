"""What a test of a pipeline is made of. A YAML file (yaml_tests.py) and Python (ottla.testing) give the same values.

1. What is given comes in batches: each is one micro-batch of Spark, in their order. Most tests have one.
2. A record of a topic is a mapping with the words of RECORD_WORDS; a row of files is a mapping of its columns.
3. An expected row names the columns that matter: what it does not name is not compared.
4. Only what is expected is run: sinks and steps that a test does not name are left out. Dead letters always count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.light_dataclasses import dataclass, field

RECORD_WORDS: Final = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
DEAD_WORDS: Final = ("step", "rule", "reason", "topic", "partition", "offset", "timestamp", "key", "value", "headers")
DEAD_LETTERS: Final = "dead_letters"


@dataclass(frozen=True, slots=True)
class Given:
    """What one batch of a source holds: rows, or a file of the source's own format."""

    rows: Sequence[Any] = ()
    file: Path | None = None
    schema: str | None = None
    """Of Avro values, where the pipeline asks a registry: tests have none."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Rows of a step or files, records of a topic, or dead letters."""

    rows: Sequence[Mapping[str, Any]]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One test. Nothing said of dead letters means that there are none."""

    name: str
    batches: Sequence[Mapping[str, Given]]
    expect: Mapping[str, Expected] = field(default_factory=dict)
    fails: str | None = None
    """All sinks run, and the run ends with an error that has this text in it."""
