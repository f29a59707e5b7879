"""Records become rows: keys and values by their modes, and a reason for each record that is no row.

    decoder = RecordDecoder("clicks", settings, registry)
    decoder.begin(table_schema)         # what the table has now; asks the registry for what is new
    rows = decoder.decode(batch)        # READ_SCHEMA in, Rows out: a batch of the table's columns, and bad records

    mode            what decodes, and what a new column comes from
    raw, string     nothing, UTF-8
    json            objects without a schema: json_fields.py
    schema_latest   all records by the newest schema of <topic>-value: a column that it does not have stays null
    schema_id       each record by the schema that it names: columns of all schemas stand side by side

1. No object for a record; only one that is bad, or new, is looked at alone.
2. A schema that has no columns, or whose columns do not go with those of the others, makes the records bad that name
   it: they are dead letters with that reason, and the rest goes on.
3. A registry that does not answer is a failure of this moment, not of the records: it is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.schema_registry.registry import SchemaNotFound, SchemaRegistry
from ottla.client.schema_registry.writers import WriterSchemas, whole_schema
from ottla.errors import InvalidSetting
from ottla.light_tuples import NamedTuple
from ottla.schemas.arrow.avro_rows import AvroRows, in_one
from ottla.schemas.arrow.avro_types import UnreadableAvroSchema
from ottla.schemas.arrow.avro_types import arrow_type as avro_type
from ottla.schemas.arrow.decoded import Decoded, decode_text
from ottla.schemas.arrow.evolution import Evolution, Unfit, evolution, fitted
from ottla.schemas.arrow.json_rows import JsonRows
from ottla.schemas.arrow.json_types import UnreadableJsonSchema, struct_of
from ottla.schemas.arrow.json_values import NotInJson
from ottla.schemas.arrow.protobuf_rows import ProtobufRows, message_of
from ottla.schemas.arrow.protobuf_types import UnreadableProtobufSchema
from ottla.schemas.arrow.protobuf_types import arrow_type as protobuf_type
from ottla.schemas.framing import FRAME_BYTES, MAGIC, UnframedRecord
from ottla.schemas.model import AVRO, JSON, SchemaText, WholeSchema
from ottla.table_settings import JSON as JSON_MODE
from ottla.table_settings import RAW, SCHEMA_LATEST, STRING, TableSettings
from ottla.tables.columns import (
    BASE_SCHEMA,
    READ_SCHEMA,
    Columns,
    columns_of_value,
    plain_array,
    plain_schema,
    schema_of,
)
from ottla.tables.finding import KEY, OFFSET, PARTITION, VALUE, field_of
from ottla.tables.json_fields import InferredJson

SCHEMAS_MAX: Final = 1_000
"""So many schemas are kept ready; with more of them all are looked up anew."""
UNREADABLE: Final = (UnreadableAvroSchema, UnreadableJsonSchema, UnreadableProtobufSchema, NotInJson)


class BadRecord(NamedTuple):
    """A record that is no row, where it is in its batch, and why."""

    row: int
    partition: int
    offset: int
    reason: str


class Rows(NamedTuple):
    """Rows as the table is to have them, and what is none of them."""

    batch: pa.RecordBatch
    bad: tuple[BadRecord, ...]

    def row_of(self, place: int) -> int:
        """Where a row of the batch stood among the records."""
        for row in sorted(each.row for each in self.bad):
            place += row <= place
        return place


class Reader(Protocol):
    """Decodes a column of bytes."""

    def decode(self, column: pa.Array) -> Decoded: ...


class Part(NamedTuple):
    """Some rows of a column, and the columns that they became."""

    rows: pa.Array | None
    columns: Columns
    problems: Mapping[int, str]


class RecordDecoder:
    """Decodes the records of one topic."""

    def __init__(self, topic: str, settings: TableSettings, registry: SchemaRegistry | None) -> None:
        self._key = _side(f"{topic}-key", settings.ottla_table_key_mode, registry, _columns_of_key)
        self._value = _side(f"{topic}-value", settings.ottla_table_mode, registry, columns_of_value)

    def begin(self, known: pa.Schema | None) -> None:
        """The columns that the table has, before records are decoded."""
        fields = list(known) if known is not None else []
        self._key.begin(pa.schema([field for field in fields if field.name == KEY]))
        of_value = [field for field in fields if field.name == VALUE or field_of(field.name) is not None]
        self._value.begin(pa.schema(of_value))

    def empty(self) -> pa.Schema:
        """The columns that are known without a record."""
        return self.decode(pa.RecordBatch.from_pylist([], schema=READ_SCHEMA)).batch.schema

    def decode(self, batch: pa.RecordBatch) -> Rows:
        """The rows of a batch, in its order."""
        keys, bad_keys = _assembled(self._key.parts(batch.column(KEY)), batch.num_rows)
        values, bad_values = _assembled(self._value.parts(batch.column(VALUE)), batch.num_rows)
        reasons = {row: f"its key: {reason}" for row, reason in bad_keys.items()} | bad_values
        columns = {name: batch.column(name) for name in BASE_SCHEMA.names} | keys | values
        rows = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema_of(columns))
        if not reasons:
            return Rows(rows, ())
        bad = tuple(
            BadRecord(row, batch.column(PARTITION)[row].as_py(), batch.column(OFFSET)[row].as_py(), reasons[row])
            for row in sorted(reasons)
        )
        mask = pa.array([row not in reasons for row in range(batch.num_rows)])
        return Rows(rows.filter(mask), bad)


def _columns_of_key(array: pa.Array) -> Columns:
    return {KEY: array}


def _side(
    subject: str, mode: str, registry: SchemaRegistry | None, columns: Callable[[pa.Array], Columns]
) -> _Plain | _Inferred | _Latest | _ById:
    """What decodes keys or values."""
    if mode in (RAW, STRING):
        return _Plain(mode, columns)
    if mode == JSON_MODE:
        return _Inferred(columns)
    if registry is None:
        raise InvalidSetting(
            f"the mode {mode} reads schemas from a registry: name it with --schema-registry http://host:8081"
        )
    return _Latest(subject, registry, columns) if mode == SCHEMA_LATEST else _ById(registry, columns)


class _Plain:
    """Bytes, or text."""

    def __init__(self, mode: str, columns: Callable[[pa.Array], Columns]) -> None:
        self._is_text = mode == STRING
        self._columns = columns

    def begin(self, known: pa.Schema) -> None:
        """There is one column, whatever the table has."""

    def parts(self, column: pa.Array) -> list[Part]:
        found = decode_text(column) if self._is_text else Decoded(column, {})
        return [Part(None, self._columns(found.column), found.problems)]


class _Inferred:
    """JSON whose fields are found."""

    def __init__(self, columns: Callable[[pa.Array], Columns]) -> None:
        self._columns = columns
        self._json = InferredJson(pa.struct([]))

    def begin(self, known: pa.Schema) -> None:
        if self._columns is _columns_of_key:
            kinds = [field.type for field in known if pa.types.is_struct(field.type)]
            self._json = InferredJson(kinds[0] if kinds else pa.struct([]))
        else:
            names = [(field_of(field.name), field.type) for field in known]
            self._json = InferredJson(pa.struct([(name, kind) for name, kind in names if name is not None]))

    def parts(self, column: pa.Array) -> list[Part]:
        return [_part(None, self._json, column, self._columns)]


class _Latest:
    """All records by the newest schema."""

    def __init__(self, subject: str, registry: SchemaRegistry, columns: Callable[[pa.Array], Columns]) -> None:
        self._subject = subject
        self._registry = registry
        self._columns = columns
        self._id: int | None = None
        self._reader: Reader | str = ""

    def begin(self, known: pa.Schema) -> None:
        try:
            schema_id, schema = self._registry.latest(self._subject)
        except SchemaNotFound as error:
            raise SchemaNotFound(
                f"the registry has no schema of {self._subject}, which ottla.table.mode=schema_latest reads by: "
                f"{error.detail}"
            ) from None
        if schema_id != self._id:
            named = WriterSchemas(self._registry, schema.kind).named
            self._id, self._reader = schema_id, _reader(schema, self._registry, named)

    def parts(self, column: pa.Array) -> list[Part]:
        if isinstance(self._reader, str):
            return [_unread(None, column, f"its newest schema cannot be read: {self._reader}")]
        return [_part(None, self._reader, column, self._columns)]


class _ById:
    """Each record by the schema that it names."""

    def __init__(self, registry: SchemaRegistry, columns: Callable[[pa.Array], Columns]) -> None:
        self._registry = registry
        self._columns = columns
        self._readers: dict[int, Reader | str] = {}
        self._known = pa.schema([])

    def begin(self, known: pa.Schema) -> None:
        self._known = known

    def parts(self, column: pa.Array) -> list[Part]:
        is_framed = pc.and_(
            pc.starts_with(column, pattern=bytes([MAGIC])), pc.greater_equal(pc.binary_length(column), FRAME_BYTES)
        )
        names = pc.if_else(is_framed, pc.binary_slice(column, 1, FRAME_BYTES), None)
        unframed = pc.indices_nonzero(pc.and_(column.is_valid(), pc.invert(pc.fill_null(is_framed, False))))
        parts = [_unread(unframed, column, "it does not begin with the id of a schema")] if len(unframed) else []
        for name in pc.unique(names).drop_null().to_pylist():
            rows = pc.indices_nonzero(pc.fill_null(pc.equal(names, name), False))
            parts.append(self._part(int.from_bytes(name, "big"), rows, column))
        return parts

    def _part(self, schema_id: int, rows: pa.Array, column: pa.Array) -> Part:
        reader = self._reader(schema_id)
        if isinstance(reader, str):
            return _unread(rows, column, reader)
        part = _part(rows, reader, column.take(rows), self._columns)
        change = evolution(self._known, schema_of(part.columns))
        if isinstance(change, Unfit):
            return _unread(rows, column, f"it names schema {schema_id}, which does not fit: {change.reason}")
        self._known = change.schema
        return part

    def _reader(self, schema_id: int) -> Reader | str:
        if schema_id not in self._readers:
            if len(self._readers) >= SCHEMAS_MAX:
                self._readers.clear()
            self._readers[schema_id] = self._made(schema_id)
        return self._readers[schema_id]

    def _made(self, schema_id: int) -> Reader | str:
        try:
            schema = self._registry.schema(schema_id)
        except SchemaNotFound as error:
            return f"it names a schema that is not there: {error.detail}"
        whole = whole_schema(self._registry, schema)
        made = _reader(schema, self._registry, lambda _: whole)
        return f"it names schema {schema_id}, which cannot be read: {made}" if isinstance(made, str) else made


def _reader(schema: SchemaText, registry: SchemaRegistry, named: Callable[[int], WholeSchema]) -> Reader | str:
    """What reads into the columns of this schema, or why nothing can."""
    whole = whole_schema(registry, schema)
    try:
        if schema.kind == AVRO:
            text = in_one(whole)
            return AvroRows(text, avro_type(text, unions_as_structs=True), named)
        if schema.kind == JSON:
            return JsonRows(struct_of(whole.text, whole.imports), framed=True)
        message = message_of(whole, None)
        return ProtobufRows(message, protobuf_type(message), named)
    except UNREADABLE as unreadable:
        return str(unreadable)


# -- parts -------------------------------------------------------------------------------------------------------------


def _part(rows: pa.Array | None, reader: Reader, column: pa.Array, columns: Callable[[pa.Array], Columns]) -> Part:
    """What a reader makes of a column, in the types of tables."""
    try:
        found = reader.decode(column)
    except UnframedRecord as error:
        return Part(rows, {}, dict.fromkeys(range(len(column)), str(error)))
    made = columns(found.column)
    plain = plain_schema(schema_of(made))
    if isinstance(plain, Unfit):
        return Part(rows, {}, dict.fromkeys(range(len(column)), plain.reason))
    return Part(rows, {field.name: plain_array(made[field.name], field.type) for field in plain}, found.problems)


def _unread(rows: pa.Array | None, column: pa.Array, reason: str) -> Part:
    """Rows that nothing reads; a null is no bad record."""
    chosen = column if rows is None else column.take(rows)
    return Part(rows, {}, {row: reason for row, is_there in enumerate(chosen.is_valid().to_pylist()) if is_there})


def _assembled(parts: list[Part], count: int) -> tuple[Columns, dict[int, str]]:
    """The columns of all parts side by side, in the order of the rows; and the reasons by row."""
    if len(parts) == 1 and parts[0].rows is None:
        return parts[0].columns, dict(parts[0].problems)
    schema = pa.schema([])
    problems: dict[int, str] = {}
    for part in parts:
        assert part.rows is not None, "parts of a column name their rows"
        rows = part.rows.to_pylist() if part.problems else []
        problems |= {rows[row]: reason for row, reason in part.problems.items()}
        change = evolution(schema, schema_of(part.columns))
        assert isinstance(change, Evolution), "who makes parts sees to it that they go together"
        schema = change.schema
    kept = [part for part in parts if part.columns]
    places = _places([part.rows for part in kept if part.rows is not None], count)
    columns: Columns = {}
    batches = [fitted(_batch(part.columns), schema) for part in kept]
    for field in schema:
        whole = pa.concat_arrays([batch.column(field.name) for batch in batches])
        columns[field.name] = whole.take(places)
    return columns, problems


def _batch(columns: Columns) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema_of(columns))


def _places(rows: list[pa.Array], count: int) -> pa.Array:
    """For each row, where it stands behind one another; null where it stands nowhere."""
    if not rows:
        return pa.nulls(count, pa.int64())
    order = pa.concat_arrays(rows).cast(pa.int64())
    sorted_ = pc.array_sort_indices(order).cast(pa.int64())
    if len(order) == count:
        return sorted_
    return pc.index_in(pa.array(range(count), pa.int64()), value_set=order).cast(pa.int64())
