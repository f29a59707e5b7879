"""How a task reads its part of an archive: row groups in order, merged where they overlap.

1. Every record of the range and of the times asked for, once, in the order of offsets. A record that is there twice
   is an error: no archive of ours has one, and to write it twice would be wrong.
2. Row groups that do not overlap are read one after another; those that do are sorted together in memory. That is
   bounded by the range, which is no larger than a batch of the replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow
from pyarrow import compute, parquet

from ottla.errors import OttlaError
from ottla.spark.jobs.archive_index import RowGroup, open_archive
from ottla.spark.running.arrow_types import as_arrow

if TYPE_CHECKING:
    from ottla.spark.jobs.archive_source import ArchiveSlice, Piece

COLUMNS: Final = ("key", "value", "headers", "offset", "timestamp")
ROWS: Final = 10_000


class ArchiveDamaged(OttlaError):
    """The archive has a record twice. Were two archives copied into one directory? Replay them one by one."""


def read_piece(wanted: ArchiveSlice, piece: Piece) -> Iterator[pyarrow.RecordBatch]:
    """The records of one range as Spark wants them."""
    from ottla.spark.jobs.archive_source import ROW_SCHEMA

    schema = as_arrow(ROW_SCHEMA)
    files, _ = open_archive(wanted.path)
    before = piece.range.start - 1
    for groups in overlapping(piece.groups):
        tables = [_read(files, wanted, piece, group) for group in groups]
        table = pyarrow.concat_tables(tables)
        if len(groups) > 1:
            table = table.sort_by("offset")
        before = _check_order(table.column("offset"), before, piece)
        for batch in table.to_batches(max_chunksize=ROWS):
            yield _as_rows(batch, piece, schema)


def overlapping(groups: Iterable[RowGroup]) -> Iterator[list[RowGroup]]:
    """Row groups in the order of their first offsets, those together that overlap."""
    together: list[RowGroup] = []
    end = -1
    for group in groups:
        if together and group.first > end:
            yield together
            together = []
        together.append(group)
        end = max(end, group.last)
    if together:
        yield together


def _read(files: Any, wanted: ArchiveSlice, piece: Piece, group: RowGroup) -> pyarrow.Table:
    """The records of a row group that are in the range, and in the times asked for."""
    with files.open_input_file(group.path) as opened:
        table = parquet.ParquetFile(opened).read_row_group(group.number, columns=list(COLUMNS), use_threads=False)
    offset = table.column("offset")
    keep = compute.and_(
        compute.greater_equal(offset, piece.range.start),
        compute.less(offset, piece.range.end),
    )
    # Times are whole milliseconds, as records have them.
    times = compute.divide(table.column("timestamp").cast(pyarrow.timestamp("us", "UTC")).cast(pyarrow.int64()), 1000)
    if wanted.since_ms is not None:
        keep = compute.and_(keep, compute.greater_equal(times, wanted.since_ms))
    if wanted.until_ms is not None:
        keep = compute.and_(keep, compute.less(times, wanted.until_ms))
    return table.filter(keep)


def _check_order(offsets: Any, before: int, piece: Piece) -> int:
    """The last offset, if all grow from `before` on."""
    if not len(offsets):
        return before
    whole = offsets.combine_chunks()
    steps = compute.pairwise_diff(whole)
    twice = compute.index(compute.less_equal(steps, 0), True).as_py()
    if whole[0].as_py() <= before:
        twice = 0
    if twice >= 0:
        raise ArchiveDamaged(f"offset {whole[twice].as_py()} of {piece.range.topic}-{piece.range.partition}")
    last: int = whole[-1].as_py()
    return last


def _as_rows(batch: Any, piece: Piece, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    count = batch.num_rows
    computed = {
        "topic": pyarrow.repeat(pyarrow.scalar(piece.range.topic), count),
        "partition": pyarrow.repeat(pyarrow.scalar(piece.range.partition, pyarrow.int32()), count),
    }
    columns = [computed[field.name] if field.name in computed else batch.column(field.name) for field in schema]
    cast = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pyarrow.RecordBatch.from_arrays(cast, schema=schema)
