"""keyFormat and valueFormat: what the bytes of keys and values become.

    binary   the bytes as they are (the default)
    string   UTF-8 text
    json     a struct with the columns of keySchema/valueSchema; with schemaRegistryUrl also of records that name a
             schema, and the columns are those of the newest one if none are named
    avro     the type of an Avro schema: inline, from a file, or from a schema registry
    protobuf the type of a message of such a schema

The decoders are those of everybody who reads topics as tables (ottla.schemas.arrow); planned.py says which schema they
read with.

1. A null stays NULL in every format: a tombstone is no bad record.
2. A record that is not of its format is bad. badRecords=fail (the default) raises BadRecord, which names its place;
   badRecords=null makes the column NULL in that row and logs once per batch how many there were.
3. The type of a column is fixed when the query is planned: the schema that readers shall use goes along with the
   column, in the metadata of its field, from the planning through Spark to the tasks. So a new version in the registry
   does not change a running query. Writers' schemas are looked up when they are met.
4. Columns are decoded whole (schemas/arrow/decoded.py); a bad record costs no other one.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from ottla.errors import OttlaError
from ottla.schemas.arrow.decoded import Decoded, decode_text
from ottla.schemas.model import AVRO, PROTOBUF
from ottla.spark.formats.ddl import as_nullable, parse_schema
from ottla.spark.formats.planned import (
    avro_schema,
    avro_type,
    json_type,
    protobuf_message,
    protobuf_schema,
    protobuf_type,
    schema_text,
)
from ottla.spark.formats.quick_json import QUICK_JSON, QuickJson
from ottla.spark.formats.registered import writers_named
from ottla.spark.option_table import InvalidOption
from ottla.spark.running.arrow_types import metadata_of

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.source.options import SourceOptions

log = logging.getLogger(__name__)

Side = Literal["key", "value"]
SIDES: Final[tuple[Side, ...]] = ("key", "value")
PLACE_COLUMNS: Final = ("topic", "partition", "offset")
SHOWN_BYTES: Final = 60
PLANNED_SCHEMA: Final = "ottla.planned.schema"
PLANNED_FORMATS: Final = ("avro", "json", "protobuf")


class BadRecord(OttlaError):
    """A record is not of its format. Mend or skip it, read it with another schema or as binary, or let it become NULL
    (badRecords=null)."""


Decode = Callable[[Any], Decoded]


def column_field(options: SourceOptions, side: Side) -> StructField:
    """What a key or a value is in Spark."""
    match _format(options, side):
        case "binary":
            return StructField(side, BinaryType())
        case "string":
            return StructField(side, StringType())
        case "json":
            return _json_field(options, side)
        case "protobuf":
            planned = protobuf_schema(options, side)
            return StructField(side, protobuf_type(planned), True, {PLANNED_SCHEMA: planned})
        case _:
            text = avro_schema(options, side)
            return StructField(side, avro_type(text), True, {PLANNED_SCHEMA: text})


def _json_field(options: SourceOptions, side: Side) -> StructField:
    text = schema_text(options, side)
    if text or options.schema_registry_url is None:
        return StructField(side, as_nullable(parse_schema(_needed_schema(options, side))))
    kind = json_type(options, side)
    return StructField(side, kind, True, {PLANNED_SCHEMA: kind.json()})


def as_planned(options: SourceOptions, schema: StructType) -> SourceOptions:
    """The same options with the schemas that the columns of a planned query brought along."""
    for field in schema.fields:
        text = field.metadata.get(PLANNED_SCHEMA)
        if text is not None and field.name == "key" and options.key_format in PLANNED_FORMATS:
            options = dataclasses.replace(options, key_schema=text)
        elif text is not None and field.name == "value" and options.value_format in PLANNED_FORMATS:
            options = dataclasses.replace(options, value_schema=text)
    return options


def _format(options: SourceOptions, side: Side) -> str:
    return options.key_format if side == "key" else options.value_format


def _needed_schema(options: SourceOptions, side: Side) -> str:
    text = schema_text(options, side)
    if not text:
        name = f"{side}Format={_format(options, side)}"
        raise InvalidOption(f"{name} needs {side}Schema: the columns to read, as in 'id BIGINT, name STRING'")
    return text


class RowFormats:
    """Turns batches of records into rows of the schema that Spark wants; made once for a task."""

    def __init__(self, options: SourceOptions, schema: pyarrow.Schema) -> None:
        import pyarrow as pa

        self._schema = schema
        options = as_planned(options, StructType([_spark_field(field) for field in schema]))
        self._fails = options.bad_records == "fail"
        self._decoders: dict[str, Decode] = {}
        for side in SIDES:
            if side in schema.names and _format(options, side) != "binary":
                self._decoders[side] = _decoder(options, side, schema.field(side).type)
        self._quick = QuickJson(schema.field(QUICK_JSON).type) if QUICK_JSON in schema.names else None
        fields = [pa.field(field.name, pa.binary()) if field.name in self._decoders else field for field in schema]
        if self._quick is not None:
            fields = [field for field in fields if field.name != QUICK_JSON]
            fields += [pa.field("value", pa.binary())] if "value" not in schema.names else []
        if self._decoders:
            fields += [_place_field(name) for name in PLACE_COLUMNS if name not in schema.names]
        self.raw_schema = pa.schema(fields)
        """What to ask of the records: bytes, and where each is from, for the sentence about a bad one."""

    def decoded(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """The same rows in their formats."""
        if not self._decoders and self._quick is None:
            return batch
        import pyarrow as pa

        columns = []
        for field in self._schema:
            if self._quick is not None and field.name == QUICK_JSON:
                columns.append(self._quick.read(batch.column("value")))
                continue
            column = batch.column(field.name)
            decode = self._decoders.get(field.name)
            if decode is not None:
                found = decode(column)
                if found.problems:
                    self._log_problems(batch, field.name, found.problems)
                column = found.column
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _log_problems(self, batch: pyarrow.RecordBatch, side: str, problems: dict[int, str]) -> None:
        row, why = next(iter(problems.items()))
        topic, partition, offset = (batch.column(name)[row].as_py() for name in PLACE_COLUMNS)
        shown = batch.column(side)[row].as_py()[:SHOWN_BYTES]
        where = f"the {side} of {topic}-{partition} at offset {offset} ({shown!r}): {why}"
        if self._fails:
            raise BadRecord(where)
        log.warning("%d bad records became NULL; %s", len(problems), where)


def _spark_field(field: pyarrow.Field) -> StructField:
    """Name and metadata of a column; its type does not matter here."""
    return StructField(field.name, BinaryType(), True, metadata_of(field))


def _place_field(name: str) -> Any:
    import pyarrow as pa

    return pa.field(name, {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}[name])


def _decoder(options: SourceOptions, side: Side, kind: pyarrow.DataType) -> Decode:
    match _format(options, side):
        case "string":
            return decode_text
        case "json":
            from ottla.schemas.arrow.json_rows import JsonRows

            return JsonRows(kind, framed=options.schema_registry_url is not None).decode
        case "protobuf":
            from ottla.schemas.arrow.protobuf_rows import ProtobufRows

            message = protobuf_message(protobuf_schema(options, side))
            return ProtobufRows(message, kind, writers_named(options, PROTOBUF)).decode
        case _:
            from ottla.schemas.arrow.avro_rows import AvroRows, parsed_text

            schema = parsed_text(avro_schema(options, side))
            return AvroRows(schema, kind, writers_named(options, AVRO)).decode
