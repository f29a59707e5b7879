"""Where an archive keeps what: paths that every reader of Parquet understands.

    clicks-archive/
      topic=clicks/partition=0/date=2026-11-15/batch=12/part-….parquet      with --hour also hour=13 before batch
      _ottla/plan                what the archive is of; another run must ask for the same
      _ottla/topics              how many partitions each topic had when the last run ended
      _ottla/checkpoint          where the stream is, kept by Spark

    key, value          binary, as they were written
    headers             array<struct<key string, value binary>>
    offset, timestamp, timestampType
    topic, partition, date, hour, batch                                      in the path

1. Date and hour are those of the record's timestamp in UTC, whatever the session's time zone is.
2. `batch` is the number of the stream's batch. A batch that is run again after a crash replaces its own directories,
   and no other's: so every record is there exactly once, for every reader, without a list of valid files beside it.
3. Names that begin with _ or . are passed over by readers of such directories.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.spark.jobs.reading import ReadPlan

VERSION: Final = 1
STATE: Final = "_ottla"
DATA_COLUMNS: Final = ("key", "value", "headers", "offset", "timestamp", "timestampType")


class OtherArchive(OttlaError):
    """The directory holds an archive of something else. Give the same topics and options, or another directory."""


@dataclass(frozen=True, slots=True)
class ArchiveLayout:
    """One archive. The path is whatever Spark takes: a local one, hdfs://, s3a:// and so on."""

    path: str
    by_hour: bool = False

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return ("topic", "partition", "date", *(("hour",) if self.by_hour else ()), "batch")

    @property
    def checkpoint(self) -> str:
        return self.state("checkpoint")

    def state(self, name: str) -> str:
        return posixpath.join(self.path, STATE, name)


def plan_text(layout: ArchiveLayout, reading: ReadPlan) -> str:
    """What an archive is of. What may differ from run to run (limits, addresses) is not in it."""
    plan = {
        "version": VERSION,
        "hour": layout.by_hour,
        "isolationLevel": reading.isolation_level,
        **reading.chosen,
    }
    return json.dumps(plan, sort_keys=True)


def check_plan(found: str, asked: str) -> None:
    """Whether a run may go on with the archive that is there."""
    if found == asked:
        return
    before, now = _read(found), _read(asked)
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    shown = "; ".join(f"{name} is {before.get(name)!r}, asked for is {now.get(name)!r}" for name in names)
    raise OtherArchive(shown)


def _read(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise OtherArchive("its plan cannot be read")
    return found


def topics_text(counts: Mapping[str, int]) -> str:
    """How many partitions each topic has."""
    return json.dumps({"version": VERSION, "topics": dict(sorted(counts.items()))}, sort_keys=True)


def read_topics(text: str) -> dict[str, int]:
    topics = _read(text).get("topics", {})
    if not isinstance(topics, dict):
        raise OtherArchive("its list of topics cannot be read")
    return {str(topic): int(count) for topic, count in topics.items()}
