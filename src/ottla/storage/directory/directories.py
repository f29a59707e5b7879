"""One log directory (of log.dirs): who may use it, whose it is, what is written down in it, and whether it works.

    .lock                               held while the broker runs
    meta.properties                     cluster id, broker id, and the directory's own id
    .kafka_cleanshutdown                there only after a stop in order; removed at the start
    .ottla_failed                       something failed here, and no start since has put it right
    recovery-point-offset-checkpoint    \\
    log-start-offset-checkpoint          | one offset per partition, see checkpoints.py
    replication-offset-checkpoint        | (the high watermarks)
    cleaner-offset-checkpoint           /
    ottla-checksums                     of these four, see checksums.py
    <topic>-<partition>                 a log
    <topic>-<partition>.<id>-delete     a log that waits for its removal
    <topic>-<partition>.<id>-future     a copy that is to take the place of a log in another directory
    <topic>-<partition>.<id>-stray      a log that belongs to nobody; kept until somebody looks at it

1. All access goes through a door that closes at the first failure (offline.py); `failure` says why.
2. Tables that were written are not written again while nothing has changed. A table has one writer at a time, and a job
   that was made before a newer write or a truncation does nothing: the next checkpoint has what it missed.
3. A table that is cut, rotten, or empty beside logs, is noticed, said in the log and written again. What it said is
   then found out elsewhere, on the safe side: see FALLBACKS.
4. A directory that failed is suspect at the next start (recovery.py, 6), until all its logs are on the disk. The mark
   itself is not synced: a machine that went down shows what is on the disk and nothing else.
5. Names that are no log's are passed over with a warning, as are those of the topic __cluster_metadata without one.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from ottla.errors import DiskFull, KafkaStorageError
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple
from ottla.storage.directory.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CleanShutdown,
    MalformedCheckpoint,
    MetaProperties,
    lock_directory,
    read_meta_properties,
    read_offsets,
    take_clean_shutdown,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
)
from ottla.storage.directory.checksums import (
    CHECKSUMS,
    Checksum,
    checksum_of,
    checksums_bytes,
    has_rotted,
    read_checksums,
)
from ottla.storage.directory.offline import FAILED, FailStopFiles
from ottla.storage.directory.open_files import OpenFiles
from ottla.storage.files import TEMPORARY_SUFFIX, Files, Lock, replace_unsynced
from ottla.values import TopicPartition, random_uuid

TABLES: Final = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS)
FALLBACKS: Final = {
    RECOVERY_POINTS: "all logs of the directory are recovered from their beginning",
    LOG_STARTS: "logs start where their leader epochs say, or with their first segment",
    HIGH_WATERMARKS: "high watermarks begin at the log starts and move on as soon as the in-sync replicas are heard",
    CLEANER_OFFSETS: "compaction begins anew, and gaps between offsets are taken for its work",
}
METADATA_TOPIC: Final = "__cluster_metadata"
DELETE: Final = "delete"
FUTURE: Final = "future"
STRAY: Final = "stray"

_LOG_NAME: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,10})(?:\.([0-9a-zA-Z]+)-(delete|future|stray))?")

Offsets = Mapping[TopicPartition, int]
logger = logging.getLogger(__name__)


class LogName(NamedTuple):
    """What the name of a log's directory says; `role` is empty for a log in use."""

    topic_partition: TopicPartition
    unique_id: str = ""
    role: str = ""


def parse_log_name(name: str) -> LogName | None:
    """None when it is not the name of a log."""
    found = _LOG_NAME.fullmatch(name)
    if found is None or str(int(found[2])) != found[2]:
        return None
    return LogName(TopicPartition(found[1], int(found[2])), found[3] or "", found[4] or "")


class FoundLog(NamedTuple):
    """A log's directory that was found at the start."""

    directory: LogDirectory
    path: Path
    name: LogName


class CheckpointJob(NamedTuple):
    """A table to be written. Any thread may run it; one that is older than what was written since does nothing."""

    directory: LogDirectory
    table: str
    offsets: Offsets
    number: int

    def run(self) -> None:
        """Return when the table is on the disk."""
        self.directory.write(self.table, self.offsets, self.number)


class LogDirectory:
    """One log directory; `open` it before anything else. `meta_version` is that of a new meta.properties: brokers of
    ZooKeeper clusters have 0, and Apache Kafka's refuse to take over a directory with 1."""

    def __init__(self, path: Path, files: Files, meta_version: int = 1, open_files: OpenFiles | None = None) -> None:
        self.path = path
        self._meta_version = meta_version
        self.files = FailStopFiles(files, path, open_files)
        self.directory_id: bytes | None = None
        self.last_stop: CleanShutdown | None = None
        self.is_suspect = False
        self._lock: Lock | None = None
        self._written: dict[str, Offsets] = {}
        self._checksums: dict[str, Checksum] = {}
        self._damaged: set[str] = set()
        self._guard = threading.Lock()  # of everything below, and of the tables on the disk
        self._numbers = count(1)
        self._newest: dict[str, int] = {}  # the number of the newest write or truncation, by table

    @property
    def failure(self) -> KafkaStorageError | None:
        return self.files.failure

    @property
    def is_online(self) -> bool:
        return self.files.failure is None

    @property
    def was_clean(self) -> bool:
        """Whether the last stop was in order, so that logs can be opened without reading their records."""
        return self.last_stop is not None

    # --- start --------------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Make the directory if it is missing, and keep other brokers out of it."""
        if not self.files.exists(self.path):
            self.files.make_directory(self.path)
            self.files.sync_directory(self.path.parent)
        self._lock = lock_directory(self.files, self.path)

    def identify(self, *, cluster_id: str, broker_id: int, random_bytes: Callable[[int], bytes]) -> None:
        """Check that the directory is ours, or make it so if it is nobody's."""
        known = read_meta_properties(self.files, self.path)
        wanted = known or MetaProperties(self._meta_version, cluster_id=cluster_id, node_id=broker_id)
        wanted.expect(self.path, cluster_id=cluster_id, node_id=broker_id)
        if wanted.directory_id is None:
            wanted = replace(wanted, directory_id=random_uuid(random_bytes))
        if wanted.cluster_id is None or wanted.node_id is None:
            wanted = replace(wanted, cluster_id=cluster_id, node_id=broker_id)
        if wanted != known:
            write_meta_properties(self.files, self.path, wanted)
        self.directory_id = wanted.directory_id

    def load(self) -> list[FoundLog]:
        """Read the tables, take the mark of the clean stop, and find the logs."""
        names = self.files.list_directory(self.path)
        found = [each for each in map(self._found, names) if each is not None]
        for name in names:
            if name.endswith(TEMPORARY_SUFFIX) and name.startswith((*TABLES, CHECKSUMS)):
                self.files.remove(self.path / name)  # left by a crash
        self._checksums = read_checksums(self.files, self.path)
        for table in TABLES:
            self._written[table] = self._read(table, has_logs=bool(found))
        self.last_stop = take_clean_shutdown(self.files, self.path)
        self.is_suspect = FAILED in names
        if found and not self.was_clean:
            self.files.sync_directory(self.path)  # a log that was made just before the end may have no name on the disk
        return found

    def trust(self) -> None:
        """All logs are open, and on the disk."""
        if self.is_suspect and self.is_online:
            with suppress(KafkaStorageError):  # then the door is closed, and says why
                self.files.remove(self.path / FAILED, missing_ok=True)
                self.is_suspect = False

    def _read(self, table: str, *, has_logs: bool) -> Offsets:
        path = self.path / table
        try:
            if has_rotted(self.files, path, self._checksums.get(table)):
                raise MalformedCheckpoint(f"{path} has other bytes than were written: it rotted")
            offsets = read_offsets(self.files, path)
            # Kafka makes its tables empty, and the cleaner's stays so where nothing is compacted.
            if not offsets and has_logs and table != CLEANER_OFFSETS and self._is_empty_file(path):
                raise MalformedCheckpoint(f"{path} is empty")
            return offsets
        except MalformedCheckpoint as error:
            logger.warning("%s: %s", error, FALLBACKS[table])
            self._damaged.add(table)
            return {}

    def _is_empty_file(self, path: Path) -> bool:
        return self.files.exists(path) and not self.files.size(path)

    def _found(self, name: str) -> FoundLog | None:
        path = self.path / name
        if not self.files.is_directory(path):
            return None
        parsed = parse_log_name(name)
        if parsed is None:
            logger.warning("%s is not a log's directory and is left alone", path)
            return None
        return None if parsed.topic_partition.topic == METADATA_TOPIC else FoundLog(self, path, parsed)

    # --- tables -------------------------------------------------------------------------------------------------------

    def offset(self, table: str, name: TopicPartition) -> int | None:
        """What is written down for a partition."""
        return self._written.get(table, {}).get(name)

    def offsets(self, table: str) -> dict[TopicPartition, int]:
        """All that is written down in a table."""
        return dict(self._written.get(table, {}))

    def is_damaged(self, table: str) -> bool:
        """Whether a table made no sense at the start and was not written since."""
        return table in self._damaged

    def checkpoint_jobs(self, tables: Mapping[str, Offsets]) -> list[CheckpointJob]:
        """What must be written so that these are the tables."""
        return [
            CheckpointJob(self, table, offsets, next(self._numbers))
            for table, offsets in tables.items()
            if offsets != self._written.get(table, {}) or table in self._damaged
        ]

    def write(self, table: str, offsets: Offsets, number: int | None = None) -> None:
        """Replace a table, unless what was written or cut since is newer than `number`; None is newer than all."""
        with self._guard:
            number = next(self._numbers) if number is None else number
            if number > self._newest.get(table, 0):
                self._replace(table, offsets, number)

    def _replace(self, table: str, offsets: Offsets, number: int) -> None:
        path = self.path / table
        written = write_offsets(self.files, path, offsets)
        self._checksums[table] = checksum_of(self.files, path, written)
        with suppress(DiskFull):  # without its sum the table is trusted, as it is in Kafka
            replace_unsynced(self.files, self.path / CHECKSUMS, checksums_bytes(self._checksums))
        self._written[table] = dict(offsets)
        self._newest[table] = number
        self._damaged.discard(table)

    def lower(self, name: TopicPartition, offset: int) -> None:
        """Let nothing that is written down for a partition be beyond `offset`; jobs made before are void."""
        with self._guard:
            for table in TABLES:
                self._newest[table] = number = next(self._numbers)
                offsets = self.offsets(table)
                if offsets.get(name, 0) > offset:
                    self._replace(table, {**offsets, name: offset}, number)

    # --- stop ---------------------------------------------------------------------------------------------------------

    def mark_clean(self, broker_epoch: int = -1) -> None:
        """Say that everything in here is closed and on the disk."""
        write_clean_shutdown(self.files, self.path, broker_epoch)

    def release(self) -> None:
        """Let other brokers in."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
