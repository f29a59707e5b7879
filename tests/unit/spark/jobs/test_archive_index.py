"""The plan of a replay: every record once, in order, in batches that are the same when they are planned again."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

from ottla.spark.jobs.archive_commits import NotAnArchive
from ottla.spark.jobs.archive_index import ArchiveIndex, RowGroup, place_of, read_index
from ottla.spark.jobs.archive_reading import ArchiveDamaged, overlapping, read_piece
from ottla.spark.jobs.archive_source import ArchiveReader, ArchiveSlice
from ottla.values import TopicPartition

CLICKS = TopicPartition("clicks", 0)
ALL_DAYS = (None, None)


def group(first: int, last: int, *, partition: TopicPartition = CLICKS, path: str = "f", rows: int = 0) -> RowGroup:
    return RowGroup(partition, path, 0, first, last, rows or last - first + 1)


def test_the_place_of_a_file_is_in_its_directories() -> None:
    found = place_of("/topic=a%20b/partition=7/date=2026-11-01/hour=3/batch=1/part-0.snappy.parquet")
    assert found is not None
    assert (found.partition, found.day, found.batch) == (TopicPartition("a b", 7), date(2026, 11, 1), 1)


@pytest.mark.parametrize(
    "path",
    [
        "/_ottla/checkpoint/topic=a/partition=0/x.parquet",
        "/.spark-staging-1/topic=a/partition=0/x.parquet",
        "/topic=a/partition=0/_SUCCESS",
        "/topic=a/partition=0/.x.parquet.crc",
        "/topic=a/x.parquet",
        "/topic=a/partition=x/x.parquet",
    ],
)
def test_what_is_no_data_is_passed_over(path: str) -> None:
    assert place_of(path) is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 2)), min_size=1, max_size=12),
    st.integers(1, 30),
)
def test_batches_reach_the_end_and_none_is_larger_than_its_limit(
    pieces: list[tuple[int, int, int]], records: int
) -> None:
    ends = {0: 0, 1: 0, 2: 0}
    groups = []
    for gap, size, partition in pieces:
        first = ends[partition] + gap
        ends[partition] = first + size
        groups.append(group(first, first + size - 1, partition=TopicPartition("t", partition)))
    index = ArchiveIndex(groups)
    positions, steps = dict(index.begins), 0
    while positions != index.ends:
        after = index.ends_after(positions, records)
        read = sum(
            max(0, min(each.last + 1, after[each.partition]) - max(each.first, positions[each.partition]))
            for each in groups
        )
        assert 1 <= read <= max(records, 3)
        positions, steps = after, steps + 1
    assert steps <= sum(size for _, size, _ in pieces)
    assert index.ends_after(positions, records) == positions


def test_row_groups_that_overlap_are_read_together() -> None:
    groups = [group(0, 5), group(3, 4), group(5, 9), group(10, 12)]
    assert list(overlapping(groups)) == [groups[:3], groups[3:]]


# --- with files ---


def commit(root: Path, batch: int) -> None:
    """As Spark does when all directories of a batch are written."""
    log = root / "_ottla" / "checkpoint" / "commits"
    log.mkdir(parents=True, exist_ok=True)
    (log / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def write(root: Path, place: str, offsets: list[int], *, committed: bool = True) -> None:
    import pyarrow
    from pyarrow import parquet

    directory = root / place
    directory.mkdir(parents=True, exist_ok=True)
    table = {
        "key": [b"k%d" % each for each in offsets],
        "value": [None if each % 3 == 0 else b"v%d" % each for each in offsets],
        "headers": [[{"key": "h", "value": b"1"}] if each % 2 else None for each in offsets],
        "offset": offsets,
        "timestamp": [datetime.fromtimestamp(each, UTC) for each in offsets],
    }
    types = {
        "key": pyarrow.binary(),
        "value": pyarrow.binary(),
        "headers": pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])),
        "offset": pyarrow.int64(),
        "timestamp": pyarrow.timestamp("us", "UTC"),
    }
    made = pyarrow.table(table, schema=pyarrow.schema(list(types.items())))
    parquet.write_table(made, directory / "part-0.parquet", row_group_size=3)
    if committed:
        commit(root, int(place.rpartition("batch=")[2]))


def replayed(root: Path, **options: Any) -> dict[TopicPartition, list[int]]:
    """All batches of a replay, planned and read as Spark does."""
    from pyspark.sql.streaming.datasource import ReadMaxRows

    wanted = ArchiveSlice(str(root), **options)
    reader = ArchiveReader(wanted)
    start = reader.initialOffset()
    found: dict[TopicPartition, list[int]] = {}
    while (end := reader.latestOffset(start, ReadMaxRows(wanted.batch_records))) != start:
        for task in reader.partitions(start, end):
            for batch in reader.read(task):
                for row in batch.to_pylist():
                    found.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row["offset"])
        start = end
    return found


@pytest.mark.parametrize("records", [1, 2, 5, 100])
def test_a_replay_reads_every_record_once_and_in_order(tmp_path: Path, records: int) -> None:
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=0", [0, 2, 3, 6, 9])
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-02/batch=0", [1, 4, 5, 7])
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-02/batch=1", [20, 21])
    write(tmp_path, "topic=clicks/partition=1/date=2026-11-01/batch=1", [5])
    write(tmp_path, "topic=other/partition=0/date=2026-11-01/batch=1", [0])
    assert replayed(tmp_path, batch_records=records) == {
        TopicPartition("clicks", 0): [0, 1, 2, 3, 4, 5, 6, 7, 9, 20, 21],
        TopicPartition("clicks", 1): [5],
        TopicPartition("other", 0): [0],
    }
    assert set(replayed(tmp_path, topics=("other",))) == {TopicPartition("other", 0)}


def test_times_choose_records_and_not_only_files(tmp_path: Path) -> None:
    write(tmp_path, "topic=clicks/partition=0/date=1970-01-01/batch=0", [1, 2, 3, 4])
    write(tmp_path, "topic=clicks/partition=0/date=1970-01-02/batch=0", [86_400, 86_401])
    assert replayed(tmp_path, since_ms=2_000, until_ms=4_000) == {CLICKS: [2, 3]}
    assert replayed(tmp_path, since_ms=4_000, until_ms=86_401_000) == {CLICKS: [4, 86_400]}


def test_rows_are_as_they_were_written(tmp_path: Path) -> None:
    from ottla.spark.jobs.archive_source import Piece
    from ottla.spark.source.ranges import OffsetRange

    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=0", [1, 3])
    wanted = ArchiveSlice(str(tmp_path))
    wide = OffsetRange("clicks", 0, 0, 10)
    piece = Piece(wide, tuple(wanted.index().within(wide)))
    (batch,) = read_piece(wanted, piece)
    headers = [{"key": "h", "value": b"1"}]
    moment = datetime.fromtimestamp(1, UTC)
    assert batch.to_pylist()[0] == {
        "key": b"k1",
        "value": b"v1",
        "headers": headers,
        "topic": "clicks",
        "partition": 0,
        "offset": 1,
        "timestamp": moment,
    }
    assert batch.to_pylist()[1]["value"] is None


def test_a_record_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=0", [1, 2])
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=1", [2, 3])
    with pytest.raises(ArchiveDamaged, match="offset 2 of clicks-0"):
        replayed(tmp_path)


def test_a_directory_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    with pytest.raises(NotAnArchive):
        read_index(str(tmp_path / "missing"), days=ALL_DAYS)
    directory = tmp_path / "topic=a" / "partition=0"
    directory.mkdir(parents=True)
    commit(tmp_path, 0)
    parquet.write_table(pyarrow.table({"value": [b"x"]}), directory / "x.parquet")
    with pytest.raises(NotAnArchive, match="is in no directory batch="):
        read_index(str(tmp_path), days=ALL_DAYS)
    (directory / "batch=0").mkdir()
    (directory / "x.parquet").rename(directory / "batch=0" / "x.parquet")
    with pytest.raises(NotAnArchive, match="no column 'offset'"):
        read_index(str(tmp_path), days=ALL_DAYS)


def test_an_archive_that_grew_gives_the_same_batch_again(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadMaxRows

    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=0", [0, 1, 2])
    reader = ArchiveReader(ArchiveSlice(str(tmp_path)))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(100))
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=1", [3, 4])
    write(tmp_path, "topic=clicks/partition=1/date=2026-11-01/batch=1", [0])
    again = ArchiveReader(ArchiveSlice(str(tmp_path)))
    assert again.partitions(start, end) == reader.partitions(start, end)
    after = again.latestOffset(end, ReadMaxRows(100))
    offsets = [
        row["offset"]
        for task in again.partitions(end, after)
        for batch in again.read(task)
        for row in batch.to_pylist()
    ]
    assert sorted(offsets) == [0, 3, 4]


# --- batches that are not whole ---


def test_a_batch_that_is_there_in_part_is_not_replayed_until_it_is_committed(tmp_path: Path) -> None:
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=0", [0, 1, 2])
    # Offsets 3 and 5 are of another day, and their directory is still to come.
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-02/batch=1", [4, 6], committed=False)
    assert replayed(tmp_path) == {CLICKS: [0, 1, 2]}
    assert read_index(str(tmp_path), days=ALL_DAYS).unfinished == 1
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=1", [3, 5])
    assert replayed(tmp_path) == {CLICKS: [0, 1, 2, 3, 4, 5, 6]}
    assert read_index(str(tmp_path), days=ALL_DAYS).unfinished is None


def test_a_replay_that_was_done_goes_on_with_the_batch_that_was_there_in_part(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadMaxRows

    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=0", [0, 1, 2])
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-02/batch=1", [4, 6], committed=False)
    before = ArchiveReader(ArchiveSlice(str(tmp_path)))
    done = before.latestOffset(before.initialOffset(), ReadMaxRows(100))
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=1", [3, 5])
    reader = ArchiveReader(ArchiveSlice(str(tmp_path)))
    tasks = reader.partitions(done, reader.latestOffset(done, ReadMaxRows(100)))
    assert [row["offset"] for task in tasks for batch in reader.read(task) for row in batch.to_pylist()] == [3, 4, 5, 6]


def test_commits_that_spark_has_removed_count_by_the_later_ones(tmp_path: Path) -> None:
    for batch in range(3):
        write(tmp_path, f"topic=clicks/partition=0/date=2026-11-01/batch={batch}", [batch], committed=False)
    commit(tmp_path, 1)
    (tmp_path / "_ottla" / "checkpoint" / "commits" / ".2.4711.tmp").write_text("half")
    assert replayed(tmp_path) == {CLICKS: [0, 1]}


def test_an_archive_without_its_checkpoint_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=0", [0], committed=False)
    with pytest.raises(NotAnArchive, match="has no _ottla/checkpoint"):
        read_index(str(tmp_path), days=ALL_DAYS)


def test_an_archive_whose_first_batch_is_being_written_has_nothing_to_replay(tmp_path: Path) -> None:
    from ottla.spark.jobs.archive_commits import ArchiveUnfinished
    from ottla.spark.jobs.replay import counts_of

    write(tmp_path, "topic=clicks/partition=0/date=2026-11-01/batch=0", [0], committed=False)
    (tmp_path / "_ottla" / "checkpoint").mkdir(parents=True)
    no_spark: Any = None
    with pytest.raises(ArchiveUnfinished, match="batch 0"):
        counts_of(no_spark, ArchiveSlice(str(tmp_path)))
