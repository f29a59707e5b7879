"""Avro records as columns, decoded by fastavro.

    valueSchema         schemaRegistryUrl    records are                            read as
    inline or a file    -                    bare, written with valueSchema         valueSchema
    -                   given                framed, written with what they name    the newest schema of the topic
    inline or a file    given                framed, written with what they name    valueSchema

1. Records are read into one schema, by Avro's rules for a writer's and a reader's schema: columns that the writer did
   not have take the reader's default, those that the reader does not have are passed over.
2. Where schemas come from, and which records are bad because of what they name: registered.py. A record that does not
   decode or has bytes left is bad, too.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType

from ottla.client.schema_registry.registry import SchemaRegistry
from ottla.errors import OttlaError
from ottla.schemas.framing import FRAME_BYTES, schema_id_of
from ottla.schemas.model import AVRO, InvalidSchema
from ottla.schemas.resolved import resolved
from ottla.spark.formats.avro_schemas import SparkTypes, UnreadableAvroSchema, without_odd_types
from ottla.spark.formats.formats import Decoded, Side, decode_each, schema_text
from ottla.spark.formats.registered import (
    Whole,
    WriterSchemas,
    from_file,
    newest_schemas,
    registry_of,
    same_for_all,
)

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.source.options import SourceOptions


class AvroMissing(OttlaError):
    """fastavro is not installed. Install it where Spark runs: pip install 'ottla[avro]'."""


def spark_type(schema: str) -> DataType:
    """What a value of this schema is in Spark."""
    return SparkTypes().of(_parsed_text(schema))


def reader_schema(options: SourceOptions, side: Side) -> str:
    """The schema to read into, as JSON."""
    text = schema_text(options, side)
    if text:
        return text if text.lstrip()[:1] in ("{", "[", '"') else from_file(text, side, "JSON")
    found = newest_schemas(options, side, AVRO, "JSON, or the path of a file")
    return same_for_all((json.dumps(_in_one(each), sort_keys=True) for each in found), side)


def _in_one(schema: Whole) -> Any:
    """One schema that stands alone: what it refers to is written out where its name comes first."""
    try:
        return json.loads(resolved(AVRO, schema.text, schema.imports))
    except InvalidSchema as error:
        raise UnreadableAvroSchema(str(error)) from None


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
    """Decodes columns of Avro records; with a registry each names the schema that wrote it."""

    def __init__(self, schema: Any, kind: pyarrow.DataType, registry: SchemaRegistry | None) -> None:
        self._fastavro = _fastavro()
        self._reader = self._understood(schema)
        self._kind = kind
        self._writers: WriterSchemas[Any] | None = None
        if registry is not None:
            self._writers = WriterSchemas(registry, AVRO, lambda whole: self._understood(_in_one(whole)))

    @classmethod
    def for_side(cls, options: SourceOptions, side: Side, kind: pyarrow.DataType) -> AvroRows:
        return cls(_parsed_text(reader_schema(options, side)), kind, registry_of(options))

    def _understood(self, schema: Any) -> Any:
        try:
            return self._fastavro.parse_schema(without_odd_types(schema))
        except Exception as error:  # fastavro has many errors, and passes on those of broken dictionaries
            raise UnreadableAvroSchema(f"{type(error).__name__}: {error}") from error

    def decode(self, column: pyarrow.Array) -> Decoded:
        return decode_each(column, self._kind, self._read)

    def _read(self, content: bytes) -> Any:
        writer = self._reader
        if self._writers is not None:
            writer = self._writers.named(schema_id_of(content))
            content = content[FRAME_BYTES:]
        stream = io.BytesIO(content)
        try:
            found = self._fastavro.schemaless_reader(stream, writer, self._reader)
        except Exception as error:  # bytes that mean nothing make fastavro raise whatever it stumbles over
            raise ValueError(f"it does not decode ({type(error).__name__}: {error})") from None
        if stream.tell() != len(content):
            raise ValueError(f"{len(content) - stream.tell()} bytes are left after the record")
        return found
