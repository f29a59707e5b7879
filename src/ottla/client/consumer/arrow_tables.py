"""Fetched batches as an Arrow table: topic, partition, offset, timestamp, key, value, headers.

Whole batches go from the bytes of the answer into Arrow's memory without an object per record. pyarrow is loaded by
the first call. Keys and values are bytes: deserializers are for records, not for columns.
"""

from __future__ import annotations

import functools
from array import array
from typing import TYPE_CHECKING, Any

from ottla.client.consumer.record_choice import ConsumerRecord, FetchedRecords
from ottla.errors import CorruptMessage

if TYPE_CHECKING:
    import pyarrow


@functools.lru_cache(maxsize=256)
def _names(topic: str) -> Any:
    """The dictionary of a column that says the same topic in every row."""
    import pyarrow as pa

    return pa.array([topic])


@functools.cache
def table_schema() -> pyarrow.Schema:
    """The columns of poll_arrow()."""
    import pyarrow as pa

    from ottla.records.arrow import schema

    topic = pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False)
    return pa.schema([topic, pa.field("partition", pa.int32(), nullable=False), *schema()])


class Rows:
    """Record batches on their way into one table."""

    def __init__(self) -> None:
        self.count = 0
        self._batches: list[Any] = []

    def add(self, topic: str, partition: int, columns: Any) -> None:
        """`columns` is a RecordBatch as ottla.records.arrow makes it."""
        import pyarrow as pa

        count = columns.num_rows
        if not count:
            return
        self.count += count
        # From plain memory: pyarrow's own ways to repeat a value look for numpy and pandas at every call.
        zeros, numbers = (pa.py_buffer(array("i", [value]) * count) for value in (0, partition))
        indices = pa.Array.from_buffers(pa.int32(), count, [None, zeros])
        topics = pa.DictionaryArray.from_arrays(indices, _names(topic))
        partitions = pa.Array.from_buffers(pa.int32(), count, [None, numbers])
        arrays = [topics, partitions, *columns.columns]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=table_schema()))

    def table(self) -> pyarrow.Table | None:
        if not self._batches:
            return None
        import pyarrow as pa

        return pa.Table.from_batches(self._batches)


def decode_span(records: FetchedRecords, row_target: int, rows: Rows, *, check_crcs: bool) -> None:
    """Move the next whole batches of a piece into `rows`; one call moves one run of bytes without a gap."""
    from ottla.records.arrow import to_arrow

    span = records.span(row_target)
    if span is None:
        _decode_records(records, row_target, rows)
        return
    try:
        columns = to_arrow(span.data, from_offset=span.from_offset, check_crc=check_crcs)
    except CorruptMessage:
        # Record by record: what stands before the damage is given, and the error says where it is.
        _decode_records(records, row_target, rows)
        return
    records.advance(span.position, span.next_offset, span.leader_epoch)
    rows.add(records.topic, records.partition, columns)


def _decode_records(records: FetchedRecords, row_target: int, rows: Rows) -> None:
    found = records.take(row_target)
    if found:
        rows.add(records.topic, records.partition, _columns(found))


def _columns(found: list[ConsumerRecord]) -> Any:
    import pyarrow as pa

    from ottla.records.arrow import schema

    shape = schema()
    columns = {
        "offset": [record.offset for record in found],
        "timestamp": [record.timestamp_ms for record in found],
        "key": [record.key for record in found],
        "value": [record.value for record in found],
        "headers": [[{"key": key, "value": value} for key, value in record.headers] for record in found],
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], type=field.type) for field in shape], schema=shape)
