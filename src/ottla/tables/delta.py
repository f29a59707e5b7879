"""A table of Delta, by delta-rs (deltalake).

1. Files are ours: data/<topic id>/..., written with pyarrow through the store that deltalake has for the location, and
   added by a commit of add actions. delta-rs is told to try once (max_commit_retries=0), so a commit is the version
   behind the one that was loaded, or none.
2. The marker is the transactions of applications (marker.py), which checkpoints and compaction keep.
3. A commit that adds columns has its rows written again by delta-rs itself, because only that changes the schema and
   adds rows in one commit. It is rare; the files that were written before are deleted then.
4. Delta does not make a column wider: what does not fit is a bad record.
5. Partition columns (partitioning.py) are not in the files, as the format has it.
6. Upkeep: files smaller than half of a good one are made one; files are deleted that only versions older than the
   retention name, and those that no version names when they are a day old, too (vacuum).
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import chain
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction, write_deltalake
from deltalake._internal import RemoveAction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction

from ottla.light_tuples import NamedTuple
from ottla.schemas.arrow.evolution import Unfit, Widened, fitted
from ottla.table_settings import PartitionField
from ottla.tables.columns import plain_schema
from ottla.tables.finding import DataFile, TableSnapshot, TopicTable, local_path
from ottla.tables.formats import (
    COMPRESSION,
    DATA,
    ORPHANS_EVERY_MS,
    Loaded,
    TableRefused,
    UpkeepRules,
    Upkept,
    summary_of,
)
from ottla.tables.marker import read_transactions, written_transactions
from ottla.tables.partitioning import check_field, column_name, parts, transformed
from ottla.tables.worker import Commit

CHECKPOINT_INTERVAL: Final = "20"
ONCE: Final = 0
"""How often delta-rs may try a commit again: a second try would be on another version than the one we looked at."""
STATISTICS: Final = (pa.int32(), pa.int64(), pa.float64(), pa.float32(), pa.date32(), pa.timestamp("us", tz="UTC"))


class StagedFile(NamedTuple):
    """A file that no commit names yet."""

    size: int
    partition: Mapping[str, str | None]
    statistics: str


class DeltaFormat:
    """One table."""

    def __init__(self, where: TopicTable) -> None:
        self._where = where
        self._options = dict(where.options) or None
        self._table: DeltaTable | None = None
        self._schema: pa.Schema | None = None
        self._staged: dict[str, StagedFile] = {}
        self._files: pyarrow.fs.FileSystem | None = None
        self._orphans_at_ms = 0

    # -- reading -------------------------------------------------------------------------------------------------------

    def _open(self) -> DeltaTable | None:
        if self._table is not None:
            self._table.update_incremental()
            return self._table
        with contextlib.suppress(TableNotFoundError):
            self._table = DeltaTable(self._where.location, storage_options=self._options)
        return self._table

    def _columns(self, table: DeltaTable) -> pa.Schema:
        found = plain_schema(pa.schema(table.schema().to_arrow()))
        if isinstance(found, Unfit):
            raise TableRefused(f"the table at {self._where.location} has columns that we have not: {found.reason}")
        return found

    def load(self) -> Loaded:
        table = self._open()
        if table is None:
            self._schema = None
            return Loaded(None, None)
        marker = read_transactions(table.transaction_version)
        if marker is None:
            raise TableRefused(
                f"there is a Delta table at {self._where.location} that no worker of ours has made: it has no marker. "
                "Give the topic another ottla.table.location"
            )
        self._schema = self._columns(table)
        return Loaded(self._schema, marker)

    def snapshot(self) -> TableSnapshot | None:
        table = self._open()
        if table is None:
            return None
        partition_columns = table.metadata().partition_columns
        adds = pa.table(table.get_add_actions(flatten=True))
        found = tuple(
            DataFile(
                f"{self._where.location}/{row['path']}",
                row["num_records"] or 0,
                row["size_bytes"],
                {name: _text(row[f"partition.{name}"]) for name in partition_columns},
            )
            for row in adds.select(_columns_of_adds(partition_columns)).to_pylist()
        )
        return TableSnapshot(table.version(), self._columns(table), read_transactions(table.transaction_version), found)

    def can_widen(self, change: Widened) -> bool:
        return False

    def check_partitioning(self, fields: Sequence[PartitionField]) -> None:
        table = self._open()
        if table is None:
            return
        wanted, has = [column_name(field) for field in fields], table.metadata().partition_columns
        if wanted != has:
            raise TableRefused(
                f"the table is partitioned by {', '.join(has) or 'nothing'}, and ottla.table.partition.by says "
                f"{', '.join(map(str, fields)) or 'nothing'}: a Delta table stays as it was made. Set it back, or give "
                "the topic another ottla.table.location"
            )

    # -- files ---------------------------------------------------------------------------------------------------------

    def _store(self) -> pyarrow.fs.FileSystem:
        if self._files is None:
            self._files = pyarrow.fs.PyFileSystem(DeltaStorageHandler(self._where.location, self._options))
        return self._files

    def stage(self, rows: pa.Table, name: str, fields: Sequence[PartitionField]) -> tuple[str, ...]:
        made = []
        for number, part in enumerate(parts(rows, fields)):
            path = f"{DATA}/{name}-{number}.parquet"
            names = [column_name(field) for field in fields]
            values = dict(zip(names, map(_text, part.values), strict=True))
            in_file = part.rows.drop_columns([each for each in names if each in part.rows.column_names])
            self._staged[path] = self._write([in_file], path, values)
            made.append(path)
        return tuple(made)

    def _write(self, rows: Iterable[pa.Table], path: str, values: Mapping[str, str | None]) -> StagedFile:
        """A file of these rows, which are all of one schema; one table after the other."""
        store, left = self._store(), iter(rows)
        first = next(left)
        with store.open_output_stream(path) as stream:
            with pq.ParquetWriter(stream, first.schema, compression=COMPRESSION) as writer:
                for part in chain([first], left):
                    writer.write_table(part)
            metadata = writer.writer.metadata
        return StagedFile(store.get_file_info(path).size, values, _statistics(metadata, first.schema))

    def discard(self, files: Sequence[str]) -> None:
        for file in files:
            self._staged.pop(file, None)
            with contextlib.suppress(FileNotFoundError):
                self._store().delete_file(file)

    def open_file(self, uri: str) -> pa.NativeFile:
        """One of the files that a snapshot names, for reading."""
        return self._store().open_input_file(uri.removeprefix(f"{self._where.location}/"))

    def drop(self) -> None:
        """Delete the table with all its files."""
        path = local_path(self._where.location)
        if path is not None:
            shutil.rmtree(path)
        else:
            store = self._store()
            for info in store.get_file_info(pyarrow.fs.FileSelector("", allow_not_found=True, recursive=True)):
                if info.type == pyarrow.fs.FileType.File:
                    store.delete_file(info.path)
        self._table = None

    # -- commits -------------------------------------------------------------------------------------------------------

    def commit(self, commit: Commit, schema: pa.Schema, fields: Sequence[PartitionField]) -> bool:
        try:
            table = self._open()
            if table is None:
                return commit.before is None and self._create(commit, schema, fields)
            if read_transactions(table.transaction_version) != commit.before:
                return False
            self._append(table, commit, schema, [column_name(field) for field in fields])
        except CommitFailedError:
            return False
        for file in commit.files:
            self._staged.pop(file, None)
        self._schema = schema
        return True

    def _create(self, commit: Commit, schema: pa.Schema, fields: Sequence[PartitionField]) -> bool:
        for field in fields:
            check_field(field, schema)
        whole = _with_parts(schema.empty_table(), fields).schema
        try:
            self._table = DeltaTable.create(
                self._where.location,
                schema=Schema.from_arrow(whole),
                mode="error",
                partition_by=[column_name(field) for field in fields],
                name=self._where.topic,
                configuration={"delta.checkpointInterval": CHECKPOINT_INTERVAL},
                storage_options=self._options,
                commit_properties=_properties(commit),
            )
        except DeltaError as error:
            if "already exists" in str(error):
                return False
            raise
        self._schema = schema
        return True

    def _append(self, table: DeltaTable, commit: Commit, schema: pa.Schema, partition_by: list[str]) -> None:
        known = self._columns(table)
        if not _covers(known, schema):
            self._append_evolved(table, commit, schema, partition_by)
            return
        now_ms = int(time.time() * 1_000)
        added: list[AddAction | RemoveAction] = [
            AddAction(quote(path), each.size, each.partition, now_ms, True, each.statistics)
            for path, each in ((path, self._staged[path]) for path in commit.files)
        ]
        table.create_write_transaction(
            added,
            "append",
            table.schema(),
            partition_by=partition_by,
            commit_properties=_properties(commit),
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
        )

    def _append_evolved(self, table: DeltaTable, commit: Commit, schema: pa.Schema, partition_by: list[str]) -> None:
        """New columns and rows in one commit: delta-rs writes the rows."""
        rows = [self._read(path, schema) for path in commit.files] or [schema.empty_table()]
        write_deltalake(
            table,
            pa.concat_tables(rows, promote_options="default"),
            mode="append",
            schema_mode="merge",
            partition_by=partition_by or None,
            commit_properties=_properties(commit),
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
        )
        self.discard(commit.files)

    def _read(self, path: str, schema: pa.Schema) -> pa.Table:
        """The rows of a staged file, with its partition columns."""
        rows = pq.read_table(path, filesystem=self._store(), partitioning=None)
        for name, text in self._staged[path].partition.items():
            kind = schema.field(name).type
            value = pa.scalar(text).cast(kind) if text is not None else pa.scalar(None, kind)
            rows = rows.append_column(name, pa.array([value.as_py()] * rows.num_rows, kind))
        return rows

    # -- upkeep --------------------------------------------------------------------------------------------------------

    def upkeep(self, rules: UpkeepRules, now_ms: int) -> Upkept:
        table = self._open()
        if table is None:
            return Upkept()
        marker = read_transactions(table.transaction_version)
        done = self._compact(table, rules, now_ms)
        if read_transactions(self._opened().transaction_version) != marker:
            return done  # another writer has it: his upkeep goes on
        removed = self._vacuum(rules.retention_ms, full=False)
        if now_ms >= self._orphans_at_ms:
            self._orphans_at_ms = now_ms + ORPHANS_EVERY_MS
            removed += self._vacuum(max(rules.retention_ms, rules.orphan_ms), full=True)
        self._opened().cleanup_metadata()
        return done._replace(removed_files=removed)

    def _vacuum(self, age_ms: int, *, full: bool) -> int:
        """Delete files that only versions of this age name, or with `full` none at all."""
        hours = math.ceil(age_ms / 3_600_000)
        removed = self._opened().vacuum(
            retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=full
        )
        return len(removed)

    def _opened(self) -> DeltaTable:
        table = self._open()
        assert table is not None, "the table was there a moment ago"
        return table

    def _compact(self, table: DeltaTable, rules: UpkeepRules, now_ms: int) -> Upkept:
        """Small files of one part become one; a commit that changes no data, on the version that was looked at."""
        made = Upkept()
        for group in _small_groups(table, rules):
            table = self._opened()
            if not _paths(table).issuperset(group.paths):
                return made  # somebody else made them one meanwhile
            name = f"{DATA}/compacted/{now_ms}-{uuid.uuid4().hex[:12]}.parquet"
            staged = self._write((self._read_added(path, table) for path in group.paths), name, group.partition)
            actions: list[AddAction | RemoveAction] = [
                AddAction(quote(name), staged.size, staged.partition, now_ms, False, staged.statistics)
            ]
            actions += [RemoveAction(path, False, now_ms, size, dict(group.partition)) for path, size in group.sizes]
            try:
                table.create_write_transaction(
                    actions,
                    "append",
                    table.schema(),
                    partition_by=table.metadata().partition_columns,
                    commit_properties=CommitProperties(
                        max_commit_retries=ONCE, custom_metadata={"ottla": "compaction"}
                    ),
                )
            except CommitFailedError:
                self.discard([name])
                return made
            made = made._replace(
                compacted_files=made.compacted_files + len(group.paths),
                compacted_bytes=made.compacted_bytes + sum(size for _, size in group.sizes),
                written_files=made.written_files + 1,
            )
        return made

    def _read_added(self, path: str, table: DeltaTable) -> pa.Table:
        """A file with all columns that the table has now."""
        rows = pq.read_table(unquote(path), filesystem=self._store(), partitioning=None)
        schema = self._columns(table)
        names = table.metadata().partition_columns
        wanted = pa.schema([field for field in schema if field.name not in names])
        plain = rows.select([name for name in rows.column_names if name in wanted.names])
        return pa.Table.from_batches([fitted(batch, wanted) for batch in plain.to_batches()], schema=wanted)


def _paths(table: DeltaTable) -> set[str]:
    """The files that the version names."""
    return set(pa.table(table.get_add_actions()).column("path").to_pylist())


def _columns_of_adds(partition_columns: Sequence[str]) -> list[str]:
    return ["path", "size_bytes", "num_records", *(f"partition.{name}" for name in partition_columns)]


class _Group(NamedTuple):
    """Small files of one part of the table."""

    partition: Mapping[str, str | None]
    sizes: tuple[tuple[str, int], ...]

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.sizes]


def _small_groups(table: DeltaTable, rules: UpkeepRules) -> Iterator[_Group]:
    """What is worth to be made one, as much of it as one round may do."""
    names = table.metadata().partition_columns
    adds = pa.table(table.get_add_actions(flatten=True))
    by_part: dict[tuple[str | None, ...], list[tuple[str, int]]] = {}
    columns = [adds.column(f"partition.{name}").to_pylist() for name in names]
    for number, row in enumerate(adds.select(["path", "size_bytes"]).to_pylist()):
        if row["size_bytes"] * 2 < rules.file_bytes:
            key = tuple(_text(column[number]) for column in columns)
            by_part.setdefault(key, []).append((row["path"], row["size_bytes"]))
    left = rules.round_bytes
    for key, small in by_part.items():
        group: list[tuple[str, int]] = []
        for path, size in sorted(small):
            if group and sum(each for _, each in group) + size > rules.file_bytes:
                yield _Group(dict(zip(names, key, strict=True)), tuple(group))
                group = []
            if size > left:
                break
            left -= size
            group.append((path, size))
        if len(group) > 1:
            yield _Group(dict(zip(names, key, strict=True)), tuple(group))


def _properties(commit: Commit) -> CommitProperties:
    transactions = [Transaction(name, number) for name, number in written_transactions(commit.after).items()]
    return CommitProperties(
        app_transactions=transactions, max_commit_retries=ONCE, custom_metadata=dict(summary_of(commit))
    )


def _with_parts(rows: pa.Table, fields: Sequence[PartitionField]) -> pa.Table:
    """The rows with the columns of their parts."""
    for field in fields:
        if column_name(field) not in rows.column_names:
            rows = rows.append_column(column_name(field), transformed(rows.column(field.column), field))
    return rows


def _covers(known: pa.Schema, schema: pa.Schema) -> bool:
    """Whether the table has all these columns already, those inside of others too."""
    return all(field.name in known.names and known.field(field.name).type == field.type for field in schema)


def _text(value: Any) -> str | None:
    """A partition value as Delta's log has it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)


def _statistics(metadata: pq.FileMetaData, schema: pa.Schema) -> str:
    """What Delta's log says of a file: rows, and the range of numbers, dates and times."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for place in range(metadata.num_columns):
        name = metadata.schema.column(place).path
        if name not in schema.names or schema.field(name).type not in STATISTICS:
            continue
        found = [metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)]
        if not found or any(each is None or not each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        ranges = [each for each in found if each.has_min_max]
        if ranges and all(each.has_min_max or each.null_count == each.num_values + each.null_count for each in found):
            low, high = min(each.min for each in ranges), max(each.max for each in ranges)
            if not (isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high))):
                least[name], most[name] = _shown(low, up=False), _shown(high, up=True)
    return json.dumps({"numRecords": metadata.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls})


def _shown(value: Any, *, up: bool) -> Any:
    """A bound as JSON; times have milliseconds there, and a bound is never inside of what it bounds."""
    if isinstance(value, datetime):
        micros = value.microsecond
        ms = micros // 1_000 + (1 if up and micros % 1_000 else 0)
        seconds = value.replace(microsecond=0)
        if ms == 1_000:
            from datetime import timedelta

            seconds, ms = seconds + timedelta(seconds=1), 0
        return f"{seconds.strftime('%Y-%m-%dT%H:%M:%S')}.{ms:03d}Z"
    return value.isoformat() if isinstance(value, date) else value
