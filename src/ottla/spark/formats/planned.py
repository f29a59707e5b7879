"""The schema that a column is planned with, and its type in Spark; the decoders are ottla.schemas.arrow's.

    format    valueSchema        schemaRegistryUrl  records are                         read as
    avro      inline or a file   -                  bare, written with valueSchema      valueSchema
              -                  given              framed, written with what they name the newest of the topic
              inline or a file   given              framed, written with what they name valueSchema
    protobuf  .proto, or a file  -                  bare messages                       valueMessage of valueSchema
              -                  given              framed, of a message they name      valueMessage of the newest
              .proto, or a file  given              framed, of a message they name      valueMessage of valueSchema
    json      -                  given              framed or not                       the newest of the topic

The message is the first of its file unless keyMessage or valueMessage name another. It goes along with the column
together with its schema (formats.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import DataType, StructType

from ottla.schemas.arrow import avro_types, protobuf_types
from ottla.schemas.arrow.avro_rows import in_one, parsed_text
from ottla.schemas.arrow.json_types import struct_of
from ottla.schemas.arrow.protobuf_rows import message_of
from ottla.schemas.model import AVRO, JSON, PROTOBUF, WholeSchema
from ottla.spark.formats.registered import from_file, newest_schemas, same_for_all
from ottla.spark.running.arrow_types import from_arrow

if TYPE_CHECKING:
    from ottla.spark.formats.formats import Side
    from ottla.spark.source.options import SourceOptions

PLANNED: Final = '{"schema":'
"""So begins what goes along with a column of Protobuf; no .proto text does."""


def schema_text(options: SourceOptions, side: Side) -> str | None:
    """What keySchema or valueSchema says."""
    return options.key_schema if side == "key" else options.value_schema


def message_name(options: SourceOptions, side: Side) -> str | None:
    """What keyMessage or valueMessage says."""
    return options.key_message if side == "key" else options.value_message


# -- Avro --------------------------------------------------------------------------------------------------------------


def avro_schema(options: SourceOptions, side: Side) -> str:
    """The schema to read into, as JSON."""
    text = schema_text(options, side)
    if text:
        return text if text.lstrip()[:1] in ("{", "[", '"') else from_file(text, side, "JSON")
    newest = newest_schemas(options, side, AVRO, "JSON, or the path of a file")
    return same_for_all((json.dumps(in_one(schema), sort_keys=True) for schema in newest), side)


def avro_type(schema: str) -> DataType:
    """What a value of this schema is in Spark."""
    return from_arrow(avro_types.arrow_type(parsed_text(schema)))


# -- JSON --------------------------------------------------------------------------------------------------------------


def json_type(options: SourceOptions, side: Side) -> StructType:
    """The columns that the newest schema of the topics has."""
    newest = newest_schemas(options, side, JSON, "the columns to read, as in 'id BIGINT, name STRING'")
    columns = from_arrow(same_for_all((struct_of(*schema) for schema in newest), side))
    assert isinstance(columns, StructType), "struct_of() refuses others"
    return columns


# -- Protobuf ----------------------------------------------------------------------------------------------------------


def protobuf_schema(options: SourceOptions, side: Side) -> str:
    """The schema to read with, and its message, as JSON: what goes along with the column. One that came along stays."""
    known = schema_text(options, side)
    if known is not None and known.startswith(PLANNED):
        return known
    chosen = _chosen(options, side)
    return same_for_all((_with_message(schema, message_name(options, side)) for schema in chosen), side)


def _chosen(options: SourceOptions, side: Side) -> Iterable[WholeSchema]:
    text = schema_text(options, side)
    if text:
        return [WholeSchema(text if "{" in text else from_file(text, side, "a .proto text"), {})]
    return newest_schemas(options, side, PROTOBUF, "a .proto text or file")


def _with_message(schema: WholeSchema, name: str | None) -> str:
    message = message_of(schema, name)
    return json.dumps({"schema": schema.text, "imports": schema.imports, "message": message.full_name})


def protobuf_type(planned: str) -> DataType:
    """What values of a planned schema are in Spark."""
    return from_arrow(protobuf_types.arrow_type(protobuf_message(planned)))


def protobuf_message(planned: str) -> Any:
    """The message of a planned schema."""
    found = json.loads(planned)
    return message_of(WholeSchema(found["schema"], found["imports"]), found["message"])
