"""read_topic(): a topic, or a part of it, as one table in memory. For one machine, without Spark and without a group.

    import ottla

    clicks = ottla.read_topic("clicks", bootstrap_servers="localhost:9092", as_="pandas")
    today = ottla.read_topic("clicks", bootstrap_servers="localhost:9092", start=datetime.now(UTC) - timedelta(days=1))

1. Where the read ends is found out when it begins; what is written afterwards is not in the table. Every record between
   start and end is, once; within a partition in the order of offsets. Nothing is committed anywhere.
2. The whole table is in memory. Arrow takes the bytes of keys and values, and about 40 bytes a row besides; pandas a
   Python object for every key and value more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ottla.client.consumer.arrow_tables import table_schema
from ottla.client.consumer.range_reader import POLL_TIMEOUT_MS, RangeReader
from ottla.client.consumer.ranges import TopicRange
from ottla.errors import OttlaError
from ottla.values import TopicPartition

if TYPE_CHECKING:
    import pyarrow

Place: TypeAlias = int | datetime | Literal["earliest", "latest"]
Places: TypeAlias = Place | Mapping[int, Place]
Form: TypeAlias = Literal["arrow", "pandas", "polars"]
TextOrBytes: TypeAlias = Literal["binary", "string"]

FORMS: Final = ("arrow", "pandas", "polars")
FORMATS: Final = ("binary", "string")


class NotText(OttlaError):
    """A key or value is not UTF-8. Read it as bytes: key_format="binary", value_format="binary"."""


def read_topic(
    topic: str,
    *,
    bootstrap_servers: str | Sequence[str],
    start: Places = "earliest",
    end: Places = "latest",
    partitions: Iterable[int] | None = None,
    columns: Iterable[str] | None = None,
    key_format: TextOrBytes = "binary",
    value_format: TextOrBytes = "binary",
    limit: int | None = None,
    as_: Form = "arrow",
    timeout: float = POLL_TIMEOUT_MS / 1000,
    **settings: Any,
) -> Any:
    """The records of a topic from `start` up to but without `end`, as pyarrow.Table, pandas or polars DataFrame.

    start, end      an offset, a datetime with a time zone, "earliest" or "latest", for all partitions or {partition:
                    place}; partitions that such a mapping leaves out are read from earliest, or to latest. "latest" is
                    the end at the time of this call. An offset before the first record means the first.
    partitions      only these
    columns         of topic, partition, offset, timestamp, key, value, headers: only these, in this order
    key_format, value_format
                    "binary" or "string" (UTF-8)
    limit           at most so many rows: the first ones of some partitions, as they come
    timeout         seconds without any progress after which ReadTimedOut is raised
    settings        every setting of a consumer, such as isolation_level="read_committed" or sasl_username=...

    The whole table is in memory: the keys and values themselves and about 40 bytes a row besides (pandas: a Python
    object for each of them more). Choose columns, a range or a limit for topics that are larger than that.
    """
    _check(as_, key_format, value_format, limit)
    schema = _schema(columns)
    formats = {"key": key_format, "value": value_format}
    with RangeReader({"bootstrap.servers": bootstrap_servers}, **settings) as reader:
        ranges = _ranges(reader, topic, start, end, None if partitions is None else list(partitions))
        batches = _read(reader, ranges, schema, limit, timeout * 1000)
    return _shaped(_in_formats(_table(batches, schema), formats), as_)


def _check(form: str, key_format: str, value_format: str, limit: int | None) -> None:
    if form not in FORMS:
        raise ValueError(f"as_ must be one of {', '.join(FORMS)}, not {form!r}")
    for name, value in (("key_format", key_format), ("value_format", value_format)):
        if value not in FORMATS:
            raise ValueError(f"{name} must be one of {', '.join(FORMATS)}, not {value!r}")
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, not {limit}")


def _schema(columns: Iterable[str] | None) -> pyarrow.Schema:
    import pyarrow as pa

    whole = table_schema()
    if columns is None:
        return whole
    names = [columns] if isinstance(columns, str) else list(columns)
    unknown = [name for name in names if name not in whole.names]
    if unknown or not names:
        what = f"{unknown[0]!r} is no column" if unknown else "no column was asked for"
        raise ValueError(f"{what}; there are {', '.join(whole.names)}")
    if len(set(names)) < len(names):
        raise ValueError(f"a column comes twice in {', '.join(names)}")
    return pa.schema([whole.field(name) for name in names])


# --- from places to offsets ------------------------------------------------------------------------------------------


def _ranges(reader: RangeReader, topic: str, start: Places, end: Places, wanted: list[int] | None) -> list[TopicRange]:
    there = {info.partition for info in reader.partitions_of(topic)}
    chosen = sorted(there if wanted is None else set(wanted))
    named = {*chosen, *(start if isinstance(start, Mapping) else ()), *(end if isinstance(end, Mapping) else ())}
    if missing := sorted(named - there):
        raise ValueError(f"topic {topic!r} has the partitions 0 to {max(there)}, and no {missing[0]}")
    names = [TopicPartition(topic, partition) for partition in chosen]
    firsts, ends = reader.first_offsets(names), reader.end_offsets(names)
    starts_at = _offsets(reader, names, start, "earliest", firsts, ends)
    ends_at = _offsets(reader, names, end, "latest", firsts, ends)
    found = []
    for name in names:
        first, last = max(starts_at[name], firsts[name]), min(ends_at[name], ends[name])
        if first < last:
            found.append(TopicRange(topic, name.partition, first, last))
    return found


def _offsets(
    reader: RangeReader,
    names: list[TopicPartition],
    places: Places,
    default: Place,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    times: dict[TopicPartition, int] = {}
    for name in names:
        place = places.get(name.partition, default) if isinstance(places, Mapping) else places
        if isinstance(place, datetime):
            times[name] = _milliseconds(place)
        elif isinstance(place, str):
            found[name] = _edge(place, firsts[name], ends[name])
        elif isinstance(place, int) and not isinstance(place, bool) and place >= 0:
            found[name] = place
        else:
            raise ValueError(f"{place!r} is no place: give an offset, a datetime, 'earliest' or 'latest'")
    if times:
        for name, record in reader.offsets_for_times(times).items():
            found[name] = ends[name] if record is None else record.offset
    return found


def _edge(place: str, first: int, end: int) -> int:
    if place not in ("earliest", "latest"):
        raise ValueError(f"{place!r} is no place: give an offset, a datetime, 'earliest' or 'latest'")
    return first if place == "earliest" else end


def _milliseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; write datetime(..., tzinfo=UTC)")
    return max(0, int(moment.timestamp() * 1000))


# --- from offsets to a table -----------------------------------------------------------------------------------------


def _read(
    reader: RangeReader, ranges: list[TopicRange], schema: pyarrow.Schema, limit: int | None, timeout_ms: float
) -> list[pyarrow.RecordBatch]:
    found: list[pyarrow.RecordBatch] = []
    left = limit
    if left == 0:
        return found
    for batch in reader.read(ranges, schema, poll_timeout_ms=timeout_ms):
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        found.append(batch)
        if left == 0:
            break
    return found


def _table(batches: list[pyarrow.RecordBatch], schema: pyarrow.Schema) -> pyarrow.Table:
    import pyarrow as pa

    return pa.Table.from_batches(batches, schema=schema)


def _in_formats(table: pyarrow.Table, formats: Mapping[str, str]) -> pyarrow.Table:
    import pyarrow as pa

    for name, form in formats.items():
        if form == "string" and name in table.column_names:
            index = table.column_names.index(name)
            try:
                table = table.set_column(index, pa.field(name, pa.string()), table.column(name).cast(pa.string()))
            except pa.ArrowInvalid as error:
                raise NotText(f"column {name!r}: {error}") from None
    return table


def _shaped(table: pyarrow.Table, form: str) -> Any:
    if form == "arrow":
        return table
    try:
        if form == "pandas":
            return table.to_pandas()
        import polars
    except ImportError as error:
        raise ImportError(f'as_="{form}" needs {form}: pip install {form}') from error
    return polars.from_arrow(table)
