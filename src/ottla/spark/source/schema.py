"""The rows that the source gives: the columns of Spark's Kafka connector, and keys and values in the format asked for.

    key            binary, or what keyFormat makes of it
    value          binary, or what valueFormat makes of it
    topic          string
    partition      int
    offset         long
    timestamp      timestamp
    timestampType  int: 0 is the time of creation, 1 that of the append
    headers        array<struct<key string, value binary>>, with includeHeaders; NULL where a record has none
    quickJson      struct of the columns of quickJson, with that option (formats/quick_json.py)

1. Every column may be NULL, as Spark declares it; only key, value and headers are.
2. Spark checks the Arrow schema of a batch word for word against its own (order, names, nullability, units), so it is
   made by Spark's own conversion, with UTC.
3. A user's schema chooses columns and their order, nothing else: Spark has no other means to leave columns
   out for a source in Python, and what is left out is not even decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.errors import OttlaError
from ottla.spark.formats.formats import as_planned, column_field
from ottla.spark.formats.quick_json import quick_field
from ottla.spark.running.arrow_types import as_arrow

if TYPE_CHECKING:
    import pyarrow

    from ottla.spark.source.options import SourceOptions

HEADERS_TYPE: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())]), containsNull=True
)


class SchemaMismatch(OttlaError):
    """The schema of the query asks for what the rows do not have. It may leave columns out and change their order,
    but not their names and types; cast columns in the query, or say keyFormat and valueFormat."""


def row_schema(options: SourceOptions) -> StructType:
    """The columns of one row."""
    fields = [
        column_field(options, "key"),
        column_field(options, "value"),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if options.include_headers:
        fields.append(StructField("headers", HEADERS_TYPE))
    if options.quick_json is not None:
        fields.append(quick_field(options.quick_json))
    return StructType(fields)


def arrow_schema(options: SourceOptions) -> pyarrow.Schema:
    """The same as Arrow has it."""
    return as_arrow(row_schema(options))


def chosen_columns(options: SourceOptions, asked: StructType) -> pyarrow.Schema:
    """The Arrow schema for the columns that the user's schema asks for; SchemaMismatch when it asks for others."""
    have = {field.name: field.dataType for field in row_schema(as_planned(options, asked))}
    if not asked.fields:
        raise SchemaMismatch("it has no column")
    for field in asked.fields:
        if field.name not in have:
            hint = "; say includeHeaders=true for headers" if field.name == "headers" else ""
            raise SchemaMismatch(f"there is no column {field.name!r}, there are {', '.join(have)}{hint}")
        if _plain(field.dataType.simpleString()) != _plain(have[field.name].simpleString()):
            raise SchemaMismatch(
                f"column {field.name!r} is {have[field.name].simpleString()}, not {field.dataType.simpleString()}"
            )
    names = [field.name for field in asked.fields]
    if len(set(names)) < len(names):
        raise SchemaMismatch("it names a column twice")
    return as_arrow(asked)


def _plain(simple: str) -> str:
    return simple.replace(" ", "").lower()
