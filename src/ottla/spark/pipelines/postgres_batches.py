"""A batch of rows into a table of PostgreSQL, exactly once: number and rows in one transaction (postgres.py).

1. The rows of a batch come to the driver, a partition at a time, and go on by COPY. What bounds a batch bounds this.
2. A batch that fails is rolled back by PostgreSQL, also when the driver dies. One whose commit was lost on the way is
   repeated by Spark and finds its number.
3. Where rows came from (_topic, _offset, ...) is no part of the table unless a step gives it another name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.batches import Checkpoint
from ottla.spark.pipelines.latest_rows import latest_of_keys
from ottla.spark.pipelines.operations import Target
from ottla.spark.pipelines.postgres import SETTINGS, Table, quoted_name, selected

if TYPE_CHECKING:
    from psycopg import Connection
    from pyspark.sql import DataFrame

CONNECT_LIMIT_S: Final = 30


class DatabaseDriverMissing(OttlaError):
    """PostgreSQL is written by psycopg. Install it where Spark's driver runs: pip install 'ottla[postgres]'."""


class TableUnfit(OttlaError):
    """The rows cannot be written into the table. Change the table, or the columns in a step."""


@dataclass(slots=True)
class PostgresBatches:
    """Writes the batches of one flow."""

    flow: str
    target: Target
    checkpoint: Checkpoint
    query_id: str | None = None

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        batch = self.target.batch
        assert batch is not None, "the plan says so"
        if self.query_id is None:
            self.query_id = self.checkpoint.query_id(rows)
        if self.target.mode != "append":
            rows = latest_of_keys(rows, [f"`{name}`" for name in batch.key], batch.order)
        fields = [field for field in rows.schema.fields if field.name not in batch.without]
        table = Table(
            self.target.options["table"],
            [(field.name, field.dataType.simpleString()) for field in fields],
            batch.key,
        )
        with connected(self.target.options) as connection:
            lines = rows.selectExpr(*selected(table, batch.delete)).toLocalIterator
            write(connection, table, self.target.mode, lines, f"{self.flow}-{self.query_id}", batch_id)


def connected(options: Mapping[str, str]) -> Connection[Any]:
    """A connection to the database of a sink; its transaction ends with it."""
    try:
        import psycopg
    except ImportError as error:
        raise DatabaseDriverMissing from error
    named: dict[str, Any] = {"connect_timeout": CONNECT_LIMIT_S, "application_name": "ottla"}
    named |= {name: value for name, value in options.items() if name not in ("url", "table")}
    return psycopg.connect(options["url"].removeprefix("jdbc:"), **named)


def write(
    connection: Connection[Any],
    table: Table,
    mode: str,
    lines: Callable[[], Iterable[Sequence[Any]]],
    flow: str,
    batch_id: int,
) -> None:
    """One batch, if it is not there yet; only then the lines are asked for. The last of a line says: is it deleted?"""
    import psycopg

    try:
        with connection.cursor() as cursor:
            for setting in SETTINGS:
                cursor.execute(setting)
            _create(connection, table.markers, table.create_markers())
            _create(connection, table.name, table.create())
            if cursor.execute(_text(table.mark()), (flow, batch_id)).fetchone() is None:
                connection.rollback()
                return
            cursor.execute(_text(table.stage()))
            with cursor.copy(_text(table.copy())) as copy:
                for line in lines():
                    copy.write_row(_plain(line))
            for statement in table.merge(mode):
                cursor.execute(_text(statement))
        connection.commit()
    except (psycopg.errors.ProgrammingError, psycopg.errors.DataError, psycopg.errors.IntegrityError) as error:
        raise TableUnfit(f"table {table.name}: {error}".strip()) from error


def _create(connection: Connection[Any], name: str, statement: str) -> None:
    """Make a table if it is not there; somebody else may make it at the same time."""
    import psycopg

    with connection.cursor() as cursor:
        row = cursor.execute("SELECT to_regclass(%s) IS NOT NULL", (quoted_name(name),)).fetchone()
        if row is not None and row[0]:
            return
        try:
            with connection.transaction():
                cursor.execute(_text(statement))
        except (psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation):
            return


def _plain(line: Sequence[Any]) -> list[Any]:
    return [bytes(value) if isinstance(value, bytearray) else value for value in line]


def _text(statement: str) -> bytes:
    """psycopg wants to be sure that nobody puts values into SQL; these have names only, quoted by us."""
    return statement.encode()
