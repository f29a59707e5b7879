"""Is each record of a topic in its table, once? Partition by partition: the offsets of both sides, and nothing else.

1. Of the log it reads what lies below the marker and is still there, read_committed; what retention took from the log
   cannot be compared, and is left out on both sides.
2. A record that was a bad one has no row and counts as missing: only its topic of dead letters knows of it.
3. Memory: the offsets of one partition, eight bytes each, twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.light_tuples import NamedTuple
from ottla.tables.finding import OFFSET, PARTITION

if TYPE_CHECKING:
    from ottla.tables.cluster import Cluster
    from ottla.tables.finding import TableSnapshot, TopicTable


class CheckedPartition(NamedTuple):
    """What was found for one partition."""

    partition: int
    next_offset: int
    rows: int
    doubled: int
    missing: int
    strange: int


def check_table(where: TopicTable, snapshot: TableSnapshot, cluster: Cluster) -> list[CheckedPartition]:
    """Each partition of the marker."""
    assert snapshot.marker is not None, "a table of ours"
    described = cluster.describe(where.topic)
    table = where.opened()
    columns = pa.concat_tables([_offsets(table, file.uri) for file in snapshot.files]) if snapshot.files else None
    found = []
    for partition, end in sorted(snapshot.marker.next_offsets.items()):
        begin = described.partitions[partition].log_start
        rows = pa.chunked_array([], pa.int64())
        if columns is not None:
            rows = columns.filter(pc.equal(columns[PARTITION], partition))[OFFSET]
        found.append(
            _compared(partition, end, rows, _of_log(where, described.topic_id, partition, begin, end, cluster))
        )
    return found


def _offsets(table: Any, uri: str) -> pa.Table:
    with table.open_file(uri) as stream:
        return pq.read_table(stream, columns=[PARTITION, OFFSET]).cast(
            pa.schema([(PARTITION, pa.int32()), (OFFSET, pa.int64())])
        )


def _of_log(
    where: TopicTable, topic_id: str, partition: int, begin: int, end: int, cluster: Cluster
) -> tuple[int, pa.ChunkedArray]:
    if begin >= end:
        return begin, pa.chunked_array([], pa.int64())
    batches = cluster.read(where.topic, topic_id, {partition: (begin, end)})
    return begin, pa.chunked_array([batch.column(OFFSET) for batch in batches], pa.int64())


def _compared(partition: int, end: int, rows: pa.ChunkedArray, log: tuple[int, pa.ChunkedArray]) -> CheckedPartition:
    begin, offsets = log
    distinct = pc.unique(rows)
    comparable = distinct.filter(pc.greater_equal(distinct, begin))
    missing = pc.sum(pc.invert(pc.is_in(offsets, value_set=comparable))).as_py() or 0
    strange = pc.sum(pc.invert(pc.is_in(comparable, value_set=offsets.combine_chunks()))).as_py() or 0
    return CheckedPartition(partition, end, len(rows), len(rows) - len(distinct), missing, strange)
