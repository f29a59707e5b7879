"""Which files of an archive hold which offsets: what a replay is planned from.

1. Read from the names of directories and the footers of the files, not from the records: every row group of Parquet
   knows its least and greatest offset.
2. Row groups of a partition are in the order of their first offsets. They may overlap, because an archive sorts by date
   and records need not come in the order of their time; row groups of different batches never do.
3. How far a batch of the replay goes follows from the row groups: about as many records as the limit says, never less
   than one, so a replay always moves.
4. Only batches that the archive has committed count (archive_commits.py): of any other a part may be missing, and a
   replay that has passed an offset never comes back to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final
from urllib.parse import unquote

from ottla.light_dataclasses import dataclass
from ottla.spark.jobs.archive_commits import NotAnArchive, last_committed_batch
from ottla.spark.source.ranges import OffsetRange
from ottla.values import TopicPartition

NEEDED: Final = ("value", "offset", "timestamp")
FILES_LIMIT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Records of one partition that lie together in a file."""

    partition: TopicPartition
    path: str
    number: int
    first: int
    last: int
    rows: int
    day: date | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """What the directories of a file say."""

    partition: TopicPartition
    day: date | None
    batch: int


def place_of(path: str) -> Place | None:
    """The place of a file; None for what is no data: hidden files, and files of something else."""
    *directories, name = path.strip("/").split("/")
    if not name.endswith(".parquet") or any(each.startswith(("_", ".")) for each in (*directories, name)):
        return None
    columns = dict(each.split("=", 1) for each in directories if "=" in each)
    if "topic" not in columns or not columns.get("partition", "").isdecimal():
        return None
    if not columns.get("batch", "").isdecimal():
        raise NotAnArchive(f"{path} is in no directory batch=…")
    day = date.fromisoformat(columns["date"]) if "date" in columns else None
    return Place(TopicPartition(unquote(columns["topic"]), int(columns["partition"])), day, int(columns["batch"]))


class ArchiveIndex:
    """The row groups of an archive, of the topics that are asked for."""

    def __init__(self, groups: Iterable[RowGroup], *, unfinished: int | None = None) -> None:
        self.unfinished = unfinished
        """The number of a batch that is there in part, or was not committed yet; its records are not in the index."""
        self._groups: dict[TopicPartition, list[RowGroup]] = {}
        for group in sorted(groups, key=lambda each: (each.partition, each.first, each.last, each.path, each.number)):
            self._groups.setdefault(group.partition, []).append(group)

    @property
    def begins(self) -> dict[TopicPartition, int]:
        return {partition: groups[0].first for partition, groups in self._groups.items()}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        return {partition: max(each.last for each in groups) + 1 for partition, groups in self._groups.items()}

    @property
    def partition_counts(self) -> dict[str, int]:
        """At least so many partitions each topic had."""
        found: dict[str, int] = {}
        for partition in self._groups:
            found[partition.topic] = max(found.get(partition.topic, 0), partition.partition + 1)
        return found

    def within(self, wanted: OffsetRange) -> list[RowGroup]:
        """The row groups that hold offsets of a range."""
        groups = self._groups.get(TopicPartition(wanted.topic, wanted.partition), [])
        return [each for each in groups if each.first < wanted.end and each.last >= wanted.start]

    def ends_after(self, positions: Mapping[TopicPartition, int], records: int) -> dict[TopicPartition, int]:
        """How far a batch goes that begins at these positions: about `records` in all, in equal shares."""
        ends = self.ends
        waiting = [each for each in ends if positions.get(each, 0) < ends[each]]
        share = max(records // max(len(waiting), 1), 1)
        made = dict(positions)
        for partition in waiting:
            made[partition] = self._end_after(partition, positions.get(partition, 0), share)
        return made

    def _end_after(self, partition: TopicPartition, position: int, share: int) -> int:
        """A row group that does not fit is cut at an offset; gaps in it make the batch smaller, not larger."""
        end = position
        for group in self._groups[partition]:
            if group.last < end:
                continue
            begin = max(group.first, end)
            end = min(group.last + 1, begin + share)
            share -= end - begin
            if share <= 0:
                break
        return end


# --- reading it ------------------------------------------------------------------------------------------------------


def open_archive(path: str) -> tuple[Any, str]:
    """The file system of a path or address, and the path there."""
    from pyarrow import fs

    if "://" not in path:
        return fs.LocalFileSystem(), path
    found: tuple[Any, str] = fs.FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
    return found


def read_index(path: str, *, topics: Sequence[str] = (), days: tuple[date | None, date | None]) -> ArchiveIndex:
    """The index of an archive: of these topics (all when there are none), between two days, both included."""
    files, root = open_archive(path)
    committed = last_committed_batch(files, root)
    found: list[RowGroup] = []
    unfinished: int | None = None
    for file, place in _files(files, root):
        if (topics and place.partition.topic not in topics) or not _is_between(place.day, days):
            continue
        if place.batch > committed:
            unfinished = place.batch
        else:
            found += _row_groups(files, file, place)
    return ArchiveIndex(found, unfinished=unfinished)


def _files(files: Any, root: str) -> Iterator[tuple[str, Place]]:
    from pyarrow import fs

    listed = files.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    if len(listed) > FILES_LIMIT:
        raise NotAnArchive(f"{root} has more than {FILES_LIMIT:,} files; replay it topic by topic")
    found = False
    for each in listed:
        relative = each.path[len(root.rstrip("/")) :]
        if each.is_file and (place := place_of(relative)) is not None:
            found = True
            yield each.path, place
    if not found:
        raise NotAnArchive(f"no topic=…/partition=… in {root}")


def _is_between(day: date | None, days: tuple[date | None, date | None]) -> bool:
    first, last = days
    return day is None or ((first is None or day >= first) and (last is None or day <= last))


def _row_groups(files: Any, path: str, place: Place) -> Iterator[RowGroup]:
    from pyarrow import parquet

    with files.open_input_file(path) as opened:
        footer = parquet.ParquetFile(opened).metadata
    names = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    if missing := [name for name in NEEDED if name not in names]:
        raise NotAnArchive(f"{path} has no column {missing[0]!r}")
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        statistics = group.column(names["offset"]).statistics
        if statistics is None or not statistics.has_min_max:
            raise NotAnArchive(f"{path} does not say which offsets it has")
        yield RowGroup(place.partition, path, number, statistics.min, statistics.max, group.num_rows, place.day)
