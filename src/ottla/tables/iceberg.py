"""A table of Iceberg, by pyiceberg and the catalog that the topic names.

1. Files are ours: data/<topic id>/..., with the field ids of the table's schema, and appended in one transaction with
   the marker (a property of the table) and the change of the schema. pyiceberg's own retries are off in the table
   (commit.retry.num-retries=0), and in each of our transactions whatever the table says.
2. Every commit makes a snapshot, a claim too, which has no files: so each is refused when the main branch has moved
   since the table was loaded. A change of properties alone would not be.
3. Where the schema changed beside after a file was written, its field ids may be others: then it is written again
   before the commit.
4. An int may become a long, a float a double, a decimal one of more digits; nothing else gets wider.
5. The marker stands in the summary of each snapshot, too, for people. It is never read there.
6. Upkeep: small files of one part become one (an overwrite of just these); snapshots older than the retention, or
   beyond VERSIONS_MAX, are expired; files that no snapshot names are deleted when they are a day old. Manifests are
   merged as commits come.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    PyArrowFileIO,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile as IcebergDataFile
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table, Transaction
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    YearTransform,
)
from pyiceberg.typedef import Record

from ottla.errors import InvalidSetting
from ottla.light_tuples import NamedTuple
from ottla.schemas.arrow.evolution import Unfit, Widened, fitted
from ottla.table_settings import BUCKET, PartitionField
from ottla.tables.columns import plain_schema
from ottla.tables.finding import DataFile, TableSnapshot, TopicTable, local_path
from ottla.tables.formats import (
    COMPRESSION,
    DATA,
    ORPHANS_EVERY_MS,
    VERSION_AGE_MS,
    VERSIONS_MAX,
    Loaded,
    TableRefused,
    UpkeepRules,
    Upkept,
    summary_of,
)
from ottla.tables.marker import PROPERTY, read_text, written_text
from ottla.tables.partitioning import check_field, column_name, parts
from ottla.tables.worker import Commit

RETRIES: Final = "commit.retry.num-retries"
PROPERTIES: Final = {
    RETRIES: "0",
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    "write.metadata.compression-codec": "gzip",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "10",
}
WIDER: Final = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}
TRANSFORMS: Final[Mapping[str, type[Transform[Any, Any]]]] = {
    "identity": IdentityTransform,
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}
EPOCH: Final = date(1970, 1, 1)
FIRST_FIELD: Final = 1_000
_ADDRESS: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://")


class StagedFile(NamedTuple):
    """A file that no commit names yet, and the ids of the columns that it was written with."""

    path: str
    size: int
    metadata: pq.FileMetaData
    partition: tuple[Any, ...]
    schema: Schema


def catalog_of(where: TopicTable) -> Catalog:
    """The catalog of a table, by its address or its name; credentials come from the worker's own configuration."""
    text = where.catalog
    if text is None:
        raise InvalidSetting(
            f"an Iceberg table at {where.location} needs a catalog: set ottla.table.catalog, such as "
            "sqlite:////lake/catalog.db, postgresql+psycopg2://host/db or https://catalog:8181"
        )
    match = _ADDRESS.match(text)
    options = {**_environment(), **where.options}
    if match is None:
        return load_catalog(text, **options)
    if match["scheme"] in ("http", "https"):
        return load_catalog("rest", type="rest", uri=text, **options)
    if match["scheme"] == "sqlite":
        from pathlib import Path

        Path(text.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    return load_catalog("ottla", type="sql", uri=text, **options)


def _environment() -> dict[str, str]:
    """What the environment says of S3 and pyiceberg does not read there, under pyiceberg's names: an endpoint of one's
    own, and the region, which it would ask Amazon for. Keys come by the usual chain."""
    import os

    known = {
        "s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    }
    found = {name: next(filter(None, map(os.environ.get, names)), None) for name, names in known.items()}
    return {name: value for name, value in found.items() if value}


class IcebergFormat:
    """One table."""

    def __init__(self, where: TopicTable) -> None:
        self._where = where
        self._known: Catalog | None = None
        self._table: Table | None = None
        self._staged: dict[str, StagedFile] = {}
        self._orphans_at_ms = 0

    # -- reading -------------------------------------------------------------------------------------------------------

    def _catalog(self) -> Catalog:
        if self._known is None:
            self._known = catalog_of(self._where)
        return self._known

    def _open(self) -> Table | None:
        try:
            self._table = self._catalog().load_table(self._where.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            self._table = None
        return self._table

    def _columns(self, schema: Schema) -> pa.Schema:
        found = plain_schema(schema_to_pyarrow(schema, include_field_ids=False))
        if isinstance(found, Unfit):
            raise TableRefused(f"the table {self._name} has columns that we have not: {found.reason}")
        return found

    @property
    def _name(self) -> str:
        return ".".join(self._where.identifier)

    def load(self) -> Loaded:
        table = self._open()
        if table is None:
            return Loaded(None, None)
        marker = read_text(table.properties.get(PROPERTY))
        if marker is None:
            raise TableRefused(
                f"there is an Iceberg table {self._name} that no worker of ours has made: it has no property "
                f"{PROPERTY}. Give the topic another ottla.table.namespace"
            )
        return Loaded(self._columns(table.schema()), marker)

    def snapshot(self) -> TableSnapshot | None:
        table = self._open()
        if table is None:
            return None
        files = tuple(
            DataFile(task.file.file_path, task.file.record_count, task.file.file_size_in_bytes)
            for task in table.scan().plan_files()
        )
        current = table.current_snapshot()
        version = 0 if current is None else current.sequence_number or 0
        return TableSnapshot(version, self._columns(table.schema()), read_text(table.properties.get(PROPERTY)), files)

    def can_widen(self, change: Widened) -> bool:
        before, after = change.before, change.after
        if pa.types.is_decimal128(before) and pa.types.is_decimal128(after):
            return bool(before.scale == after.scale)
        return (before, after) in WIDER

    def check_partitioning(self, fields: Sequence[PartitionField]) -> None:
        table = self._open()
        if table is None:
            return
        has = [f"{each.name}: {each.transform}" for each in table.spec().fields]
        wanted = [f"{column_name(each)}: {_transform(each)}" for each in fields]
        if has != wanted:
            raise TableRefused(
                f"the table is partitioned by {', '.join(has) or 'nothing'}, and ottla.table.partition.by says "
                f"{', '.join(map(str, fields)) or 'nothing'}: this worker keeps a table as it was made. Set it back, "
                "or give the topic another ottla.table.location and namespace"
            )

    # -- files ---------------------------------------------------------------------------------------------------------

    def stage(self, rows: pa.Table, name: str, fields: Sequence[PartitionField]) -> tuple[str, ...]:
        table = self._opened()
        schema = _evolved(table, rows.schema)
        made = []
        for number, part in enumerate(parts(rows, fields)):
            path = f"{table.location()}/{DATA}/{name}-{number}.parquet"
            self._staged[path] = self._write(table, [part.rows], path, schema, tuple(map(_inner, part.values)))
            made.append(path)
        return tuple(made)

    def _opened(self) -> Table:
        table = self._table if self._table is not None else self._open()
        assert table is not None, "a table is claimed before rows are written"
        return table

    def _write(
        self, table: Table, rows: Iterable[pa.Table], path: str, schema: Schema, partition: tuple[Any, ...]
    ) -> StagedFile:
        """A file of these rows, one table after the other, with the field ids that Parquet keeps."""
        target = schema_to_pyarrow(schema)
        with table.io.new_output(path).create(overwrite=True) as stream:
            with pq.ParquetWriter(stream, target, compression=COMPRESSION) as writer:
                for part in rows:
                    writer.write_table(part.select(target.names).cast(target))
            metadata = writer.writer.metadata
        return StagedFile(path, len(table.io.new_input(path)), metadata, partition, schema)

    def discard(self, files: Sequence[str]) -> None:
        io = self._opened().io
        for file in files:
            self._staged.pop(file, None)
            _delete(io, file)

    def open_file(self, uri: str) -> Any:
        """One of the files that a snapshot names, for reading."""
        return self._opened().io.new_input(uri).open()

    def drop(self) -> None:
        """Delete the table with all its files, and its entry in the catalog."""
        table = self._open()
        if table is None:
            return
        files = [path for path, _ in _listed(table, (DATA, "metadata"))]
        self._catalog().drop_table(self._where.identifier)
        for path in files:
            _delete(table.io, path)
        self._table = None

    # -- commits -------------------------------------------------------------------------------------------------------

    def commit(self, commit: Commit, schema: pa.Schema, fields: Sequence[PartitionField]) -> bool:
        try:
            table = self._open()
            if table is None:
                return commit.before is None and self._create(commit, schema, fields)
            if read_text(table.properties.get(PROPERTY)) != commit.before:
                return False
            self._append(table, commit, schema)
        except (CommitFailedException, TableAlreadyExistsError):
            return False
        for file in commit.files:
            self._staged.pop(file, None)
        return True

    def _create(self, commit: Commit, schema: pa.Schema, fields: Sequence[PartitionField]) -> bool:
        for field in fields:
            check_field(field, schema)
        try:
            self._catalog().create_namespace(self._where.identifier[:-1])
        except NamespaceAlreadyExistsError:
            pass
        fresh = assign_fresh_schema_ids(Catalog._convert_schema_if_needed(schema))
        self._table = self._catalog().create_table(
            self._where.identifier,
            schema=fresh,
            location=_plain_location(self._where.location),
            partition_spec=_spec(fresh, fields),
            properties={**PROPERTIES, PROPERTY: written_text(commit.after)},
        )
        return True

    def _append(self, table: Table, commit: Commit, schema: pa.Schema) -> None:
        table.metadata.properties[RETRIES] = "0"
        with_marker = {PROPERTY: written_text(commit.after), RETRIES: "0"}
        change = table.transaction()
        current = _evolve(change, self._columns(table.schema()), schema)
        change.set_properties(with_marker)
        with change.update_snapshot(snapshot_properties=dict(summary_of(commit))).merge_append() as append:
            for path in commit.files:
                append.append_data_file(_data_file(change, self._of_schema(table, path, current)))
        change.commit_transaction()

    def _of_schema(self, table: Table, path: str, schema: Schema) -> StagedFile:
        """The file, with the ids that its columns have in the table; written again when they are others."""
        staged = self._staged[path]
        if staged.schema.as_struct() == schema.as_struct():
            return staged
        rows = self._read(table, path, self._columns(schema))
        again = self._write(table, [rows], path, schema, staged.partition)
        self._staged[path] = again
        return again

    # -- upkeep --------------------------------------------------------------------------------------------------------

    def upkeep(self, rules: UpkeepRules, now_ms: int) -> Upkept:
        table = self._open()
        if table is None:
            return Upkept()
        marker = read_text(table.properties.get(PROPERTY))
        done = self._compact(rules, now_ms)
        table = self._open()
        if table is None or read_text(table.properties.get(PROPERTY)) != marker:
            return done  # another writer has it: his upkeep goes on
        expired = self._expire(table, rules, now_ms)
        removed = 0
        if now_ms >= self._orphans_at_ms:
            self._orphans_at_ms = now_ms + ORPHANS_EVERY_MS
            removed = self._remove_unnamed(rules, now_ms)
        return done._replace(expired_versions=expired, removed_files=removed)

    def _compact(self, rules: UpkeepRules, now_ms: int) -> Upkept:
        made = Upkept()
        table = self._open()
        if table is None:
            return made
        for group in list(_small_groups(table, rules)):
            table = self._open()
            if table is None:
                return made
            table.metadata.properties[RETRIES] = "0"
            if not {task.file.file_path for task in table.scan().plan_files()}.issuperset(
                file.file_path for file in group
            ):
                return made  # somebody else made them one meanwhile
            written = self._one_of(table, group, f"compacted/{now_ms}-{uuid.uuid4().hex[:12]}")
            change = table.transaction()
            try:
                with change.update_snapshot(snapshot_properties={"ottla": "compaction"}).overwrite() as rewrite:
                    for file in group:
                        rewrite.delete_data_file(file)
                    rewrite.append_data_file(_data_file(change, written))
                change.commit_transaction()
            except CommitFailedException:
                _delete(table.io, written.path)
                return made
            made = made._replace(
                compacted_files=made.compacted_files + len(group),
                compacted_bytes=made.compacted_bytes + sum(file.file_size_in_bytes for file in group),
                written_files=made.written_files + 1,
            )
        return made

    def _one_of(self, table: Table, group: Sequence[IcebergDataFile], name: str) -> StagedFile:
        """The rows of some files in one."""
        target = self._columns(table.schema())
        rows = (self._read(table, file.file_path, target) for file in group)
        values = tuple(group[0].partition[place] for place in range(len(table.spec().fields)))
        return self._write(table, rows, f"{table.location()}/{DATA}/{name}.parquet", table.schema(), values)

    def _read(self, table: Table, path: str, target: pa.Schema) -> pa.Table:
        """The rows of a file with all these columns."""
        with table.io.new_input(path).open() as stream:
            rows = pq.read_table(stream)
        plain = plain_schema(rows.schema)
        assert not isinstance(plain, Unfit), "a file of ours has columns of tables"
        return pa.Table.from_batches([fitted(batch, target) for batch in rows.cast(plain).to_batches()], schema=target)

    def _expire(self, table: Table, rules: UpkeepRules, now_ms: int) -> int:
        """Give up versions older than the retention, and those beyond VERSIONS_MAX: each makes every commit dearer."""
        newest_first = sorted(table.snapshots(), key=lambda each: each.timestamp_ms, reverse=True)
        age_ms = min(rules.retention_ms, VERSION_AGE_MS)
        old = [
            each.snapshot_id
            for place, each in enumerate(newest_first)
            if each.timestamp_ms < now_ms - (age_ms if place >= VERSIONS_MAX else rules.retention_ms)
            and each.snapshot_id != _current_id(table)
        ]
        if not old:
            return 0
        table.metadata.properties[RETRIES] = "0"
        try:
            table.maintenance.expire_snapshots().by_ids(old).commit()
        except (CommitFailedException, ValueError):
            return 0  # the table changed beside, or a branch keeps one; the next round finds it
        return len(old)

    def _remove_unnamed(self, rules: UpkeepRules, now_ms: int) -> int:
        """Delete what no snapshot names: the files of expired ones at once, those of killed writers after a day."""
        table = self._open()
        if table is None:
            return 0
        named = _named_files(table)
        removed = 0
        for path, written_ms in _listed(table, (DATA, "metadata")):
            if _key(path) in named or path in self._staged or now_ms - written_ms <= rules.orphan_ms:
                continue
            _delete(table.io, path)
            removed += 1
        return removed


def _current_id(table: Table) -> int | None:
    current = table.current_snapshot()
    return None if current is None else current.snapshot_id


def _key(path: str) -> str:
    """A path without what two spellings of it differ in."""
    return path.split("://", 1)[-1].lstrip("/")


def _named_files(table: Table) -> set[str]:
    """All that the table's metadata names, in any snapshot."""
    metadata = table.metadata
    named = {table.metadata_location, *(each.metadata_file for each in metadata.metadata_log)}
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots:
        named.add(snapshot.manifest_list)
        manifests |= {each.manifest_path: each for each in snapshot.manifests(table.io)}
    for path, manifest in manifests.items():
        named.add(path)
        named |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)}
    named |= {each.statistics_path for each in metadata.statistics}
    return {_key(path) for path in named}


def _listed(table: Table, folders: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The files below the table's own folders, and when they were written."""
    io = table.io
    if not isinstance(io, PyArrowFileIO):
        return
    scheme, netloc, root = PyArrowFileIO.parse_location(table.location())
    store = io.fs_by_scheme(scheme, netloc)
    prefix = table.location()
    for folder in folders:
        selector = pyarrow.fs.FileSelector(f"{root}/{folder}", allow_not_found=True, recursive=True)
        for info in store.get_file_info(selector):
            if info.type == pyarrow.fs.FileType.File:
                inside = info.path.lstrip("/").removeprefix(root.lstrip("/"))
                yield f"{prefix}{inside}", (info.mtime_ns or 0) // 1_000_000


def _delete(io: FileIO, path: str) -> None:
    try:
        io.delete(path)
    except FileNotFoundError:
        pass


def _small_groups(table: Table, rules: UpkeepRules) -> Iterator[list[IcebergDataFile]]:
    """Files of one part that are worth to be made one, as many as one round may do."""
    by_part: dict[str, list[IcebergDataFile]] = {}
    for task in table.scan().plan_files():
        file = task.file
        if file.file_size_in_bytes * 2 < rules.file_bytes and file.spec_id == table.metadata.default_spec_id:
            by_part.setdefault(str(file.partition), []).append(file)
    left = rules.round_bytes
    for small in by_part.values():
        group: list[IcebergDataFile] = []
        for file in sorted(small, key=lambda each: each.file_path):
            size = file.file_size_in_bytes
            if group and sum(each.file_size_in_bytes for each in group) + size > rules.file_bytes:
                yield group
                group = []
            if size > left:
                break
            left -= size
            group.append(file)
        if len(group) > 1:
            yield group


# -- schemas and specs -------------------------------------------------------------------------------------------------


def _evolve(change: Transaction, known: pa.Schema, schema: pa.Schema) -> Schema:
    """Bring the columns of the table to these, as a part of the transaction; what they are then."""
    if known != schema:
        with change.update_schema() as update:
            update.union_by_name(schema)
    return change.table_metadata.schema()


def _evolved(table: Table, schema: pa.Schema) -> Schema:
    """What the table's schema will be when it has these columns."""
    known = plain_schema(schema_to_pyarrow(table.schema(), include_field_ids=False))
    assert not isinstance(known, Unfit), "it was loaded"
    return _evolve(table.transaction(), known, schema)


def _data_file(change: Transaction, staged: StagedFile) -> IcebergDataFile:
    metadata = change.table_metadata
    schema = metadata.schema()
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=staged.metadata,
        stats_columns=compute_statistics_plan(schema, metadata.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    return IcebergDataFile.from_args(
        content=DataFileContent.DATA,
        file_path=staged.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*staged.partition),
        file_size_in_bytes=staged.size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _transform(field: PartitionField) -> Transform[Any, Any]:
    return BucketTransform(field.buckets) if field.transform == BUCKET else TRANSFORMS[field.transform]()


def _spec(schema: Schema, fields: Sequence[PartitionField]) -> PartitionSpec:
    """The spec of a new table."""
    if not fields:
        return UNPARTITIONED_PARTITION_SPEC
    return PartitionSpec(
        *(
            IcebergField(
                source_id=schema.find_field(field.column).field_id,
                field_id=FIRST_FIELD + number,
                transform=_transform(field),
                name=column_name(field),
            )
            for number, field in enumerate(fields)
        )
    )


def _inner(value: Any) -> Any:
    """A partition value as Iceberg's metadata has it."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value - EPOCH) // timedelta(days=1)
    return value


def _plain_location(location: str) -> str:
    """Where the files are; a local path without its escapes, as pyiceberg opens it."""
    path = local_path(location)
    return location if path is None else f"file://{path}"
