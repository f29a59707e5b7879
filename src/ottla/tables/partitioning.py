"""Rows by the parts of a table: which rows go into one file together, and what the parts are called.

1. Buckets are Iceberg's: murmur3 of the value, in both formats, so that a table of one can be compared with the other.
2. Delta knows partition columns only: day(timestamp) is a column timestamp_day with the date, bucket(16, key) a column
   key_bucket with the number, in the rows for everybody to read. Iceberg keeps what it transforms to itself.
3. Rows keep their order within a part. A portion with more than PARTS_MAX parts is refused: it would be as many files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from ottla.light_tuples import NamedTuple
from ottla.table_settings import BUCKET, IDENTITY, PartitionField
from ottla.tables.formats import TableRefused

PARTS_MAX: Final = 1_000
WHOLE: Final = (pa.bool_(), pa.int32(), pa.int64(), pa.string(), pa.date32())
HASHED: Final = (pa.int32(), pa.int64(), pa.string(), pa.binary(), pa.date32(), pa.timestamp("us", tz="UTC"))
TIMES: Final = (pa.timestamp("us", tz="UTC"), pa.timestamp("us"))


class Part(NamedTuple):
    """Rows with the same values of all partition fields; the values as Python has them."""

    values: tuple[Any, ...]
    rows: pa.Table


def column_name(field: PartitionField) -> str:
    """What a field is called in the table."""
    return field.column if field.transform == IDENTITY else f"{field.column}_{field.transform}"


def check_field(field: PartitionField, schema: pa.Schema) -> None:
    """TableRefused when a table with these columns cannot be partitioned so."""
    if field.column not in schema.names:
        raise TableRefused(
            f"ottla.table.partition.by names {field.column}, and the table is to have the columns "
            f"{', '.join(schema.names)}: name one of these"
        )
    kind = schema.field(field.column).type
    possible: tuple[pa.DataType, ...]
    if field.transform == IDENTITY:
        possible = WHOLE
    elif field.transform == BUCKET:
        possible = HASHED
    else:
        possible = (*TIMES, pa.date32()) if field.transform != "hour" else TIMES
    if kind not in possible:
        names = ", ".join(map(str, possible))
        raise TableRefused(f"ottla.table.partition.by={field}: {field.column} is {kind}, and that is for {names}")


def transformed(column: pa.ChunkedArray, field: PartitionField) -> pa.Array:
    """The values of a partition field, one for each row."""
    from pyiceberg_core import transform

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if field.transform == IDENTITY:
        return whole
    if field.transform == BUCKET:
        return transform.bucket(whole, field.buckets)
    return getattr(transform, field.transform)(whole)


def parts(rows: pa.Table, fields: Sequence[PartitionField]) -> Iterator[Part]:
    """The rows, part by part."""
    if not fields:
        yield Part((), rows)
        return
    columns = [transformed(rows.column(field.column), field) for field in fields]
    names = [f"f{number}" for number in range(len(fields))]
    keys = pa.table([*columns, pa.array(range(rows.num_rows), pa.int64())], names=[*names, "row"])
    groups = keys.group_by(names, use_threads=False).aggregate([("row", "list")])
    if groups.num_rows > PARTS_MAX:
        raise TableRefused(
            f"{rows.num_rows:,} records would be {groups.num_rows:,} files by ottla.table.partition.by: choose "
            "what has fewer values, or buckets of it"
        )
    for group in range(groups.num_rows):
        values = tuple(groups.column(name)[group].as_py() for name in names)
        chosen = groups.column("row_list")[group].values
        yield Part(values, rows.take(chosen))
