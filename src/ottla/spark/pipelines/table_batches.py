"""A table in a catalog (Delta, Iceberg) as the result of a flow: rows replace what their key had.

    update      MERGE INTO the table: the last row of each key in the batch updates, inserts or deletes
    complete    the whole table is overwritten, in one commit of its format

1. Both give the same table however often a batch is tried: a row of a batch that is repeated replaces itself. So no
   number of the batch has to be kept.
2. A table that is not there is made, with the columns of the first batch.
3. Rows that are only appended need nothing of this: Spark's own sinks of these formats write a batch once, because they
   keep its number in the table's log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.expectations import quoted
from ottla.spark.pipelines.latest_rows import latest_of_keys
from ottla.spark.pipelines.operations import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BATCH: Final = "ottla_batch_of_{}"
_DELETED: Final = "_ottla_is_deleted"


@dataclass(frozen=True, slots=True)
class TableBatches:
    """Writes the batches of one flow."""

    flow: str
    target: Target

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions

        batch, table, spark = self.target.batch, str(self.target.table), rows.sparkSession
        assert batch is not None, "the plan says so"
        latest = latest_of_keys(rows, [f"`{name}`" for name in batch.key], batch.order)
        columns = latest.drop(*batch.without)
        source = _BATCH.format(self.flow)
        columns.createOrReplaceTempView(source)
        spark.sql(create(self.target, source))
        if self.target.mode == "complete":
            columns.writeTo(table).overwrite(functions.lit(True))
            return
        deleted = f"coalesce(({batch.delete}), false)" if batch.delete is not None else "false"
        latest.selectExpr("*", f"{deleted} AS {_DELETED}").drop(*batch.without).createOrReplaceTempView(source)
        spark.sql(merge(table, source, batch.key, deletes=batch.delete is not None))


def create(target: Target, source: str) -> str:
    """SQL that makes a table with the columns of a view, unless it is there."""
    lines = [f"CREATE TABLE IF NOT EXISTS {target.table} USING {target.format}"]
    if target.partition_by:
        lines.append(f"PARTITIONED BY ({', '.join(f'`{name}`' for name in target.partition_by)})")
    if target.options:
        properties = (f"{quoted(name)} = {quoted(value)}" for name, value in target.options.items())
        lines.append(f"TBLPROPERTIES ({', '.join(properties)})")
    return "\n".join([*lines, f"AS SELECT * FROM {source} WHERE false"])


def merge(table: str, source: str, key: tuple[str, ...], *, deletes: bool) -> str:
    """SQL that brings the rows of a view into a table by their key."""
    same = " AND ".join(f"t.`{name}` = s.`{name}`" for name in key)
    lines = [f"MERGE INTO {table} t USING {source} s ON {same}"]
    if deletes:
        lines.append(f"WHEN MATCHED AND s.{_DELETED} THEN DELETE")
    lines += ["WHEN MATCHED THEN UPDATE SET *", f"WHEN NOT MATCHED AND NOT s.{_DELETED} THEN INSERT *"]
    return "\n".join(lines)
