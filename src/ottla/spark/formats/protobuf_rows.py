"""Protobuf records as columns.

    valueSchema         schemaRegistryUrl    records are                            read as
    .proto, or a file   -                    bare messages                          valueMessage of valueSchema
    -                   given                framed, of a message they name         valueMessage of the newest schema
    .proto, or a file   given                framed, of a message they name         valueMessage of valueSchema

1. A record is read with the reader's message, by Protobuf's rules: fields are their numbers, those that the reader does
   not have are passed over, those that were not written have their default or are NULL.
2. The message is the first of its file unless keyMessage or valueMessage name another. A framed record says which
   message of which schema it is: one of another name is bad.
3. Where schemas come from, and which records are bad because of what they name: registered.py. The chosen one goes
   along with the column (formats.py), as Avro's does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import DataType

from ottla.client.schema_registry.registry import SchemaRegistry
from ottla.errors import OttlaError
from ottla.schemas.framing import read_indexes, schema_id_of
from ottla.schemas.model import PROTOBUF, InvalidSchema, SchemaLibraryMissing
from ottla.schemas.protobuf.values import reader_of
from ottla.spark.formats.formats import Decoded, Side, decode_each, message_name, schema_text
from ottla.spark.formats.protobuf_types import UnreadableProtobufSchema, spark_type
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

PLANNED: Final = '{"schema":'
"""So begins what goes along with a column; no .proto text does."""


class ProtobufMissing(OttlaError):
    """protobuf is not installed. Install it where Spark runs: pip install 'ottla[registry]'."""


def planned_schema(options: SourceOptions, side: Side) -> str:
    """The schema to read with, and its message, as JSON: what goes along with the column. One that came along stays."""
    known = schema_text(options, side)
    if known is not None and known.startswith(PLANNED):
        return known
    return same_for_all((_planned(each, message_name(options, side)) for each in _chosen(options, side)), side)


def _chosen(options: SourceOptions, side: Side) -> Iterable[Whole]:
    text = schema_text(options, side)
    if text:
        return [Whole(text if "{" in text else from_file(text, side, "a .proto text"), {})]
    return newest_schemas(options, side, PROTOBUF, "a .proto text or file")


def _planned(schema: Whole, message: str | None) -> str:
    found = _message(schema, message)
    return json.dumps({"schema": schema.text, "imports": schema.imports, "message": found.full_name})


def planned_type(planned: str) -> DataType:
    """What values of a planned schema are in Spark."""
    return spark_type(planned_message(planned))


def planned_message(planned: str) -> Any:
    found = json.loads(planned)
    return _message(Whole(found["schema"], found["imports"]), found["message"])


def _message(schema: Whole, name: str | None) -> Any:
    try:
        from ottla.schemas.protobuf.messages import NoSuchMessage, linked_file, message_named
    except ImportError as error:
        raise ProtobufMissing from error
    try:
        return message_named(linked_file(*schema), name)
    except SchemaLibraryMissing as error:
        raise ProtobufMissing from error
    except (InvalidSchema, NoSuchMessage) as error:
        raise UnreadableProtobufSchema(str(error)) from None


class ProtobufRows:
    """Decodes columns of Protobuf records."""

    def __init__(self, planned: str, kind: pyarrow.DataType, registry: SchemaRegistry | None) -> None:
        from ottla.schemas.protobuf.messages import class_of, linked_file

        message = planned_message(planned)
        self._name = message.full_name
        self._class = class_of(message)
        self._convert = reader_of(message)
        self._kind = kind
        self._checked: set[tuple[int, tuple[int, ...]]] = set()
        self._writers: WriterSchemas[Any] | None = None
        if registry is not None:
            self._writers = WriterSchemas(registry, PROTOBUF, lambda whole: linked_file(*whole))

    @classmethod
    def for_side(cls, options: SourceOptions, side: Side, kind: pyarrow.DataType) -> ProtobufRows:
        return cls(planned_schema(options, side), kind, registry_of(options))

    def decode(self, column: pyarrow.Array) -> Decoded:
        return decode_each(column, self._kind, self._read)

    def _read(self, content: bytes) -> Any:
        from google.protobuf.message import DecodeError

        position = 0
        if self._writers is not None:
            schema_id = schema_id_of(content)
            indexes, position = read_indexes(content)
            if (schema_id, indexes) not in self._checked:
                self._check_message(self._writers.named(schema_id), indexes)
                self._checked.add((schema_id, indexes))
        try:
            return self._convert(self._class.FromString(content[position:]))
        except (DecodeError, OverflowError) as error:
            raise ValueError(f"it does not decode as {self._name} ({error})") from None

    def _check_message(self, file: Any, indexes: tuple[int, ...]) -> None:
        """A record of another message would decode to nonsense."""
        from ottla.schemas.protobuf.messages import NoSuchMessage, message_at

        try:
            written = message_at(file, indexes).full_name
        except NoSuchMessage as error:
            raise ValueError(str(error)) from None
        if written != self._name:
            raise ValueError(f"it is a message {written}, not {self._name}")
