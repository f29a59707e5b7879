"""Logs in the directories of a broker whose own metadata is not there: whose they are, in words, before any is touched.

1. Nothing is locked, written or repaired: whoever made the directory can go on with it as it is.
2. A broker that is a cluster of its own must not begin a new one beside logs of another: their topics would be unknown,
   and a topic that is made under the same name would take the place of the log. `refuse_unknown_logs` says what the
   directory is, and what to do.
3. Apache Kafka's quorum keeps its metadata in `__cluster_metadata-0`: snapshots (.checkpoint) and a log, both made of
   record batches. Of their records three kinds are read, as far as READ_LIMIT_BYTES: TopicRecord, RemoveTopicRecord
   and FeatureLevelRecord. What cannot be read is left out of the sentence.
4. Logs on their way out (`-delete`) and those that are set aside already (`-stray`) are nobody's topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ottla.errors import CorruptMessage, KafkaStorageError, OttlaError
from ottla.light_tuples import NamedTuple
from ottla.records import RecordBatch, RecordStream
from ottla.storage.directory.checkpoints import MetaProperties, read_meta_properties
from ottla.storage.directory.directories import DELETE, METADATA_TOPIC, STRAY, parse_log_name
from ottla.storage.files import Files
from ottla.storage.segment.names import RECORDS_SUFFIX

QUORUM_LOG: Final = f"{METADATA_TOPIC}-0"
SNAPSHOT_SUFFIX: Final = ".checkpoint"
FIRST_VOTERS: Final = f"{0:020}-{0:010}{SNAPSHOT_SUFFIX}"
READ_LIMIT_BYTES: Final = 64 << 20
NAMES_SHOWN: Final = 5
METADATA_VERSION: Final = "metadata.version"

# Apache Kafka's numbers of the records of its metadata log.
_TOPIC: Final = 2
_REMOVE_TOPIC: Final = 9
_FEATURE_LEVEL: Final = 12
_UUID_BYTES: Final = 16


class UnknownLogs(OttlaError):
    """The data directory has logs, but not the metadata of this broker that says which topics they are, so the broker
    does not start and nothing in the directory is changed."""


class QuorumMetadata(NamedTuple):
    """What Apache Kafka's metadata log says; the level of metadata.version is None where it could not be read."""

    metadata_level: int | None
    topics: frozenset[str]


def refuse_unknown_logs(files: Files, directories: Sequence[Path], store_folder: str) -> None:
    """UnknownLogs when there are logs, or the metadata of a quorum of Apache Kafka's. Called where the first directory
    has no metadata of ours; `store_folder` is the name of the folder that would have it."""
    quorum_directory = next((each for each in directories if _has_quorum_log(files, each)), None)
    topics = sorted({topic for directory in directories for topic in topics_of(files, directory)})
    if quorum_directory is not None:
        raise UnknownLogs(_of_quorum(files, quorum_directory, topics))
    if topics:
        raise UnknownLogs(_of_nobody(files, directories, topics, store_folder))


def topics_of(files: Files, directory: Path) -> Iterator[str]:
    """The topics whose logs are in a directory; none when it cannot be read, which its opening will say."""
    try:
        names = files.list_directory(directory)
        for name in names:
            parsed = parse_log_name(name)
            if parsed is None or parsed.role in (DELETE, STRAY) or parsed.topic_partition.topic == METADATA_TOPIC:
                continue
            if files.is_directory(directory / name):
                yield parsed.topic_partition.topic
    except (KafkaStorageError, OSError):
        return


def _has_quorum_log(files: Files, directory: Path) -> bool:
    """Whether a quorum has ever run there; the first voters alone are told by formatting the directory."""
    try:
        path = directory / QUORUM_LOG
        return files.is_directory(path) and any(name != FIRST_VOTERS for name in files.list_directory(path))
    except (KafkaStorageError, OSError):
        return False


# --- sentences --------------------------------------------------------------------------------------------------------


def _of_quorum(files: Files, directory: Path, topics: Sequence[str]) -> str:
    found = read_quorum_metadata(files, directory / QUORUM_LOG)
    level = "" if found.metadata_level is None else f", metadata.version {release_name(found.metadata_level)}"
    known = sorted(found.topics) or topics
    return (
        f"{directory} is the directory of {_node(files, directory)} of an Apache Kafka cluster in KRaft mode{level}, "
        f"with {_named(known)}. Ottla does not read the metadata of such a cluster yet. Give this broker another "
        "directory (--data, log.dirs) and copy the topics over with a client; or start Apache Kafka on this one"
    )


def _of_nobody(files: Files, directories: Sequence[Path], topics: Sequence[str], store_folder: str) -> str:
    first = directories[0]
    elsewhere = next((each for each in directories[1:] if files.exists(each / store_folder)), None)
    if elsewhere is not None:
        return (
            f"{', '.join(map(str, directories))} have logs of {_named(topics)}, and the metadata is in {elsewhere}. "
            "Name that directory first in log.dirs"
        )
    meta = _meta(files, first)
    if meta is not None and meta.version == 0:
        return (
            f"{first} is the directory of {_node(files, first)} of a cluster that keeps its metadata in ZooKeeper, "
            f"with logs of {_named(topics)}. Start the broker with zookeeper.connect, or give it another directory "
            "(--data, log.dirs)"
        )
    return (
        f"{', '.join(map(str, directories))}: logs of {_named(topics)} which this broker's metadata does not know; "
        f"{first / store_folder} is missing. If it was lost, restore that folder from a copy; else give this broker "
        "another directory (--data, log.dirs). What is in the logs is shown by: ottla log list"
    )


def _node(files: Files, directory: Path) -> str:
    meta = _meta(files, directory)
    if meta is None or meta.node_id is None:
        return "a node"
    return f"node {meta.node_id}" + (f" (cluster.id {meta.cluster_id})" if meta.cluster_id else "")


def _meta(files: Files, directory: Path) -> MetaProperties | None:
    try:
        return read_meta_properties(files, directory)
    except (KafkaStorageError, OSError):
        return None


def _named(topics: Sequence[str]) -> str:
    if not topics:
        return "no topics"
    count = "1 topic" if len(topics) == 1 else f"{len(topics)} topics"
    more = ", …" if len(topics) > NAMES_SHOWN else ""
    return f"{count} ({', '.join(topics[:NAMES_SHOWN])}{more})"


# --- Apache Kafka's metadata log --------------------------------------------------------------------------------------


_RELEASES: Final = {
    1: "3.0", 7: "3.3", 8: "3.4", 11: "3.5", 14: "3.6", 19: "3.7", 20: "3.8", 21: "3.9", 25: "4.0", 27: "4.1",
    29: "4.2", 30: "4.3",
}  # fmt: skip


def release_name(level: int) -> str:
    """The release that a level of metadata.version came with, as people know it; the number where it is none."""
    release = _RELEASES.get(level)
    return f"{level}" if release is None else f"{level} (Kafka {release})"


def read_quorum_metadata(files: Files, folder: Path) -> QuorumMetadata:
    """The topics and the level of metadata.version of a quorum, from its newest snapshot and the log after it."""
    level: int | None = None
    topics: dict[bytes, str] = {}
    for value in _values(files, folder):
        try:
            kind, position = _uvarint(value, 1)  # behind the version of the frame
            _, position = _uvarint(value, position)
            if kind == _TOPIC:
                name, position = _string(value, position)
                topics[value[position : position + _UUID_BYTES]] = name
            elif kind == _REMOVE_TOPIC:
                topics.pop(value[position : position + _UUID_BYTES], None)
            elif kind == _FEATURE_LEVEL:
                name, position = _string(value, position)
                if name == METADATA_VERSION:
                    level = int.from_bytes(value[position : position + 2], "big", signed=True)
        except (IndexError, UnicodeDecodeError):
            continue
    return QuorumMetadata(level, frozenset(topics.values()))


def _values(files: Files, folder: Path) -> Iterator[bytes]:
    """The values of all records, oldest first; ends where something cannot be read."""
    names = files.list_directory(folder)
    snapshots = sorted(name for name in names if name.endswith(SNAPSHOT_SUFFIX))
    logs = sorted(name for name in names if name.endswith(RECORDS_SUFFIX))
    left = READ_LIMIT_BYTES
    try:
        for name in (*snapshots[-1:], *logs):
            left -= files.size(folder / name)
            if left < 0:
                return
            for batch in RecordStream(files.read_bytes(folder / name)):
                if isinstance(batch, RecordBatch) and not batch.is_control:
                    yield from (record.value for record in batch.records() if record.value)
    except (CorruptMessage, KafkaStorageError, OSError):
        return


def _uvarint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while data[position] & 0x80:
        value |= (data[position] & 0x7F) << shift
        position, shift = position + 1, shift + 7
    return value | data[position] << shift, position + 1


def _string(data: bytes, position: int) -> tuple[str, int]:
    length, position = _uvarint(data, position)
    return data[position : position + length - 1].decode(), position + length - 1
