"""What is done to a DataFrame, as values: the plan of a pipeline can be read and compared without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from ottla.light_dataclasses import dataclass, field

FILE_FORMATS: Final = ("parquet", "json", "csv", "orc")


@dataclass(frozen=True, slots=True)
class Select:
    """SQL expressions become the columns."""

    expressions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Where:
    """Rows for which the condition is true stay."""

    condition: str


@dataclass(frozen=True, slots=True)
class Pack:
    """All columns become one, without some of them, if they are there; further expressions stand beside it."""

    into: str
    without: tuple[str, ...]
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """Count rows and broken rules of a dataset as they pass."""

    dataset: str
    rules: tuple[str, ...]
    noted: Mapping[str, str] = field(default_factory=dict)
    """Conditions that are counted by name, and break nothing."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Of the rows with the same values in `key` that with the greatest `order` stays; those with NULL there do not."""

    key: tuple[str, ...]
    order: str


@dataclass(frozen=True, slots=True)
class Unique:
    """The first of the rows with the same values in these columns stays, as far back as the watermark."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """These columns go, if they are there."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """Some of the traces of a dataset's records are observed as they pass (tracing.py)."""

    dataset: str


Operation: TypeAlias = Select | Where | Pack | Count | Latest | Unique | Drop | Sample


@dataclass(frozen=True, slots=True)
class Read:
    """Rows from outside."""

    format: str
    options: Mapping[str, str]
    stream: bool
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT over other datasets."""

    sql: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """All rows of another dataset."""

    name: str
    stream: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A Python function of DataFrames. `inputs` are its parameters with whether each is a stream."""

    function: object
    inputs: tuple[Dataset, ...]


Beginning: TypeAlias = Read | Query | Dataset | Call


@dataclass(frozen=True, slots=True)
class View:
    """A named dataset: how it begins and what is done to it. It is not stored: every reader runs it."""

    name: str
    beginning: Beginning
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """How a batch is written by a function of ours, where Spark has no sink for it (batches.py).

    The rows come with all their columns. `key` is SQL, each for one part; `record` makes records of a topic of them; a
    table does not get the columns in `without`.
    """

    key: tuple[str, ...] = ()
    order: str | None = None
    delete: str | None = None
    record: tuple[Operation, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows are written to; `mode` is Spark's: append, update or complete. `table` is one in a catalog."""

    format: str
    options: Mapping[str, str]
    partition_by: tuple[str, ...] = ()
    mode: str = "append"
    batch: Batch | None = None
    table: str | None = None

    @property
    def is_files(self) -> bool:
        """Whether rows go into a directory, of which Spark's file sink keeps the list."""
        return self.table is None and self.format in FILE_FORMATS


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group that shows how far the flows are that read a source; `options` are the source's."""

    name: str
    flows: tuple[str, ...]
    options: Mapping[str, str]

    def has(self, topic: str) -> bool:
        """Whether a topic is one of the source's."""
        if "subscribe" in self.options:
            return topic in self.options["subscribe"].split(",")
        return re.fullmatch(self.options["subscribePattern"], topic) is not None


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows of one dataset written to a target: one query of Spark, with progress of its own."""

    name: str
    dataset: str
    operations: tuple[Operation, ...]
    target: Target
    dead_letters_of: str | None = None
