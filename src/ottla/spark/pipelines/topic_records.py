"""From a row to a record of a topic: key, value and headers, as operations.

1. The value is all columns but those that say where a record came from, or the SQL of `value`; a row for which
   `delete` is true has none.
2. Formats of a registry are written by the sink (sink/formats.py): it gets the columns as they are. All others are
   bytes here already.
"""

from __future__ import annotations

from typing import Final

from ottla.spark.pipelines.definition import REGISTERED_FORMATS, Sink
from ottla.spark.pipelines.expectations import ORIGIN, headers
from ottla.spark.pipelines.operations import Operation, Pack, Select

_ROW: Final = "_ottla_row"
_IS_DELETED: Final = "_ottla_is_deleted"


def record_of(sink: Sink, without: tuple[str, ...] = ORIGIN) -> tuple[Operation, ...]:
    """A row as a record; the columns in `without` do not come into its value."""
    named = {
        "key": sink.key,
        "value": sink.value,
        "headers": headers(sink.headers) if sink.headers else None,
        _IS_DELETED: sink.delete,
    }
    beside = tuple(f"({sql}) AS {name}" for name, sql in named.items() if sql is not None)
    made = {"key": f"{_written('key', sink.key_format)} AS key", "headers": "headers"}
    kept = tuple(column for name, column in made.items() if named[name] is not None)
    column, form = ("value", sink.format or "string") if sink.value is not None else (_ROW, sink.format or "json")
    value = _written(column, form)
    if sink.delete is not None:
        value = f"IF({_IS_DELETED}, NULL, {value})"
    begin = Select(beside) if sink.value is not None else Pack(_ROW, without, beside)
    return (begin, Select((*kept, f"{value} AS value")))


def _written(column: str, name: str) -> str:
    """SQL for a key or value in its format."""
    if name in REGISTERED_FORMATS:
        return column
    if name == "json":
        return f"CAST(to_json({column}) AS BINARY)"
    # Text as UTF-8, bytes as they are, numbers as their digits (a plain CAST of a number would give its memory).
    return f"CAST(CAST({column} AS STRING) AS BINARY)"
