"""Where the schemas of keys and values come from: from the options, and from a schema registry.

    valueSchema          the schema to read with is this text, or in the file that it names
    schemaRegistryUrl    it is the newest of the subject <topic>-value, and the same for all topics
    records              name the schema that wrote them, in their first bytes

1. The newest schema is that of the moment when the query is planned. A pattern of topics has none: topics may come.
2. What records name is asked for once, also when there is nothing by that id, or something of another kind. That makes
   the record a bad one; a registry that does not answer is a failure of the task, not of the record.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ottla.client.schema_registry.registry import SchemaNotFound, SchemaRegistry
from ottla.light_tuples import NamedTuple
from ottla.schemas.framing import UnframedRecord
from ottla.schemas.model import AVRO
from ottla.spark.option_table import InvalidOption

if TYPE_CHECKING:
    from ottla.schemas.model import SchemaText
    from ottla.spark.formats.formats import Side
    from ottla.spark.source.options import SourceOptions

SCHEMA_FILE_BYTES_MAX: Final = 16_777_216
UNKNOWN_MAX: Final = 10_000
REGISTRIES_MAX: Final = 16

H = TypeVar("H", bound=Hashable)
T = TypeVar("T")


class Whole(NamedTuple):
    """A schema and the texts of all that it refers to, each before those that use it."""

    text: str
    imports: dict[str, str]


@functools.lru_cache(maxsize=REGISTRIES_MAX)
def registry_at(url: str) -> SchemaRegistry:
    """One registry of this process: its schemas are kept for the next task."""
    try:
        return SchemaRegistry(url)
    except ValueError as error:
        raise InvalidOption(f"schemaRegistryUrl: {error}") from None


def registry_of(options: SourceOptions) -> SchemaRegistry | None:
    """The registry that the options name, if they do: then records name their schemas."""
    return None if options.schema_registry_url is None else registry_at(options.schema_registry_url)


def from_file(path: str, side: Side, form: str) -> str:
    """What is in the file that keySchema or valueSchema names; `form` is what it could have been instead."""
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            text = file.read(SCHEMA_FILE_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{side}Schema is neither {form} nor a file that can be read: {error}") from None
    if len(text) > SCHEMA_FILE_BYTES_MAX:
        raise InvalidOption(f"the file of {side}Schema is larger than {SCHEMA_FILE_BYTES_MAX} bytes")
    return text


def newest_schemas(options: SourceOptions, side: Side, kind: str, form: str) -> Iterator[Whole]:
    """The newest schema of each topic; `form` is how keySchema or valueSchema would say it."""
    asked = f"{side}Format={kind.lower()}"
    registry = registry_of(options)
    if registry is None:
        raise InvalidOption(f"{asked} needs {side}Schema ({form}), or schemaRegistryUrl")
    if options.topics.pattern is not None:
        raise InvalidOption(f"with subscribePattern {asked} needs {side}Schema: topics may come and go")
    for topic in options.topics.names:
        _, schema = registry.latest(f"{topic}-{side}")
        if schema.kind != kind:
            raise InvalidOption(f"{asked}, and the newest schema of {topic}-{side} is {schema.kind}")
        yield _whole(registry, schema)


def same_for_all(found: Iterable[H], side: Side) -> H:
    """What all topics have in common."""
    each = set(found)
    if len(each) > 1:
        raise InvalidOption(f"the topics have different schemas; say what to read with {side}Schema")
    return each.pop()


def _whole(registry: SchemaRegistry, schema: SchemaText) -> Whole:
    text = schema.text
    if schema.kind == AVRO and text.isidentifier():
        text = f'"{text}"'  # some registries give a bare name, such as string, without its quotes
    return Whole(text, registry.imports(schema))


class WriterSchemas(Generic[T]):
    """The schemas that records name by their ids, each as `understood` makes it."""

    def __init__(self, registry: SchemaRegistry, kind: str, understood: Callable[[Whole], T]) -> None:
        self._registry = registry
        self._kind = kind
        self._understood = understood
        self._known: dict[int, T] = {}
        self._unknown: dict[int, str] = {}

    def named(self, schema_id: int) -> T:
        """The schema with this id; UnframedRecord when there is none that a record could name."""
        if schema_id in self._unknown:
            raise UnframedRecord(self._unknown[schema_id])
        if schema_id not in self._known:
            self._known[schema_id] = self._asked(schema_id)
        return self._known[schema_id]

    def _asked(self, schema_id: int) -> T:
        try:
            schema = self._registry.schema(schema_id)
            if schema.kind == self._kind:
                return self._understood(_whole(self._registry, schema))
            why = f"it names schema {schema_id}, which is {schema.kind}"
        except SchemaNotFound as error:
            why = f"it names a schema that is not there: {error.detail}"
        if len(self._unknown) < UNKNOWN_MAX:
            self._unknown[schema_id] = why
        raise UnframedRecord(why)
