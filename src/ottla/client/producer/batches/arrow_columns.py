"""The columns of an Arrow table as records to send: which there may be, of which types, and where they lie in memory.

    value       binary or text; a null is a tombstone. The only column that must be there
    key         binary or text; a null is a record without a key
    topic       text; used (and then needed in every row) when send_arrow() is not told a topic
    partition   a whole number; a null leaves it to the key, or to the turn
    timestamp   a timestamp of any unit, or whole milliseconds; a null, or -1 ms, is now
    headers     list of struct<key, value>, or a map; a null is no headers. A header has a name

1. A table is checked before one of its rows is sent: names, types, partitions, timestamps, sizes. A column that is none
   of these is refused, because a key that is spelled wrongly must not get lost; `offset` is passed over, so that what
   poll_arrow() gave can be sent on.
2. Texts become binary, dictionaries are decoded, numbers get one width; bytes themselves are not copied for that.
3. A piece has at most ROWS_AT_ONCE rows: so long a native leaf keeps the interpreter for itself.

pyarrow is loaded by the first call. Whoever has a table has it.
"""

from __future__ import annotations

import bisect
import difflib
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.client.producer.values import ProducerRecord
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    import pyarrow

COLUMNS: Final = ("topic", "partition", "timestamp", "key", "value", "headers")
PASSED_OVER: Final = ("offset",)
ROWS_AT_ONCE: Final = 16_384
RECORD_OVERHEAD_BYTES: Final = 61 + 36
HEADER_OVERHEAD_BYTES: Final = 15

Headers = list[tuple[str, bytes | None]]
BytesLayout = tuple[int, int, int, bool, int]
"""Where an array of bytes lies: address of the validity bits (0: no nulls), its first bit, address of the first end of
a value, whether ends are 64 bits wide, address of the bytes. Lists have no bytes, numbers no ends."""


class Layouts(NamedTuple):
    """Where the columns of some rows lie, as the native leaf wants to know it; None for a column that is not there."""

    key: BytesLayout | None
    value: BytesLayout
    header_keys: BytesLayout | None
    header_values: BytesLayout | None
    header_lists: tuple[int, int, int, bool] | None
    partition: tuple[int, int, int] | None
    time_ms: tuple[int, int, int] | None
    topic_places: tuple[int, int, int] | None


class HeaderColumn(NamedTuple):
    """Headers: the lists, and key and value of all their entries."""

    lists: Any
    keys: Any
    values: Any


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Some rows of a table, checked, every column in its one type."""

    count: int
    topics: tuple[str, ...]
    topic_places: Any  # for each row the place of its topic in `topics`; None: all go to the first
    key: Any
    value: Any
    partition: Any
    time_ms: Any
    headers: HeaderColumn | None

    # --- one row: for whoever has to decide something about it, and for the readable twin ---

    def place_at(self, row: int) -> int:
        return 0 if self.topic_places is None else int(self.topic_places[row].as_py())

    def key_at(self, row: int) -> bytes | None:
        return None if self.key is None else self.key[row].as_py()

    def value_at(self, row: int) -> bytes | None:
        found: bytes | None = self.value[row].as_py()
        return found

    def partition_at(self, row: int) -> int | None:
        return None if self.partition is None else self.partition[row].as_py()

    def time_at(self, row: int) -> int | None:
        found = None if self.time_ms is None else self.time_ms[row].as_py()
        return None if found is None or found < 0 else int(found)

    def headers_at(self, row: int) -> Headers:
        if self.headers is None or not self.headers.lists[row].is_valid:
            return []
        first, end = (self.headers.lists.offsets[at].as_py() for at in (row, row + 1))
        return [(self.headers.keys[at].as_py().decode(), self.headers.values[at].as_py()) for at in range(first, end)]

    def needed_bytes(self, row: int) -> int:
        """The most that this row takes in a batch of its own."""
        size = RECORD_OVERHEAD_BYTES + len(self.key_at(row) or b"") + len(self.value_at(row) or b"")
        for name, content in self.headers_at(row):
            size += HEADER_OVERHEAD_BYTES + len(name.encode()) + len(content or b"")
        return size

    def records(self) -> Iterator[ProducerRecord]:
        """Row by row, for a producer with code of the user's that must see each record."""
        for row in range(self.count):
            yield ProducerRecord(
                self.topics[self.place_at(row)],
                self.value_at(row),
                self.key_at(row),
                self.partition_at(row),
                self.time_at(row),
                self.headers_at(row),
            )

    # --- all rows ---

    def highest_partition(self, place: int) -> int | None:
        """The highest partition that a row names for a topic: it must be known before one is sent."""
        if self.partition is None:
            return None
        import pyarrow.compute as pc

        named = self.partition
        if self.topic_places is not None:
            named = named.filter(pc.equal(self.topic_places, place))
        found: int | None = pc.max(named).as_py()
        return found

    def first_above(self, limit_bytes: int) -> int:
        """The first row that needs more than so much, -1 when there is none."""
        if self._largest_bytes() <= limit_bytes:
            return -1
        return next((row for row in range(self.count) if self.needed_bytes(row) > limit_bytes), -1)

    def _largest_bytes(self) -> int:
        """No row needs more: the largest key, the largest value and all headers together, as if of one row."""
        import pyarrow.compute as pc

        size = RECORD_OVERHEAD_BYTES
        for column in (self.key, self.value):
            size += 0 if column is None else pc.max(pc.binary_length(column)).as_py() or 0
        if self.headers is not None:
            count = len(self.headers.keys)
            size += HEADER_OVERHEAD_BYTES * count + self.headers.keys.nbytes + self.headers.values.nbytes
        return size

    # --- for the native leaf ---

    def layouts(self) -> Layouts:
        """Where the columns lie; that holds while this object lives."""
        headers = self.headers
        return Layouts(
            key=None if self.key is None else _bytes_layout(self.key),
            value=_bytes_layout(self.value),
            header_keys=None if headers is None else _bytes_layout(headers.keys),
            header_values=None if headers is None else _bytes_layout(headers.values),
            header_lists=None if headers is None else _list_layout(headers.lists),
            partition=None if self.partition is None else _numbers_layout(self.partition, 4),
            time_ms=None if self.time_ms is None else _numbers_layout(self.time_ms, 8),
            topic_places=None if self.topic_places is None else _numbers_layout(self.topic_places, 4),
        )


class RowTimes(Sequence[int]):
    """The timestamps of all rows, for the metadata of those who ask; keeps nothing else of the table alive."""

    def __init__(self, parts: Sequence[ArrowRows], now_ms: int) -> None:
        self._times = [(part.count, part.time_ms) for part in parts]
        self._ends = list(itertools.accumulate(part.count for part in parts))
        self._now_ms = now_ms

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, row: Any) -> Any:
        part = bisect.bisect_right(self._ends, row)
        count, times = self._times[part]
        found = None if times is None else times[row - self._ends[part] + count].as_py()
        return self._now_ms if found is None or found < 0 else found


# --- from a table ---


def rows_of(topic: str | None, table: Any) -> list[ArrowRows]:
    """All rows of a table or record batch in pieces, checked; raises what is wrong with it."""
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise TypeError(f"send_arrow() takes a pyarrow Table or RecordBatch, not {type(table).__name__}")
    _check_names(topic, table.column_names)
    return [_rows_of_batch(topic, batch) for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE) if batch.num_rows]


def _check_names(topic: str | None, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} is there twice; a record has one")
        if name not in COLUMNS and name not in PASSED_OVER:
            nearest = difflib.get_close_matches(name, COLUMNS, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"columns are {', '.join(COLUMNS)}"
            raise ValueError(f"column {name!r} is no part of a record: {hint} Leave it out with table.select([...])")
    if "value" not in names:
        raise ValueError("there is no column 'value'; records without values are a column of nulls")
    if topic is None and "topic" not in names:
        raise ValueError("neither a topic nor a column 'topic' says where the records go")


def _rows_of_batch(topic: str | None, batch: pyarrow.RecordBatch) -> ArrowRows:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    topics, places = ((topic,), None) if topic is not None else _topics(columns["topic"])
    return ArrowRows(
        count=batch.num_rows,
        topics=topics,
        topic_places=places,
        key=_bytes("key", columns["key"]) if "key" in columns else None,
        value=_bytes("value", columns["value"]),
        partition=_partitions(columns["partition"]) if "partition" in columns else None,
        time_ms=_times(columns["timestamp"]) if "timestamp" in columns else None,
        headers=_headers(columns["headers"]) if "headers" in columns else None,
    )


def _bytes(name: str, column: Any) -> Any:
    """Binary with ends of 32 or 64 bits; strings share their bytes with it."""
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_fixed_size_binary(kind)
    is_view = pa.types.is_binary_view(kind) or pa.types.is_string_view(kind)
    if not (is_wide or is_bytes or is_view or pa.types.is_null(kind)):
        raise TypeError(f"column {name!r} is {column.type}; keys and values are binary or string: cast it")
    found = column.cast(pa.large_binary() if is_wide else pa.binary())
    found.validate(full=True)  # its ends are read without a look at the length of its bytes
    return found


def _whole_numbers(name: str, column: Any, kind: Any) -> Any:
    import pyarrow as pa

    if not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
        raise TypeError(f"column {name!r} is {column.type}; whole numbers are wanted")
    return column.cast(kind)


def _partitions(column: Any) -> Any:
    import pyarrow as pa

    found = _whole_numbers("partition", column, pa.int32())
    _check_lowest("partition", found, 0)
    return found


def _times(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).view(pa.int64())
    found = _whole_numbers("timestamp", column, pa.int64())
    _check_lowest("timestamp", found, -1)
    return found


def _check_lowest(name: str, column: Any, lowest: int) -> None:
    import pyarrow.compute as pc

    found = pc.min(column).as_py()
    if found is not None and found < lowest:
        raise ValueError(f"column {name!r} has {found}; a {name} is 0 or more")


def _topics(column: Any) -> tuple[tuple[str, ...], Any]:
    """The names once, and their places."""
    import pyarrow as pa

    if column.null_count:
        raise ValueError("column 'topic' has nulls, and no topic was given for all")
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise TypeError(f"column 'topic' is {column.type}; names of topics are strings")
    encoded = column.cast(pa.string()).dictionary_encode()
    names = tuple(encoded.dictionary.to_pylist())
    return names, None if len(names) == 1 else encoded.indices.cast(pa.int32())


def _headers(column: Any) -> HeaderColumn | None:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_map(kind):
        keys, values = column.keys, column.items
    elif (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_struct(kind.value_type):
        entries = column.values
        if entries.null_count or {field.name for field in kind.value_type} != {"key", "value"}:
            raise ValueError(f"column 'headers' is {kind}; wanted are lists of struct<key, value> without null entries")
        keys, values = entries.field("key"), entries.field("value")
    else:
        raise TypeError(f"column 'headers' is {kind}; wanted are lists of struct<key: string, value: binary>")
    column.validate(full=True)
    return _named(HeaderColumn(column, _bytes("headers.key", keys.cast(pa.string())), _bytes("headers.value", values)))


def _named(headers: HeaderColumn) -> HeaderColumn:
    if headers.keys.null_count:
        raise ValueError("column 'headers' has entries without a key; a header has a name, if only an empty one")
    return headers


# --- where things lie ---


def _address(buffer: Any) -> int:
    return 0 if buffer is None else int(buffer.address)


def _validity(array: Any, buffer: Any) -> int:
    return _address(buffer) if array.null_count else 0


def _bytes_layout(array: Any) -> BytesLayout:
    import pyarrow as pa

    validity, ends, content = array.buffers()
    is_wide = pa.types.is_large_binary(array.type)
    first_end = _address(ends) + array.offset * (8 if is_wide else 4)
    return _validity(array, validity), array.offset, first_end, is_wide, _address(content)


def _list_layout(array: Any) -> tuple[int, int, int, bool]:
    import pyarrow as pa

    validity, ends = array.buffers()[:2]
    is_wide = pa.types.is_large_list(array.type)
    return _validity(array, validity), array.offset, _address(ends) + array.offset * (8 if is_wide else 4), is_wide


def _numbers_layout(array: Any, width: int) -> tuple[int, int, int]:
    validity, numbers = array.buffers()
    return _validity(array, validity), array.offset, _address(numbers) + array.offset * width
