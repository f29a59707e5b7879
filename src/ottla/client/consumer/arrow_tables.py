"""Fetched batches as Arrow tables: topic, partition, and the columns of their records, those that are wanted.

Whole batches go from the bytes of the answer into Arrow's memory without an object per record. pyarrow is loaded by
the first call. Keys and values are bytes: deserializers are for records, not for columns.

1. A RowShape is made of a schema and kept: names, types and units are looked up once. It knows the names of
   records/arrow.py, and topic (string, or a dictionary of strings) and partition (int32).
2. A column that says the same in every row is made once, in some length, and cut to the length that is needed.
3. Rows gathers what one call decodes. With `ends` it leaves out what lies at or behind the end of a partition.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.client.consumer.record_choice import ConsumerRecord, FetchedRecords
from ottla.client.consumer.records import Span
from ottla.errors import CorruptMessage
from ottla.values import TopicPartition

if TYPE_CHECKING:
    import pyarrow

CONSTANT_ROWS_MIN: Final = 65_536
CONSTANTS_MAX: Final = 256


@functools.cache
def table_schema() -> pyarrow.Schema:
    """The columns of poll_arrow()."""
    import pyarrow as pa

    from ottla.records.arrow import schema

    topic = pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False)
    return pa.schema([topic, pa.field("partition", pa.int32(), nullable=False), *schema()])


@functools.cache
def table_shape() -> RowShape:
    return RowShape(table_schema())


class Constant:
    """The same value in every row."""

    def __init__(self, kind: pyarrow.DataType, value: str | int) -> None:
        self._kind = kind
        self._value = value
        self._made: Any = None

    def rows(self, count: int) -> pyarrow.Array:
        if self._made is None or count > len(self._made):
            self._made = self._make(max(count, CONSTANT_ROWS_MIN))
        return self._made.slice(0, count)

    def _make(self, count: int) -> Any:
        # From plain memory: pyarrow's own ways to repeat a value look for numpy and pandas at every call.
        import pyarrow as pa

        if isinstance(self._value, int):
            return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(array("i", [self._value]) * count)], 0)
        if pa.types.is_dictionary(self._kind):
            zeros = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(array("i", [0]) * count)], 0)
            return pa.DictionaryArray.from_arrays(zeros, pa.array([self._value]))
        text = self._value.encode()
        offsets = array("i", range(0, len(text) * count + 1, len(text)))
        return pa.Array.from_buffers(self._kind, count, [None, pa.py_buffer(offsets), pa.py_buffer(text * count)], 0)


@functools.lru_cache(maxsize=CONSTANTS_MAX)
def constant(kind: pyarrow.DataType, value: str | int) -> Constant:
    return Constant(kind, value)


class RowShape:
    """How records become rows: which columns, in which order, of which types."""

    def __init__(self, schema: pyarrow.Schema) -> None:
        from ottla.records.arrow import RecordShape

        if not len(schema):
            raise ValueError("rows need at least one column")
        self.schema = schema
        self._kinds = {field.name: field.type for field in schema}
        self._repeated: dict[tuple[str, int], list[Constant | None]] = {}
        self._records = RecordShape([field for field in schema if field.name not in ("topic", "partition")])

    def decode(
        self, topic: str, partition: int, span: Span, until_offset: int | None, *, check_crcs: bool
    ) -> pyarrow.RecordBatch:
        """The records of a span that lie before `until_offset`."""
        count, arrays = self._records.decode(span.data, span.from_offset, until_offset, check_crc=check_crcs)
        return self._batch(topic, partition, count, arrays)

    def of_records(self, topic: str, partition: int, found: list[ConsumerRecord]) -> pyarrow.RecordBatch:
        """Records that were read one by one: of old formats, or before a damaged place."""
        return self._batch(topic, partition, len(found), [_column(field, found) for field in self._records.fields])

    def _batch(self, topic: str, partition: int, count: int, arrays: list[pyarrow.Array]) -> pyarrow.RecordBatch:
        import pyarrow as pa

        repeated = self._repeated.get((topic, partition)) or self._repeated_of(topic, partition)
        left = iter(arrays)
        columns = [next(left) if each is None else each.rows(count) for each in repeated]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _repeated_of(self, topic: str, partition: int) -> list[Constant | None]:
        """Looked up once per partition: the columns that say the same in every row, None for those that do not."""
        if len(self._repeated) >= CONSTANTS_MAX:
            self._repeated.clear()
        values = {"topic": topic, "partition": partition}
        found = [constant(kind, values[name]) if name in values else None for name, kind in self._kinds.items()]
        self._repeated[topic, partition] = found
        return found


class Rows:
    """Record batches on their way out."""

    def __init__(self, shape: RowShape, ends: Mapping[TopicPartition, int] | None = None) -> None:
        self.count = 0
        self.batches: list[pyarrow.RecordBatch] = []
        self._names: list[TopicPartition] = []
        self._shape = shape
        self._ends = ends or {}

    def add_span(self, topic: str, partition: int, span: Span, *, check_crcs: bool) -> None:
        name = TopicPartition(topic, partition)
        self._add(name, self._shape.decode(topic, partition, span, self._ends.get(name), check_crcs=check_crcs))

    def add_records(self, topic: str, partition: int, found: list[ConsumerRecord]) -> None:
        name = TopicPartition(topic, partition)
        end = self._ends.get(name)
        if end is not None:
            found = [record for record in found if record.offset < end]
        self._add(name, self._shape.of_records(topic, partition, found))

    def _add(self, name: TopicPartition, batch: pyarrow.RecordBatch) -> None:
        if batch.num_rows:
            self.count += batch.num_rows
            self.batches.append(batch)
            self._names.append(name)

    def leave_out(self, names: Collection[TopicPartition]) -> None:
        """These were not wanted after all."""
        kept = [index for index, name in enumerate(self._names) if name not in names]
        self.batches = [self.batches[index] for index in kept]
        self._names = [self._names[index] for index in kept]
        self.count = sum(batch.num_rows for batch in self.batches)

    def table(self) -> pyarrow.Table | None:
        if not self.batches:
            return None
        import pyarrow as pa

        return pa.Table.from_batches(self.batches)


def decode_span(records: FetchedRecords, row_target: int, rows: Rows, *, check_crcs: bool) -> None:
    """Move the next whole batches of a piece into `rows`; one call moves one run of bytes without a gap."""
    span = records.span(row_target)
    if span is None:
        _decode_records(records, row_target, rows)
        return
    try:
        rows.add_span(records.topic, records.partition, span, check_crcs=check_crcs)
    except CorruptMessage:
        # Record by record: what stands before the damage is given, and the error says where it is.
        _decode_records(records, row_target, rows)
        return
    records.advance(span.position, span.next_offset, span.leader_epoch)


def _decode_records(records: FetchedRecords, row_target: int, rows: Rows) -> None:
    found = records.take(row_target)
    if found:
        rows.add_records(records.topic, records.partition, found)


def _column(field: pyarrow.Field, found: list[ConsumerRecord]) -> pyarrow.Array:
    import pyarrow as pa

    from ottla.records.arrow import SCALES

    values: list[Any]
    match field.name:
        case "timestamp":
            scale = SCALES[field.type.unit]
            values = [record.timestamp_ms * scale for record in found]
        case "timestampType":
            values = [int(record.timestamp_type) for record in found]
        case "headers":
            values = [[{"key": key, "value": value} for key, value in record.headers] for record in found]
            if field.nullable:
                values = [each or None for each in values]
        case name:
            values = [getattr(record, name) for record in found]
    return pa.array(values, type=field.type)
