"""The contract of readers: where a topic's table is, how far it is, and which columns its rows have.

    settings = TableSettings.of(configs)              # all settings of the topic, as DescribeConfigs has them
    table = table_of("clicks", settings)              # a TopicTable; None when the topic is not kept as a table
    snapshot = table.snapshot()                       # a TableSnapshot; None when there is no table yet
    snapshot.marker.next_offsets                      # {0: 1200, 1: 900}: read the log from here
    snapshot.files                                    # the Parquet files with all that lies before

1. A snapshot is one version of the table: files, schema and marker belong together. History from its files, and the
   tail from the log at its marker, is each offset once. `marker.topic_id` is to be compared with the topic's id before:
   a topic that was made anew is another one. A table without a marker is somebody else's: `marker` is None.
2. What the table lacks below its marker was told: records that are no rows (dead letters, or skipped), and offsets that
   were deleted before they were read. Transactions that were aborted have no rows; so the tail is read read_committed.
3. Columns, in this order; all may be null for readers, and none of the first four is:

       partition   int32
       offset      int64
       timestamp   timestamp[us, UTC]
       headers     list<struct<key: string, value: binary>>
       key         by ottla.table.key.mode: binary (raw), string, or what the key's schema is
       value       by ottla.table.mode: binary (raw), string; in the other modes the fields of the value stand here
                   themselves, a column each, and all are null for a tombstone

   A field of the value that has the name of one of these six, in any case, is the column value_<name>; so is one that
   is called value_<such a name> already. `column_of` and `field_of` are that rule and its inverse. A table partitioned
   by day(timestamp) or bucket(16, key) has columns timestamp_day or key_bucket behind, if its format is Delta.
4. Rows of one commit lie in the order of partition and offset; a file that upkeep made of small ones has them one
   behind another. Files are in no order.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.light_tuples import NamedTuple
from ottla.table_settings import DELTA, OFF, TableSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow

    from ottla.tables.marker import Marker

PARTITION: Final = "partition"
OFFSET: Final = "offset"
TIMESTAMP: Final = "timestamp"
HEADERS: Final = "headers"
KEY: Final = "key"
VALUE: Final = "value"
RECORD_COLUMNS: Final = (PARTITION, OFFSET, TIMESTAMP, HEADERS, KEY, VALUE)
PREFIX: Final = "value_"
CATALOG_FILE: Final = "catalog.db"
_TAKEN: Final = re.compile(rf"(?:{PREFIX})*(?:{'|'.join(RECORD_COLUMNS)})", re.IGNORECASE)


class LibraryMissing(Exception):
    """The library of a format is not installed; the text says which, and how to get it."""


class DataFile(NamedTuple):
    """A Parquet file of a table; `partition` has the values of Delta's partition columns, which are not in the file."""

    uri: str
    rows: int
    size_bytes: int
    partition: Mapping[str, str | None] = {}


class TableSnapshot(NamedTuple):
    """One version of a table: its schema as Arrow has it, and all its files."""

    version: int
    schema: pyarrow.Schema
    marker: Marker | None
    files: tuple[DataFile, ...]


class ReadableTable(Protocol):
    """What both formats have for readers."""

    def snapshot(self) -> TableSnapshot | None: ...


class TopicTable(NamedTuple):
    """Where the table of a topic is. `catalog` and `identifier` are Iceberg's. `options` are for the libraries, by
    their own names (storage_options of deltalake, properties of pyiceberg): they may hold secrets and are not shown."""

    topic: str
    format: str
    location: str
    catalog: str | None = None
    identifier: tuple[str, ...] = ()
    options: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"TopicTable({self.topic!r}, {self.format!r}, {self.location!r})"

    def opened(self) -> Any:
        """The table in its format, which is loaded now; LibraryMissing when it is not installed."""
        try:
            if self.format == DELTA:
                from ottla.tables.delta import DeltaFormat

                return DeltaFormat(self)
            from ottla.tables.iceberg import IcebergFormat
        except ImportError as error:
            raise LibraryMissing(f"{error.name} is not installed; pip install 'ottla[tables]' brings it") from None
        return IcebergFormat(self)

    def snapshot(self) -> TableSnapshot | None:
        """The newest version; None where there is no table yet."""
        table: ReadableTable = self.opened()
        return table.snapshot()


def table_of(topic: str, settings: TableSettings, options: Mapping[str, str] | None = None) -> TopicTable | None:
    """Where the table of a topic is; None when its mode is off, InvalidSetting when nothing says where."""
    if settings.ottla_table_mode == OFF:
        return None
    location = location_uri(settings.location_of(topic))
    if settings.ottla_table_format == DELTA:
        return TopicTable(topic, DELTA, location, options=options or {})
    catalog = settings.ottla_table_catalog or default_catalog(location)
    identifier = (*settings.ottla_table_namespace.split("."), topic)
    return TopicTable(topic, settings.ottla_table_format, location, catalog, identifier, options or {})


def location_uri(location: str) -> str:
    """A location as an address: paths become absolute, whatever the reader's own directory is."""
    if "://" in location:
        return location
    return Path(location).expanduser().absolute().as_uri()


def local_path(uri: str) -> Path | None:
    """The directory of a location on this machine; None when it is elsewhere."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def default_catalog(location: str) -> str | None:
    """The catalog of a local table that names none: beside it, so that the tables of one lake have one."""
    path = local_path(location)
    return None if path is None else f"sqlite:///{path.parent / CATALOG_FILE}"


def column_of(field: str) -> str:
    """The column of a field of the value."""
    return f"{PREFIX}{field}" if _TAKEN.fullmatch(field) else field


def field_of(column: str) -> str | None:
    """The field of the value that a column is; None for a column of the record itself."""
    if column in RECORD_COLUMNS:
        return None
    return column.removeprefix(PREFIX) if _TAKEN.fullmatch(column) else column
