"""Where the schemas of keys and values come from: from the options, and from a schema registry.

    valueSchema          the schema to read with is this text, or in the file that it names
    schemaRegistryUrl    it is the newest of the subject <topic>-value, and the same for all topics
    records              name the schema that wrote them (client/schema_registry/writers.py)

The newest schema is that of the moment when the query is planned. A pattern of topics has none: topics may come.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.client.schema_registry.registry import SchemaRegistry
from ottla.client.schema_registry.writers import WriterSchemas, whole_schema
from ottla.schemas.model import WholeSchema
from ottla.spark.option_table import InvalidOption

if TYPE_CHECKING:
    from ottla.spark.formats.formats import Side
    from ottla.spark.source.options import SourceOptions

SCHEMA_FILE_BYTES_MAX: Final = 16_777_216
REGISTRIES_MAX: Final = 16

H = TypeVar("H", bound=Hashable)


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


def writers_named(options: SourceOptions, kind: str) -> Callable[[int], WholeSchema] | None:
    """Which schema an id in a record means; None when records name none."""
    registry = registry_of(options)
    return None if registry is None else WriterSchemas(registry, kind).named


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


def newest_schemas(options: SourceOptions, side: Side, kind: str, form: str) -> Iterator[WholeSchema]:
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
        yield whole_schema(registry, schema)


def same_for_all(found: Iterable[H], side: Side) -> H:
    """What all topics have in common."""
    distinct = set(found)
    if len(distinct) > 1:
        raise InvalidOption(f"the topics have different schemas; say what to read with {side}Schema")
    return distinct.pop()
