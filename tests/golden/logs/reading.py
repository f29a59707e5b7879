"""The golden logs, unpacked, and what is expected of them, as values.

    for archive in ARCHIVES:
        logs = unpack(archive, tmp_path)
        logs.data                               the log directory
        logs.partitions["codecs-0"].records     what a consumer of Kafka's reads from it

`expected.json` has per partition

    records     [offset, timestamp, key, value, [[header key, header value], ...], leader epoch], one per record
    committed   the offsets of those that a reader of committed records gets
    bounds      per isolation level [first offset, end offset]
    times       [timestamp asked for, null or [timestamp, offset, leader epoch]]
    latest      [timestamp, offset, leader epoch] of the first record with the latest timestamp
    files       what DumpLogSegments says of every file, see dump_log_segments.py

Keys and values are text with one character per byte. `__cluster_metadata` has only `files`: no consumer reads it.
"""

import json
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

ARCHIVES = sorted(Path(__file__).parent.glob("kafka-*.tar.xz"))
# What every topic in the archives was created with.
SETTINGS = TopicSettings(
    {
        "internal.segment.bytes": 8192,
        "segment.index.bytes": 1200,
        "index.interval.bytes": 300,
        "retention.ms": -1,
    }
)
COMPACTED = {"cleanup.policy": "compact"}
OWN_SETTINGS = {
    "compacted": COMPACTED,
    "forgotten": COMPACTED,
    "__consumer_offsets": COMPACTED,
    "__transaction_state": COMPACTED,
    "times": {"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"},
}


class Row(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


@dataclass(frozen=True)
class ExpectedPartition:
    """What Apache Kafka says of one partition."""

    name: TopicPartition
    directory: Path
    records: list[Row]
    committed: list[Row]
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    times: list[tuple[int, tuple[int, int, int] | None]]
    latest: tuple[int, int, int] | None
    files: dict[str, list[dict[str, Any]]]

    def rows_of(self, suffix: str) -> dict[int, list[dict[str, Any]]]:
        """The dump of all files of one kind, by the offset in their name."""
        kind = {name: rows for name, rows in self.files.items() if name.endswith(suffix)}
        return {int(name.removesuffix(suffix)): rows for name, rows in sorted(kind.items())}

    @property
    def batches(self) -> list[dict[str, Any]]:
        """The header of every batch, in order."""
        return [row for rows in self.rows_of(".log").values() for row in rows]

    @property
    def settings(self) -> TopicSettings:
        return SETTINGS.for_topic(OWN_SETTINGS.get(self.name.topic, {}))

    @property
    def has_consumers(self) -> bool:
        return self.latest is not None

    def first_at_or_after(self, timestamp_ms: int) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record that is not older, by looking at all of them."""
        found = (row for row in self.records if row.timestamp_ms >= timestamp_ms)
        return next(((row.timestamp_ms, row.offset, row.leader_epoch) for row in found), None)

    @property
    def last_timestamp_ms(self) -> int:
        """When the last batch was written, or a little before."""
        return max(int(batch.get("LogAppendTime", batch.get("CreateTime", 0))) for batch in self.batches)


@dataclass(frozen=True)
class GoldenLogs:
    """One archive on the disk."""

    kafka: str
    is_clean: bool
    data: Path
    partitions: dict[str, ExpectedPartition]

    def moved(self, data: Path) -> "GoldenLogs":
        """The same, when the data directory was copied to another place."""
        partitions = {name: replace(each, directory=data / name) for name, each in self.partitions.items()}
        return replace(self, data=data, partitions=partitions)

    def left(self, *, clean: bool) -> "GoldenLogs":
        """The same, to be opened as if the last stop had been in order, or not."""
        return replace(self, is_clean=clean)


def unpack(archive: Path, directory: Path) -> GoldenLogs:
    """Put an archive's data directory into `directory`."""
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    expected = json.loads((directory / "expected.json").read_text())
    data = directory / "data"
    partitions = {name: _partition(name, data, facts) for name, facts in expected["partitions"].items()}
    return GoldenLogs(expected["kafka"], expected["stop"] == "clean", data, partitions)


def _partition(name: str, data: Path, facts: dict[str, Any]) -> ExpectedPartition:
    topic, _, number = name.rpartition("-")
    records = [row_of(*fields) for fields in facts.get("records", ())]
    committed = set(facts.get("committed", ()))
    end_offset = (
        max(row["lastOffset"] for name in facts["files"] if name.endswith(".log") for row in facts["files"][name]) + 1
    )
    bounds = facts.get("bounds", {"read_uncommitted": [0, end_offset], "read_committed": [0, end_offset]})
    return ExpectedPartition(
        TopicPartition(topic, int(number)),
        data / name,
        records,
        [row for row in records if row.offset in committed],
        bounds["read_uncommitted"][0],
        bounds["read_uncommitted"][1],
        bounds["read_committed"][1],
        [(asked, found and tuple(found)) for asked, found in facts.get("times", ())],
        tuple(facts["latest"]) if "latest" in facts else None,
        facts["files"],
    )


def row_of(
    offset: int, timestamp_ms: int, key: str | None, value: str | None, headers: list[tuple[str, str]], epoch: int
) -> Row:
    pairs = tuple((name, _bytes(content)) for name, content in headers)
    return Row(offset, timestamp_ms, _bytes(key), _bytes(value), pairs, epoch)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")
