"""Small files beside the logs, each replaced as a whole: tables of numbers, and whose directory it is.

1. Every file holds its old or its new content after a crash, and is on the disk when the writing call returns.
2. What Kafka 3.9 or 4.x wrote is read, and what is written here Kafka reads. Where Kafka's bytes are fixed, so are
   ours; the order of lines in a table is free, ours are sorted.
3. A table that is missing or empty has no entries: a new directory has none, and Kafka makes them empty at first.
4. A file that makes no sense is MalformedCheckpoint with its path and line. What is done about it is decided by the
   directory (directories.py); here it is never guessed at, and never treated as empty.
5. Unknown keys of meta.properties are kept when it is written again.

Tables (offset checkpoints and, in leader_epochs.py, epochs), lines ended by a line feed:

    0                           version
    2                           how many lines follow
    topic 0 4711                topic, partition, offset, with one space between

partition.metadata, without a line feed at its end:   "version: 0\\ntopic_id: " and 22 characters of URL-safe base64
.kafka_cleanshutdown: {"version":0,"brokerEpoch":11}; Kafka before 3.9 left it empty
meta.properties: Java properties; version 0 has broker.id, version 1 node.id and directory.id, both cluster.id
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from ottla.errors import InvalidSetting, KafkaStorageError, OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.properties import parse_properties
from ottla.storage.files import Files, Lock
from ottla.values import ZERO_UUID, TopicPartition, uuid_from_text, uuid_to_text

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
META_PROPERTIES_BEFORE: Final = META_PROPERTIES + ".zookeeper"
"""The same as it was while the cluster was in ZooKeeper (ottla storage migrate)."""
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"

VERSION: Final = 0
TABLE_LIMIT_BYTES: Final = 256 << 20  # a million partitions with the longest names
SMALL_LIMIT_BYTES: Final = 1 << 20

T = TypeVar("T")


class MalformedCheckpoint(KafkaStorageError):
    """A small file of a log directory makes no sense, so what it belongs to is not used.
    Restore the file from another copy, or remove it if you know that its content does not matter."""


class ForeignDirectory(OttlaError):
    """A log directory belongs to another broker or another cluster, so this broker does not start.
    Give log.dirs this broker's own directories, or correct the ids in the settings."""


# --- tables ----------------------------------------------------------------------------------------------------------


def read_table(files: Files, path: Path, parse: Callable[[list[str]], T], *, may_be_cut: bool = False) -> list[T]:
    """The entries of a table; `parse` makes one of the words of a line, and raises ValueError where it cannot.

    A table that `may_be_cut` (it is not always synced) must end with a line feed, which Java's reader does not ask."""
    lines = _read_lines(files, path, TABLE_LIMIT_BYTES)
    if not lines:
        return []
    if may_be_cut and not files.read_bytes(path).endswith(b"\n"):
        _malformed(path, len(lines), "it ends in the middle of a line")
    if _number(path, 1, lines[0]) != VERSION:
        _malformed(path, 1, f"version {lines[0][:40]!r} is unknown; {VERSION} is the only one")
    expected = _number(path, 2, lines[1] if len(lines) > 1 else "")
    if expected != len(lines) - 2:
        _malformed(path, 2, f"it announces {expected} entries, but {len(lines) - 2} follow")
    return [_entry(path, number, line, parse) for number, line in enumerate(lines[2:], 3)]


def table_bytes(lines: Iterable[str]) -> bytes:
    """A table as it stands in its file."""
    entries = list(lines)
    return "\n".join([str(VERSION), str(len(entries)), *entries, ""]).encode()


def whole_number(text: str, bits: int = 64) -> int:
    """A number as Java reads it: no spaces, no underscores, within its bits; else ValueError."""
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise ValueError(f"{text[:40]!r} is no whole number of {bits} bits")
    return int(text)


def read_offsets(files: Files, path: Path) -> dict[TopicPartition, int]:
    """An offset checkpoint: one offset per partition."""
    return dict(read_table(files, path, _parse_offset))


def write_offsets(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> bytes:
    """Replace an offset checkpoint; returns what was written."""
    for topic, _ in offsets:
        # No topic of Kafka's is named like this; one that slipped through would make the whole table unreadable.
        if not topic or topic.split() != [topic]:
            raise ValueError(f"{topic[:40]!r} cannot be written into {path.name}: a topic has no spaces")
    content = table_bytes(f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    files.replace_bytes(path, content)
    return content


def _parse_offset(words: list[str]) -> tuple[TopicPartition, int]:
    topic, partition, offset = words
    return TopicPartition(topic, whole_number(partition, 32)), whole_number(offset)


def _entry(path: Path, number: int, line: str, parse: Callable[[list[str]], T]) -> T:
    try:
        return parse(line.split())
    except ValueError as cause:
        _malformed(path, number, f"{line[:80]!r} is no entry ({cause})")


def _number(path: Path, line: int, text: str) -> int:
    try:
        return whole_number(text, 32)
    except ValueError as cause:
        _malformed(path, line, str(cause))


def _read_lines(files: Files, path: Path, limit_bytes: int) -> list[str]:
    try:
        text = _read(files, path, limit_bytes).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        _malformed(path, 1, "it is not a text")
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _read(files: Files, path: Path, limit_bytes: int) -> bytes:
    if (size_bytes := files.size(path)) > limit_bytes:
        _malformed(path, 1, f"it has {size_bytes} bytes; more than {limit_bytes} cannot be right")
    return files.read_bytes(path)


def _malformed(path: Path, line: int, problem: str) -> NoReturn:
    raise MalformedCheckpoint(f"{path}, line {line}: {problem}")


# --- one partition ---------------------------------------------------------------------------------------------------


def read_topic_id(files: Files, directory: Path) -> bytes | None:
    """The id of the topic a partition's directory belongs to; None when nobody has written one."""
    path = directory / PARTITION_METADATA
    if not files.exists(path):
        return None
    first, second, *_ = [*_read_lines(files, path, SMALL_LIMIT_BYTES), "", ""]
    key, _, text = second.partition(": ")
    if first != f"version: {VERSION}":
        _malformed(path, 1, f"it must be 'version: {VERSION}', the only version there is")
    try:
        topic_id = uuid_from_text(text if key == "topic_id" else "")
    except ValueError as cause:
        _malformed(path, 2, f"it must be 'topic_id: ' and an id ({cause})")
    if topic_id == ZERO_UUID:
        _malformed(path, 2, "the topic id is zero, which is no topic's")
    return topic_id


def write_topic_id(files: Files, directory: Path, topic_id: bytes) -> None:
    """Say which topic a partition's directory belongs to."""
    files.replace_bytes(directory / PARTITION_METADATA, topic_id_bytes(topic_id))


def topic_id_bytes(topic_id: bytes) -> bytes:
    """A topic id as it stands in its file."""
    return f"version: {VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode()


# --- one log directory -----------------------------------------------------------------------------------------------


def lock_directory(files: Files, directory: Path) -> Lock:
    """Keep other brokers, Ottla's and Kafka's, out of a log directory; DirectoryInUse when one is in."""
    return files.lock(directory / LOCK)


@dataclass(frozen=True)
class CleanShutdown:
    """The last stop was in order. `broker_epoch` is that of the life that ended, when it was written down."""

    broker_epoch: int | None


def write_clean_shutdown(files: Files, directory: Path, broker_epoch: int = -1) -> None:
    """Say that everything in the directory is synced and closed; the last thing a broker does there."""
    content = json.dumps({"version": VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    files.replace_bytes(directory / CLEAN_SHUTDOWN, content.encode())


def take_clean_shutdown(files: Files, directory: Path) -> CleanShutdown | None:
    """Whether the last stop was in order. The marker is gone then, on the disk too: from here on a crash counts."""
    path = directory / CLEAN_SHUTDOWN
    if not files.exists(path):
        return None
    found = CleanShutdown(_broker_epoch(_read(files, path, SMALL_LIMIT_BYTES)))
    files.remove(path)
    files.sync_directory(directory)
    return found


def _broker_epoch(content: bytes) -> int | None:
    # That the file is there is what counts; older brokers wrote nothing into it, newer ones may write other things.
    try:
        epoch = json.loads(content)["brokerEpoch"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) and epoch >= 0 else None


@dataclass(frozen=True)
class MetaProperties:
    """Whose directory it is. `node_id` is called broker.id in version 0; ids are None where the file has none."""

    version: int = 1
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: bytes | None = None
    others: Mapping[str, str] = field(default_factory=dict)

    def expect(self, directory: Path, *, cluster_id: str | None = None, node_id: int | None = None) -> None:
        """ForeignDirectory when an id differs from the one given; what either side does not know is not compared."""
        for key, here, wanted in (("cluster.id", self.cluster_id, cluster_id), (self._id_key, self.node_id, node_id)):
            if here is not None and wanted is not None and here != wanted:
                raise ForeignDirectory(f"{directory / META_PROPERTIES} has {key}={here}, but this broker has {wanted}")

    @property
    def _id_key(self) -> str:
        return "broker.id" if self.version == 0 else "node.id"

    def _pairs(self) -> dict[str, str]:
        known = {
            "version": str(self.version),
            "cluster.id": self.cluster_id,
            self._id_key: None if self.node_id is None else str(self.node_id),
            "directory.id": None if self.directory_id is None else uuid_to_text(self.directory_id),
        }
        return {**self.others, **{key: value for key, value in known.items() if value is not None}}


def read_meta_properties(files: Files, directory: Path) -> MetaProperties | None:
    """Whose directory it is; None when it is new."""
    path = directory / META_PROPERTIES
    if not files.exists(path):
        return None
    try:
        pairs = parse_properties(_read(files, path, SMALL_LIMIT_BYTES).decode("iso-8859-1"))
        return _meta_properties(pairs)
    except (ValueError, InvalidSetting) as cause:
        raise MalformedCheckpoint(f"{path}: {cause}") from cause


def _meta_properties(pairs: dict[str, str]) -> MetaProperties:
    version = whole_number(pairs.pop("version", "0"), 32)
    if version not in (0, 1):
        raise ValueError(f"version {version} is unknown; 0 and 1 are the only ones")
    cluster_id = pairs.pop("cluster.id", None)
    node_id = pairs.pop("broker.id" if version == 0 else "node.id", None)
    directory_id = pairs.pop("directory.id", None)
    for key, value in (("cluster.id", cluster_id), ("node.id", node_id)):
        if version == 1 and value is None:
            raise ValueError(f"{key} is missing")
    return MetaProperties(
        version,
        cluster_id,
        None if node_id is None else whole_number(node_id, 32),
        None if directory_id is None else uuid_from_text(directory_id),
        pairs,
    )


def write_meta_properties(files: Files, directory: Path, properties: MetaProperties) -> None:
    """Say whose directory it is."""
    # Java puts the date into a second comment; without it the same properties are always the same bytes.
    lines = [
        "#",
        *(f"{_escaped(key, ' ')}={_escaped(value, '')}" for key, value in sorted(properties._pairs().items())),
    ]
    files.replace_bytes(directory / META_PROPERTIES, ("\n".join(lines) + "\n").encode("ascii"))


def _escaped(text: str, also: str) -> str:
    """Java's escapes; `also` are characters that need one only on this side of the `=`."""
    text = re.sub(rf"[\\=:#!{also}]|^ ", lambda found: "\\" + found[0], text)
    for character, letter in (("\t", "t"), ("\n", "n"), ("\r", "r"), ("\f", "f")):
        text = text.replace(character, "\\" + letter)
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04X}" for code in codes)
