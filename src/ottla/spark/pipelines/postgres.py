"""What is said to PostgreSQL for one batch, as SQL: nothing here has a connection.

    mark      the batch's number goes into the marker table, unless it or a later one is there: then nothing is written
    stage     the rows come into a table that ends with the transaction
    merge     what is deleted goes, the others are inserted or replace what their key had

1. All of it is one transaction, so number and rows are there together or not at all. Two who write the same batch meet
   at the row of the marker: the second waits, sees the number, and writes nothing.
2. A table that is not there is made, with the key as its primary key. One that is there must have a unique index on the
   key's columns, else PostgreSQL refuses ON CONFLICT.
3. Values of which PostgreSQL has no equal (structs, maps, arrays of them) go as JSON. A time is a timestamptz.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.light_dataclasses import dataclass

MARKERS: Final = "ottla_batches"
STAGED: Final = "ottla_staged"
DELETED: Final = "_ottla_deleted"
# Of the server's end of our connection: a driver that vanished holds its locks for less than two minutes.
SETTINGS: Final = (
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 6",
)
_TYPES: Final = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "boolean": "boolean",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


def quoted_name(name: str) -> str:
    """An identifier as it is written; a table may have a schema before a dot."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def quoted_column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its columns, each with its type in Spark, and those of its key."""

    name: str
    columns: Sequence[tuple[str, str]]
    key: Sequence[str] = ()

    @property
    def markers(self) -> str:
        """The marker table: in the same schema, where who may write one may probably write the other."""
        schema, dot, _ = self.name.rpartition(".")
        return f"{schema}{dot}{MARKERS}"

    def create(self) -> str:
        columns = [f"{quoted_column(name)} {column_type(kind)}" for name, kind in self.columns]
        if self.key:
            columns.append(f"PRIMARY KEY ({_list(self.key)})")
        return f"CREATE TABLE {quoted_name(self.name)} ({', '.join(columns)})"

    def create_markers(self) -> str:
        return f"CREATE TABLE {quoted_name(self.markers)} (flow text PRIMARY KEY, batch bigint NOT NULL)"

    def mark(self) -> str:
        """Parameters: flow and number. It returns a row when the batch is to be written."""
        into = quoted_name(self.markers)
        return (
            f"INSERT INTO {into} AS known (flow, batch) VALUES (%s, %s) ON CONFLICT (flow) "
            "DO UPDATE SET batch = excluded.batch WHERE known.batch < excluded.batch RETURNING batch"
        )

    def stage(self) -> str:
        columns = [f"{quoted_column(name)} {column_type(kind)}" for name, kind in self.columns]
        return f"CREATE TEMPORARY TABLE {STAGED} ({', '.join([*columns, f'{DELETED} boolean'])}) ON COMMIT DROP"

    def copy(self) -> str:
        """Of rows with their last column, whether they are deletions."""
        names = [name for name, _ in self.columns]
        return f"COPY {STAGED} ({_list([*names, DELETED])}) FROM STDIN"

    def merge(self, mode: str) -> list[str]:
        """From the staged rows to the table."""
        table, names = quoted_name(self.name), [name for name, _ in self.columns]
        insert = f"INSERT INTO {table} AS kept ({_list(names)}) SELECT {_list(names)} FROM {STAGED} WHERE NOT {DELETED}"
        if mode == "append":
            return [insert]
        same_key = " AND ".join(f"{STAGED}.{quoted_column(name)} = {table}.{quoted_column(name)}" for name in self.key)
        if mode == "complete":
            gone = f"DELETE FROM {table} WHERE NOT EXISTS (SELECT FROM {STAGED} WHERE {same_key})"
        else:
            gone = f"DELETE FROM {table} USING {STAGED} WHERE {DELETED} AND {same_key}"
        return [gone, f"{insert} ON CONFLICT ({_list(self.key)}) {self._replace(names)}"]

    def _replace(self, names: Sequence[str]) -> str:
        others = [quoted_column(name) for name in names if name not in self.key]
        if not others:
            return "DO NOTHING"
        changed = f"({', '.join(f'kept.{name}' for name in others)})"
        new = f"({', '.join(f'excluded.{name}' for name in others)})"
        sets = ", ".join(f"{name} = excluded.{name}" for name in others)
        return f"DO UPDATE SET {sets} WHERE {changed} IS DISTINCT FROM {new}"


def column_type(kind: str) -> str:
    """The type of a column, by its type in Spark."""
    if kind.startswith("decimal"):
        return kind.replace("decimal", "numeric")
    if kind.startswith("array<") and (inner := _TYPES.get(kind[6:-1], "text" if kind == "array<string>" else "")):
        return f"{inner}[]"
    return "jsonb" if is_json(kind) else _TYPES.get(kind, "text")


def is_json(kind: str) -> bool:
    """Whether values of this type go as JSON."""
    if kind.startswith("array<"):
        return kind != "array<string>" and kind[6:-1] not in _TYPES
    return kind.startswith(("struct<", "map<")) or kind == "variant"


def selected(table: Table, delete: str | None) -> list[str]:
    """SQL for the columns as they are sent, and whether a row is a deletion."""
    made = []
    for name, kind in table.columns:
        column = "`" + name.replace("`", "``") + "`"
        made.append(f"{_sent(column, kind)} AS {column}")
    return [*made, f"coalesce(({delete}), false) AS {DELETED}" if delete is not None else f"false AS {DELETED}"]


def _sent(column: str, kind: str) -> str:
    if is_json(kind):
        return f"to_json({column})"
    if kind == "timestamp":
        # With its distance from Greenwich: what Python gets of Spark has lost it.
        return f"date_format({column}, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\")"
    return column if kind in _TYPES or kind.startswith(("decimal", "array<")) else f"CAST({column} AS STRING)"


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted_column, names))
