"""Rows of a DataFrame as records: which columns there may be, and how an Arrow batch is sent.

    value       string or binary, must be there; NULL is a tombstone; with valueFormat other types (formats.py)
    key         string or binary; with keyFormat others
    topic       string; needed unless the option `topic` says it, which wins over the column
    partition   int; NULL leaves it to the key (murmur2, as every producer does)
    headers     array<struct<key: string, value: binary>>, unless includeHeaders is false
    timestamp   timestamp, with includeTimestamp only: the rows of a source have such a column and do not mean it

Other columns are passed over, as the JVM connector does, so that rows of a source can be written as they are. What is
wrong with the columns is an error before the first record; what is wrong with a row fails its task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.errors import OttlaError
from ottla.spark.sink.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import DataType, StructType

    from ottla.client.producer.producer import Producer

TEXT_OR_BYTES: Final = ("string", "binary")
HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"


class UnfitColumns(OttlaError):
    """The columns of the DataFrame cannot be written to a topic. Select and cast them:
    df.selectExpr("cast(id as string) as key", "to_json(struct(*)) as value")."""

    invalid_configuration = True


def chosen_columns(schema: StructType, options: SinkOptions) -> tuple[str, ...]:
    """The columns that are written; raises what is wrong with them."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise UnfitColumns(f"there is no column `value`; there are {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise UnfitColumns("there is neither an option `topic` nor a column `topic`, so it is not known where to write")
    wanted: dict[str, tuple[str, ...]] = {"value": TEXT_OR_BYTES, "key": TEXT_OR_BYTES, "partition": ("int",)}
    if options.topic is None:
        wanted["topic"] = ("string",)
    if options.include_headers:
        wanted["headers"] = (HEADERS_TYPE,)
    if options.include_timestamp:
        wanted["timestamp"] = ("timestamp",)
    for name, fitting in wanted.items():
        chosen = options.formats.get(name)
        if chosen is not None and chosen.name != "binary":
            _check_formatted(name, chosen.name, types)
        elif name in types and _type_name(types[name]) not in fitting:
            found = types[name].simpleString()
            raise UnfitColumns(f"column `{name}` is {found}, it must be {' or '.join(fitting)}")
    return tuple(name for name in types if name in wanted)


def _check_formatted(name: str, format_name: str, types: dict[str, DataType]) -> None:
    """A column that is written with a schema; only that decides whether its values fit."""
    if format_name == "protobuf" and name in types and not types[name].simpleString().startswith("struct<"):
        raise UnfitColumns(f"column `{name}` is {types[name].simpleString()}, and a message of protobuf is a struct")


def _type_name(found: DataType) -> str:
    """Spark's name of a type; texts of a fixed length or another collation are texts."""
    name = found.simpleString()
    return "string" if name.startswith(("string", "varchar(", "char(")) else name


class TaskRows:
    """The Arrow batches of one task; whether there are any is known before the first is sent."""

    def __init__(
        self, batches: Iterable[pyarrow.RecordBatch], columns: tuple[str, ...], options: SinkOptions | None = None
    ) -> None:
        self._options = options if options is not None and _has_formats(options) else None
        self._batches: Iterator[pyarrow.RecordBatch] = (each for each in batches if each.num_rows)
        self._columns = columns
        self._first = next(self._batches, None)
        self.row_count = 0

    @property
    def is_empty(self) -> bool:
        return self._first is None

    def send(self, producer: Producer, topic: str | None) -> None:
        """Hand all rows to the producer; its flush or its transaction reports failures."""
        for batch in self.batches():
            producer.send_arrow(topic, batch)

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """All rows, once, with the columns that are sent."""
        batch, self._first = self._first, None
        while batch is not None:
            yield self._encoded(batch.select(list(self._columns)))
            self.row_count += batch.num_rows
            batch = next(self._batches, None)

    def _encoded(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        if self._options is None:
            return batch
        from ottla.spark.sink.formats import encoded

        return encoded(batch, self._options)


def _has_formats(options: SinkOptions) -> bool:
    return any(each.name != "binary" for each in options.formats.values())
