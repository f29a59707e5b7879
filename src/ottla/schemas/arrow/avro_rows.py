"""Columns of Avro records.

1. Records are read into one schema, by Avro's rules for a writer's and a reader's schema: columns that the writer did
   not have take the reader's default, those that the reader does not have are passed over (avro_steps.py).
2. Framed records name the schema that wrote them; `schema_of` knows it, or says that there is none. A record that
   names none, does not decode or has bytes left is bad; so is one whose writer's schema cannot be read.
3. Records of several writers in one column are read by groups (decoded.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.light_tuples import NamedTuple
from ottla.schemas.arrow.avro_choice import AvroColumns
from ottla.schemas.arrow.avro_columns import AvroColumns as CarefulColumns
from ottla.schemas.arrow.avro_steps import AvroPlan
from ottla.schemas.arrow.avro_types import UnreadableAvroSchema, without_odd_types
from ottla.schemas.arrow.decoded import Decoded, decode_rest, read_groups
from ottla.schemas.avro.format import AvroFormat
from ottla.schemas.avro.types import AvroType
from ottla.schemas.framing import FRAME_BYTES, MAGIC, UnframedRecord, schema_id_of
from ottla.schemas.model import AVRO, InvalidSchema, WholeSchema, read_json, write_json
from ottla.schemas.resolved import resolved

SchemaOf = Callable[[int], WholeSchema]

WRITERS_MAX: Final = 10_000
"""So many writers' plans are kept; with more of them all are made anew."""


def in_one(schema: WholeSchema) -> Any:
    """A schema, as JSON, that stands alone: what it refers to is written out where its name comes first."""
    try:
        return json.loads(resolved(AVRO, schema.text, schema.imports))
    except InvalidSchema as error:
        raise UnreadableAvroSchema(error.detail) from None


def parsed_text(text: str) -> Any:
    """The JSON that a text is; UnreadableAvroSchema when it is none."""
    try:
        return read_json(text)
    except InvalidSchema as error:
        raise UnreadableAvroSchema(error.detail) from None


def _understood(schema: Any) -> AvroType:
    try:
        return AvroFormat().parse(write_json(without_odd_types(schema)), {}).type
    except InvalidSchema as error:
        raise UnreadableAvroSchema(error.detail) from None


class Writer(NamedTuple):
    """What reads the records of one writer: whole columns, and one record."""

    quick: AvroColumns
    careful: CarefulColumns


class AvroRows:
    """Decodes columns of Avro records into the columns of one schema; with `schema_of` each names its writer's."""

    def __init__(self, schema: Any, kind: pa.DataType, schema_of: SchemaOf | None) -> None:
        self._kind = kind
        self._reader = _understood(schema)
        self._schema_of = schema_of
        self._bare = self._writer(self._reader)
        self._writers: dict[int, Writer | str] = {}

    def _writer(self, schema: AvroType) -> Writer:
        plan = AvroPlan(schema, self._reader, self._kind)
        return Writer(AvroColumns(plan), CarefulColumns(plan))

    def decode(self, column: pa.Array) -> Decoded:
        quick = self._bare.quick.read(column) if self._schema_of is None else self._read_framed(column)
        return decode_rest(column, quick, self._read)

    def _read(self, content: bytes) -> Any:
        writer = self._bare
        if self._schema_of is not None:
            writer = self._named(schema_id_of(content))
            content = content[FRAME_BYTES:]
        return writer.careful.value(content)

    def _read_framed(self, column: pa.Array) -> pa.Array:
        """Null where a record cannot be read, or nobody knows its writer."""
        is_framed = pc.and_(
            pc.starts_with(column, pattern=bytes([MAGIC])), pc.greater_equal(pc.binary_length(column), FRAME_BYTES)
        )
        names = pc.if_else(is_framed, pc.binary_slice(column, 1, FRAME_BYTES), None)
        return read_groups(column, names, self._kind, self._read_writer)

    def _read_writer(self, name: bytes, column: pa.Array) -> pa.Array:
        try:
            return self._named(int.from_bytes(name, "big")).quick.read(column, FRAME_BYTES)
        except UnframedRecord:
            return pa.nulls(len(column), self._kind)

    def _named(self, schema_id: int) -> Writer:
        """What reads records that name this schema; UnframedRecord when nothing does."""
        assert self._schema_of is not None, "records name schemas"
        if schema_id not in self._writers:
            schema = self._schema_of(schema_id)
            if len(self._writers) >= WRITERS_MAX:
                self._writers.clear()
            try:
                self._writers[schema_id] = self._writer(_understood(in_one(schema)))
            except UnreadableAvroSchema as error:
                self._writers[schema_id] = f"it names schema {schema_id}, which cannot be read: {error}"
        writer = self._writers[schema_id]
        if isinstance(writer, str):
            raise UnframedRecord(writer)
        return writer
