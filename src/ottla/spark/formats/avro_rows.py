"""Avro records as columns, decoded by fastavro.

    valueSchema         schemaRegistryUrl    records are                            read as
    inline or a file    -                    bare, written with valueSchema         valueSchema
    -                   given                framed, written with what they name    the newest schema of the topic
    inline or a file    given                framed, written with what they name    valueSchema

1. Records are read into one schema, by Avro's rules for a writer's and a reader's schema: columns that the writer did
   not have take the reader's default, those that the reader does not have are passed over.
2. The newest schema is that of the subject <topic>-key or <topic>-value when the query is planned. Several topics must
   have the same; otherwise the user says what to read.
3. A record that does not decode, has bytes left, or names a schema that the registry does not know is bad. A registry
   that does not answer is a failure of the task, not of the record.
"""

from __future__ import annotations

import functools
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import DataType

from ottla.errors import OttlaError
from ottla.spark.formats.avro_schemas import SparkTypes, UnreadableAvroSchema, without_odd_types
from ottla.spark.formats.formats import Decoded, Side, schema_text
from ottla.spark.formats.schema_registry import (
    FRAME_BYTES,
    SchemaRegistry,
    UnframedRecord,
    UnknownSchema,
    schema_number,
)
from ottla.spark.option_table import InvalidOption

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.source.options import SourceOptions

SCHEMA_FILE_BYTES_MAX: Final = 16_777_216
UNKNOWN_MAX: Final = 10_000
REGISTRIES_MAX: Final = 16


class AvroMissing(OttlaError):
    """fastavro is not installed. Install it where Spark runs: pip install 'ottla[avro]'."""


def spark_type(schema: str) -> DataType:
    """What a value of this schema is in Spark."""
    return SparkTypes().of(_parsed_text(schema))


def reader_schema(options: SourceOptions, side: Side) -> str:
    """The schema to read into, as JSON."""
    text = schema_text(options, side)
    if text:
        return text if text.lstrip()[:1] in ("{", "[", '"') else _from_file(text, side)
    if options.schema_registry_url is None:
        raise InvalidOption(f"{side}Format=avro needs {side}Schema (JSON, or the path of a file) or schemaRegistryUrl")
    if options.topics.pattern is not None:
        raise InvalidOption(f"with subscribePattern {side}Format=avro needs {side}Schema: topics may come and go")
    registry = registry_at(options.schema_registry_url)
    found = {json.dumps(registry.latest(f"{topic}-{side}"), sort_keys=True) for topic in options.topics.names}
    if len(found) > 1:
        raise InvalidOption(f"the topics have different schemas; say what to read with {side}Schema")
    return found.pop()


@functools.lru_cache(maxsize=REGISTRIES_MAX)
def registry_at(url: str) -> SchemaRegistry:
    """One registry of this process: its schemas are kept for the next task."""
    return SchemaRegistry(url)


def _from_file(path: str, side: Side) -> str:
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            text = file.read(SCHEMA_FILE_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{side}Schema is neither JSON nor a file that can be read: {error}") from None
    if len(text) > SCHEMA_FILE_BYTES_MAX:
        raise InvalidOption(f"the file of {side}Schema is larger than {SCHEMA_FILE_BYTES_MAX} bytes")
    return text


def _parsed_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UnreadableAvroSchema(f"it is no JSON: {error}") from None


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise AvroMissing from error
    return fastavro


class AvroRows:
    """Decodes columns of Avro records."""

    def __init__(self, schema: Any, kind: pyarrow.DataType, registry: SchemaRegistry | None) -> None:
        self._fastavro = _fastavro()
        self._reader = self._understood(schema)
        self._kind = kind
        self._registry = registry
        self._writers: dict[int, Any] = {}
        self._unknown: dict[int, str] = {}

    @classmethod
    def for_side(cls, options: SourceOptions, side: Side, kind: pyarrow.DataType) -> AvroRows:
        url = options.schema_registry_url
        return cls(_parsed_text(reader_schema(options, side)), kind, None if url is None else registry_at(url))

    def _understood(self, schema: Any) -> Any:
        try:
            return self._fastavro.parse_schema(without_odd_types(schema))
        except Exception as error:  # fastavro has many errors, and passes on those of broken dictionaries
            raise UnreadableAvroSchema(f"{type(error).__name__}: {error}") from error

    def decode(self, column: pyarrow.Array) -> Decoded:
        import pyarrow as pa

        found: list[Any] = []
        problems: dict[int, str] = {}
        for row, content in enumerate(column.to_pylist()):
            try:
                found.append(None if content is None else self._read(content))
            except ValueError as error:
                found.append(None)
                problems[row] = str(error)
        return Decoded(pa.array(found, type=self._kind), problems)

    def _read(self, content: bytes) -> Any:
        writer = self._reader
        if self._registry is not None:
            writer = self._writer(schema_number(content))
            content = content[FRAME_BYTES:]
        stream = io.BytesIO(content)
        try:
            found = self._fastavro.schemaless_reader(stream, writer, self._reader)
        except Exception as error:  # bytes that mean nothing make fastavro raise whatever it stumbles over
            raise ValueError(f"it does not decode ({type(error).__name__}: {error})") from None
        if stream.tell() != len(content):
            raise ValueError(f"{len(content) - stream.tell()} bytes are left after the record")
        return found

    def _writer(self, number: int) -> Any:
        known = self._writers.get(number)
        if known is not None:
            return known
        if number in self._unknown:
            raise UnframedRecord(self._unknown[number])
        assert self._registry is not None, "only framed records name their schema"
        try:
            self._writers[number] = self._understood(self._registry.by_number(number))
        except UnknownSchema as error:
            if len(self._unknown) < UNKNOWN_MAX:
                self._unknown[number] = f"it names a schema that is not there: {error.detail}"
            raise UnframedRecord(f"it names a schema that is not there: {error.detail}") from None
        return self._writers[number]
