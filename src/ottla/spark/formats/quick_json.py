"""quickJson: what of JSON objects can be read at once, as Spark's from_json reads it; from_json is asked for the rest.

    coalesce(quickJson, from_json(CAST(value AS STRING), 'id BIGINT, user STRING'))

1. A value is there where its text is plain (schemas/arrow/json_columns.py): all readers of JSON agree about such a
   text, so it does not matter which of them reads it. Everything else is NULL here, also what is no JSON.
2. Types that a plain text has no meaning for (decimals, maps, times without a zone, ...) may stand in the schema: a
   text that has something for them is left to from_json.
3. CORRUPT_RECORD is NULL, as it is in Spark for good records; a text with a field of this name is left to from_json.
4. Where no native code was built everything is left to from_json, which is quicker than the readable twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructField, StructType

QUICK_JSON: Final = "quickJson"
CORRUPT_RECORD: Final = "_corrupt_record"


def quick_field(schema: str) -> StructField:
    """The column in Spark."""
    from pyspark.sql.types import StructField

    from ottla.spark.formats.ddl import as_nullable

    return StructField(QUICK_JSON, as_nullable(quick_type(schema)))


def quick_type(schema: str) -> StructType:
    """The columns of a schema; UnreadableSchema when there is none, or two have one name."""
    from ottla.spark.formats.ddl import UnreadableSchema, parse_schema

    found = parse_schema(schema)
    if len(set(found.names)) < len(found.names):
        raise UnreadableSchema("it names a column twice")
    return found


class QuickJson:
    """Reads columns of values; made once for a task."""

    def __init__(self, kind: pyarrow.StructType) -> None:
        from ottla.schemas.arrow.json_choice import IS_QUICK
        from ottla.schemas.arrow.json_rows import PlainJson

        self._kind = kind
        self._plain = PlainJson(kind, untouchable=CORRUPT_RECORD) if IS_QUICK else None

    def read(self, column: pyarrow.Array) -> pyarrow.Array:
        """A struct for each plain text, NULL for the others."""
        import pyarrow as pa

        return pa.nulls(len(column), self._kind) if self._plain is None else self._plain.read(column)
