"""keyFormat and valueFormat: what the bytes of keys and values become.

    binary   the bytes as they are (the default)
    string   UTF-8 text
    json     a struct with the columns of keySchema/valueSchema (json_rows.py); with schemaRegistryUrl also of records
             that name a schema, and the columns are those of the newest one (json_types.py) if none are named
    avro     the type of an Avro schema (avro_rows.py): inline, from a file, or from a schema registry
    protobuf the type of a message (protobuf_rows.py) of such a schema

1. A null stays NULL in every format: a tombstone is no bad record.
2. A record that is not of its format is bad. badRecords=fail (the default) raises BadRecord, which names its place;
   badRecords=null makes the column NULL in that row and logs once per batch how many there were.
3. The type of a column is fixed when the query is planned: the schema that readers shall use goes along with the
   column, in the metadata of its field, from the planning through Spark to the tasks. So a new version in the registry
   does not change a running query. Writers' schemas are looked up when they are met.
4. Columns are decoded whole: the fast ways of Arrow where they give the same answer, else value by value.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple
from ottla.schemas.framing import FRAME_BYTES
from ottla.spark.formats.ddl import as_nullable, parse_schema
from ottla.spark.formats.quick_json import QUICK_JSON, QuickJson
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
MAGIC_BYTE: Final = b"\0"


class BadRecord(OttlaError):
    """A record is not of its format. Mend or skip it, read it with another schema or as binary, or let it become NULL
    (badRecords=null)."""


class Decoded(NamedTuple):
    """A column in its format, and why some of its rows are not: their values are null."""

    column: pyarrow.Array
    problems: dict[int, str]


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
            from ottla.spark.formats.protobuf_rows import planned_schema, planned_type

            planned = planned_schema(options, side)
            return StructField(side, planned_type(planned), True, {PLANNED_SCHEMA: planned})
        case _:
            from ottla.spark.formats.avro_rows import reader_schema, spark_type

            text = reader_schema(options, side)
            return StructField(side, spark_type(text), True, {PLANNED_SCHEMA: text})


def _json_field(options: SourceOptions, side: Side) -> StructField:
    text = schema_text(options, side)
    if text or options.schema_registry_url is None:
        return StructField(side, as_nullable(parse_schema(_needed_schema(options, side))))
    from ottla.spark.formats.json_types import registered_type

    kind = registered_type(options, side)
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


def schema_text(options: SourceOptions, side: Side) -> str | None:
    """What keySchema or valueSchema says."""
    return options.key_schema if side == "key" else options.value_schema


def message_name(options: SourceOptions, side: Side) -> str | None:
    """What keyMessage or valueMessage says."""
    return options.key_message if side == "key" else options.value_message


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
        fields = [pa.field(each.name, pa.binary()) if each.name in self._decoders else each for each in schema]
        if self._quick is not None:
            fields = [each for each in fields if each.name != QUICK_JSON]
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


def _decoder(options: SourceOptions, side: Side, kind: Any) -> Decode:
    match _format(options, side):
        case "string":
            return decode_text
        case "json":
            from ottla.spark.formats.json_rows import JsonRows

            rows = JsonRows(parse_schema(_needed_schema(options, side)), kind)
            if options.schema_registry_url is None:
                return rows.decode
            return lambda column: rows.decode(without_frames(column))
        case "protobuf":
            from ottla.spark.formats.protobuf_rows import ProtobufRows

            return ProtobufRows.for_side(options, side, kind).decode
        case _:
            from ottla.spark.formats.avro_rows import AvroRows

            return AvroRows.for_side(options, side, kind).decode


def without_frames(column: pyarrow.Array) -> pyarrow.Array:
    """The same values without the five bytes that name a schema: no JSON begins with a zero byte."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.any(pc.starts_with(column, pattern=MAGIC_BYTE)).as_py():
        return column
    values = column.to_pylist()
    return pa.array([each[FRAME_BYTES:] if each and each[:1] == MAGIC_BYTE else each for each in values], pa.binary())


def decode_text(column: pyarrow.Array) -> Decoded:
    """Bytes as text: the same memory when all of it is UTF-8."""
    import pyarrow as pa

    try:
        return Decoded(column.cast(pa.string()), {})
    except pa.ArrowInvalid:
        pass
    return decode_each(column, pa.string(), _text)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from None


def decode_each(column: pyarrow.Array, kind: pyarrow.DataType, read: Callable[[bytes], Any]) -> Decoded:
    """Value by value; the ValueError of `read` says why one is bad."""
    import pyarrow as pa

    found: list[Any] = []
    problems: dict[int, str] = {}
    for row, content in enumerate(column.to_pylist()):
        try:
            found.append(None if content is None else read(content))
        except ValueError as error:
            found.append(None)
            problems[row] = str(error)
    return Decoded(pa.array(found, type=kind), problems)
