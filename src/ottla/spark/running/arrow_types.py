"""Columns of Spark as columns of Arrow and back, with every PySpark from 4.0 on.

PySpark 4.2 and later keep the metadata of a column in Arrow and want to know the time zone; 4.0 and 4.1 drop the
metadata and always take UTC. Our metadata (the Avro schema that a query was planned with) must reach the tasks with all
of them, so it is put where the later ones have it.
"""

from __future__ import annotations

import inspect
import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import DataType, StructType

METADATA: Final = b"SPARK::metadata::json"


def as_arrow(schema: StructType) -> pyarrow.Schema:
    """What Spark wants the batches of this schema to have, to the letter."""
    if _keeps_metadata():
        return to_arrow_schema(schema, timezone="UTC")
    return with_metadata(to_arrow_schema(schema), schema)


def from_arrow(kind: pyarrow.DataType) -> DataType:
    """What a type of Arrow is in Spark; a time without a zone is a TIMESTAMP_NTZ."""
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def with_metadata(converted: pyarrow.Schema, schema: StructType) -> pyarrow.Schema:
    """The columns of the one with the metadata of the other."""
    import pyarrow as pa

    fields = zip(converted, schema.fields, strict=True)
    return pa.schema([arrow.with_metadata(_packed(field.metadata)) for arrow, field in fields])


def metadata_of(field: pyarrow.Field) -> dict[str, Any]:
    """The metadata that the column has in Spark."""
    found: dict[str, Any] = json.loads((field.metadata or {}).get(METADATA, b"{}"))
    return found


def _packed(metadata: dict[str, Any] | None) -> dict[bytes, bytes] | None:
    return {METADATA: json.dumps(metadata).encode()} if metadata else None


@cache
def _keeps_metadata() -> bool:
    return "timezone" in inspect.signature(to_arrow_schema).parameters
