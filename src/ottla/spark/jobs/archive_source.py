"""An archive as a stream of its records in their old order: what a replay reads. Spark knows it as "ottla-archive".

    register_source(spark, ArchiveSource)
    rows = spark.readStream.format("ottla-archive").option("path", "clicks-archive").load()

Spark's own Parquet stream gives files in the order of their age and rows in no order at all, so this is one of ours.

1. A batch is a range of old offsets of every partition; what it reads, and in which tasks, follows from the two offsets
   that Spark keeps (offsets.py, ranges.py), so that a batch that is run again is the same batch.
2. The records of a partition are read by one task of a batch, in the order of their offsets.
3. An archive that grows meanwhile is read up to what there was when the run began.
Options: path; topics (with commas; all); since, until (milliseconds; until is excluded); records (of a batch).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from ottla.light_dataclasses import dataclass
from ottla.spark.jobs.archive_index import ArchiveIndex, RowGroup, read_index
from ottla.spark.running.arrival import Arriving
from ottla.spark.running.cores import core_count
from ottla.spark.source.offsets import Packing, StreamOffset
from ottla.spark.source.ranges import OffsetRange, plan, ranges_between
from ottla.spark.source.schema import HEADERS_TYPE

if TYPE_CHECKING:
    from pyarrow import RecordBatch

NAME: Final = "ottla-archive"
BATCH_RECORDS: Final = 500_000
ROW_SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS_TYPE),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
    ]
)


@dataclass(frozen=True, slots=True)
class ArchiveSlice:
    """What of an archive is read."""

    path: str
    topics: tuple[str, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    batch_records: int = BATCH_RECORDS

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ArchiveSlice:
        def number(name: str) -> int | None:
            return int(options[name]) if name in options else None

        topics = tuple(each for each in options.get("topics", "").split(",") if each)
        return cls(options["path"], topics, number("since"), number("until"), number("records") or BATCH_RECORDS)

    def options(self) -> dict[str, str]:
        """The same as Spark takes it."""
        numbers = {"since": self.since_ms, "until": self.until_ms, "records": self.batch_records}
        made = {name: str(value) for name, value in numbers.items() if value is not None}
        return made | {"path": self.path} | ({"topics": ",".join(self.topics)} if self.topics else {})

    def index(self) -> ArchiveIndex:
        last_ms = None if self.until_ms is None else self.until_ms - 1
        return read_index(self.path, topics=self.topics, days=(_day(self.since_ms), _day(last_ms)))


def _day(moment_ms: int | None) -> date | None:
    return None if moment_ms is None else datetime.fromtimestamp(moment_ms / 1000, UTC).date()


@dataclass(frozen=True, slots=True)
class Piece:
    """A range and the row groups that hold it."""

    range: OffsetRange
    groups: tuple[RowGroup, ...]


@dataclass(frozen=True)
class ReplayTask(InputPartition):
    """What one task reads, in this order."""

    pieces: tuple[Piece, ...]


class ArchiveSource(Arriving, DataSource):
    """Told to Spark by register(); the options are those of an ArchiveSlice."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return ROW_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return ArchiveReader(ArchiveSlice.of(dict(self.options)))


class ArchiveReader(Arriving, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side, and `read` in the tasks."""

    def __init__(self, wanted: ArchiveSlice) -> None:
        self._wanted = wanted
        self._index: ArchiveIndex | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_wanted": self._wanted, "_index": None}

    @property
    def _known(self) -> ArchiveIndex:
        if self._index is None:
            self._index = self._wanted.index()
        return self._index

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._index = self._wanted.index()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return StreamOffset(self._known.begins, packing=Packing(core_count())).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._wanted.batch_records)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        known = StreamOffset.from_json(start)
        records = limit.max_rows if isinstance(limit, ReadMaxRows) else 2**63 - 1
        begins = {**self._known.begins, **known.positions}
        ends = self._known.ends_after(begins, records)
        if ends == dict(known.positions):
            return start
        new = {partition: begin for partition, begin in begins.items() if partition not in known.positions}
        return StreamOffset(ends, packing=Packing(core_count()), begins=new).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return StreamOffset(self._known.ends).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        until = StreamOffset.from_json(end)
        tasks = plan(ranges_between(StreamOffset.from_json(start), until), until.packing)
        return [
            ReplayTask(tuple(Piece(each, tuple(self._known.within(each))) for each in task.ranges)) for task in tasks
        ]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        # Loaded by the worker only: the driver needs none of it.
        from ottla.spark.jobs.archive_reading import read_piece

        assert isinstance(partition, ReplayTask), "it was planned by us"
        for piece in partition.pieces:
            yield from read_piece(self._wanted, piece)
