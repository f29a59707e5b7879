"""Copies of logs that are being made in other directories, and how one takes the place of its log.

    orders-0                            in one directory: the log
    orders-0.<id>-future                in another: its copy

1. A copy is a log like others; it is filled by whoever moves it, and found again at the next start. It is read from its
   beginning then, unless the stop was clean: the tables of the directory are about logs in use.
2. The place is taken in steps, and a crash between any two of them loses nothing and leaves one log in use:

    the copy is on the disk, with the tables of its directory
    a file in it says that it replaces its log (REPLACES)
    orders-0.<id>-future becomes orders-0
    the log in the other directory becomes orders-0.<id>-delete
    the file is removed

   With the file, a copy that is still called future is a copy as before; and of two logs in use the one with the file
   counts, because it had everything when the file was made, and nothing was written since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from ottla.errors import KafkaStorageError
from ottla.storage.directory.directories import DELETE, FUTURE, FoundLog, LogDirectory, LogName
from ottla.storage.files import Files
from ottla.storage.log.partition_log import PartitionLog, deleted_directory_name
from ottla.values import TopicPartition

REPLACES: Final = ".ottla_replaces"

logger = logging.getLogger(__name__)


class FutureLogs:
    """The copies, by partition."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, tuple[PartitionLog, LogDirectory]] = {}

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(list(self._logs))

    def add(self, name: TopicPartition, log: PartitionLog, directory: LogDirectory) -> None:
        self._logs[name] = log, directory

    def get(self, name: TopicPartition) -> PartitionLog | None:
        found = self._logs.get(name)
        return None if found is None else found[0]

    def directory_of(self, name: TopicPartition) -> LogDirectory:
        return self._logs[name][1]

    def pop(self, name: TopicPartition) -> tuple[PartitionLog, LogDirectory] | None:
        return self._logs.pop(name, None)

    def pop_failed(self) -> list[PartitionLog]:
        """Those in directories that are offline: they are no copies any more."""
        failed = [name for name, (_, directory) in self._logs.items() if not directory.is_online]
        return [self._logs.pop(name)[0] for name in failed]

    def close(self, is_clean: bool) -> None:
        """What a clean stop marks as clean is on the disk."""
        for log, directory in self._logs.values():
            try:
                log.close(is_clean=is_clean and directory.is_online)
            except KafkaStorageError as error:
                logger.error("the copy %s could not be closed: %s", log.directory, error)
                log.close(is_clean=False)
        self._logs.clear()


def future_directory_name(name: TopicPartition, unique_id: str) -> str:
    """As Kafka's; the topic's name has room for it, or the move was refused."""
    return f"{name}.{unique_id}-{FUTURE}"


def note_replacing(log: PartitionLog) -> None:
    """This copy takes the place of its log from now on; on the disk when it returns."""
    log.files.replace_bytes(log.directory / REPLACES, b"")


def forget_replacing(files: Files, path: Path) -> None:
    if files.exists(path / REPLACES):
        files.remove(path / REPLACES, missing_ok=True)
        files.sync_directory(path)


def finish_replacing(found: Iterable[FoundLog], random_bytes: Callable[[int], bytes]) -> list[FoundLog]:
    """At the start: what was replaced before a crash is set aside, so that one log is in use."""
    logs = list(found)
    replacing = {each.name.topic_partition: each for each in logs if not each.name.role and _is_replacing(each)}
    result = []
    for each in logs:
        winner = replacing.get(each.name.topic_partition)
        if not each.name.role and winner is not None and winner is not each:
            result.append(_set_aside(each, winner, random_bytes))
        else:
            result.append(each)
    for each in logs:
        if each.name.role in ("", FUTURE):
            forget_replacing(each.directory.files, each.path)
    return result


def _is_replacing(found: FoundLog) -> bool:
    return found.directory.files.exists(found.path / REPLACES)


def _set_aside(found: FoundLog, winner: FoundLog, random_bytes: Callable[[int], bytes]) -> FoundLog:
    name, unique_id = found.name.topic_partition, random_bytes(16).hex()
    path = found.path.with_name(deleted_directory_name(name, unique_id))
    logger.warning("%s took the place of %s before the broker went down; that is removed", winner.path, found.path)
    found.directory.files.rename(found.path, path)
    found.directory.files.sync_directory(path.parent)
    return FoundLog(found.directory, path, LogName(name, unique_id, DELETE))
