"""Columns of Avro records, decoded by fastavro.

1. Records are read into one schema, by Avro's rules for a writer's and a reader's schema: columns that the writer did
   not have take the reader's default, those that the reader does not have are passed over.
2. Framed records name the schema that wrote them; `schema_of` knows it, or says that there is none. A record that
   names none, does not decode or has bytes left is bad; so is one whose writer's schema cannot be read.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ottla.errors import OttlaError
from ottla.schemas.arrow.avro_types import UnreadableAvroSchema, without_odd_types
from ottla.schemas.arrow.decoded import Decoded, decode_each
from ottla.schemas.framing import FRAME_BYTES, schema_id_of
from ottla.schemas.model import AVRO, InvalidSchema, WholeSchema
from ottla.schemas.resolved import resolved

SchemaOf = Callable[[int], WholeSchema]


class AvroMissing(OttlaError):
    """fastavro is not installed. Install it where records are read: pip install 'ottla[avro]'."""


def in_one(schema: WholeSchema) -> Any:
    """A schema, as JSON, that stands alone: what it refers to is written out where its name comes first."""
    try:
        return json.loads(resolved(AVRO, schema.text, schema.imports))
    except InvalidSchema as error:
        raise UnreadableAvroSchema(str(error)) from None


def parsed_text(text: str) -> Any:
    """The JSON that a text is; UnreadableAvroSchema when it is none."""
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
    """Decodes columns of Avro records into the columns of one schema; with `schema_of` each names its writer's."""

    def __init__(self, schema: Any, kind: pa.DataType, schema_of: SchemaOf | None) -> None:
        self._fastavro = _fastavro()
        self._reader = self._understood(schema)
        self._kind = kind
        self._schema_of = schema_of
        self._writers: dict[int, Any] = {}

    def _understood(self, schema: Any) -> Any:
        try:
            return self._fastavro.parse_schema(without_odd_types(schema))
        except Exception as error:  # fastavro has many errors, and passes on those of broken dictionaries
            raise UnreadableAvroSchema(f"{type(error).__name__}: {error}") from error

    def decode(self, column: pa.Array) -> Decoded:
        return decode_each(column, self._kind, self._read)

    def _read(self, content: bytes) -> Any:
        writer = self._reader
        if self._schema_of is not None:
            writer = self._writer(schema_id_of(content), self._schema_of)
            content = content[FRAME_BYTES:]
        stream = io.BytesIO(content)
        try:
            found = self._fastavro.schemaless_reader(stream, writer, self._reader)
        except Exception as error:  # bytes that mean nothing make fastavro raise whatever it stumbles over
            raise ValueError(f"it does not decode ({type(error).__name__}: {error})") from None
        if stream.tell() != len(content):
            raise ValueError(f"{len(content) - stream.tell()} bytes are left after the record")
        return found

    def _writer(self, schema_id: int, schema_of: SchemaOf) -> Any:
        if schema_id not in self._writers:
            self._writers[schema_id] = self._understood(in_one(schema_of(schema_id)))
        return self._writers[schema_id]
