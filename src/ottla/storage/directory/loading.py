"""The start of all logs: directories are locked, proved to be ours, and their logs are opened.

1. All directories are locked before anything is read, so that two brokers never get half of them each.
2. After a clean stop no record is read. After any other the logs are recovered, several at a time if there is a pool:
   reading and summing records is native and lets other threads run.
3. A directory that fails is offline and the others go on. One that belongs to somebody else, is in use, or has a log
   that another one has too, stops the start: that is a mistake of people, not of disks.
4. What happened is returned as values, one per log (`LoadedLog`), and in the log lines of recovery.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Final

from ottla.errors import KafkaStorageError, OttlaError, TooManyOpenFiles
from ottla.light_tuples import NamedTuple
from ottla.storage.directory.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from ottla.storage.directory.directories import FoundLog, LogDirectory
from ottla.storage.directory.future_logs import finish_replacing
from ottla.storage.log.partition_log import PartitionLog, opened
from ottla.storage.log.recovery import END_OF_OFFSETS, LogLoader
from ottla.storage.producers.replay import run
from ottla.storage.producers.state import ID_EXPIRATION_MS, ID_LIMIT, ProducerState
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition, uuid_to_text

logger = logging.getLogger(__name__)


class DuplicateLog(OttlaError):
    """Two log directories have the log of the same partition, and nobody can tell which one is right.
    Look into both, and remove the older one."""


class DuplicateDirectory(OttlaError):
    """Two of log.dirs are the same directory, or one is a copy of the other.
    Name each directory once; in a copy remove directory.id from meta.properties."""


class ProducerLimits(NamedTuple):
    """What logs go by when they remember producers (producer.id.expiration.ms and the like)."""

    id_expiration_ms: int = ID_EXPIRATION_MS
    id_limit: int = ID_LIMIT
    verification_required: bool = True


DEFAULT_PRODUCER_LIMITS: Final = ProducerLimits()


class LoadedLog(NamedTuple):
    """What the start made of one log; `log` is None if its directory failed on the way."""

    found: FoundLog
    log: PartitionLog | None
    truncated_bytes: int = 0
    recovered_segments: int = 0
    damage: str | None = None
    # How many are done and how many there are, for progress bars.
    done: int = 0
    total: int = 0


def claim(
    directories: Sequence[LogDirectory], *, cluster_id: str, broker_id: int, random_bytes: Callable[[int], bytes]
) -> None:
    """Lock and identify the directories; one that fails is offline."""
    _refuse_same_paths(directories)
    for directory in directories:
        _unless_it_fails(directory, directory.lock)
    for directory in directories:
        _unless_it_fails(
            directory,
            partial(directory.identify, cluster_id=cluster_id, broker_id=broker_id, random_bytes=random_bytes),
        )
    _refuse_same_ids(directories)


def find_logs(directories: Sequence[LogDirectory], random_bytes: Callable[[int], bytes]) -> list[FoundLog]:
    """The logs of directories that are claimed; a directory that fails gives none."""
    found: list[FoundLog] = []
    for directory in directories:
        _unless_it_fails(directory, partial(_find, directory, found))
    found = finish_replacing([each for each in found if each.directory.is_online], random_bytes)
    _refuse_duplicates(found)
    return found


def _find(directory: LogDirectory, found: list[FoundLog]) -> None:
    found += directory.load()


def _unless_it_fails(directory: LogDirectory, call: Callable[[], None]) -> None:
    if not directory.is_online:
        return
    try:
        call()
    except KafkaStorageError as error:
        directory.files.fail(error)


def _refuse_same_paths(directories: Sequence[LogDirectory]) -> None:
    paths = [each.path for each in directories]
    for path in paths:
        if paths.count(path) > 1:
            raise DuplicateDirectory(f"log.dirs names {path} {paths.count(path)} times")


def _refuse_same_ids(directories: Sequence[LogDirectory]) -> None:
    seen: dict[bytes, Path] = {}
    for directory in directories:
        if directory.directory_id is None:
            continue
        other = seen.setdefault(directory.directory_id, directory.path)
        if other != directory.path:
            raise DuplicateDirectory(
                f"{other} and {directory.path} both have directory.id {uuid_to_text(directory.directory_id)}"
            )


def _refuse_duplicates(found: Iterable[FoundLog]) -> None:
    seen: dict[tuple[TopicPartition, str], Path] = {}
    for each in found:
        if each.name.role in ("", "future"):
            other = seen.setdefault((each.name.topic_partition, each.name.role), each.path)
            if other != each.path:
                raise DuplicateLog(f"{each.name.topic_partition} is in both {other} and {each.path}")


def load_all(
    found: Sequence[FoundLog],
    *,
    settings_of: Callable[[str], TopicSettings],
    limits: ProducerLimits,
    now_ms: int,
    pool: Executor | None,
) -> Iterator[LoadedLog]:
    """Open logs; the pool's threads do nothing but the reading of each log."""
    plans = [(each, _loader(each, settings_of(each.name.topic_partition.topic), limits, now_ms)) for each in found]
    errors = map(_load, plans) if pool is None else pool.map(_load, plans)
    for done, ((each, loader), error) in enumerate(zip(plans, errors, strict=True), 1):
        if isinstance(error, TooManyOpenFiles):
            raise error  # nothing is wrong with the disk, and nothing was opened that could be closed instead
        if error is not None:
            each.directory.files.fail(error)
        loaded = _loaded(each, loader, settings_of, now_ms)._replace(done=done, total=len(plans))
        if not each.directory.was_clean:
            logger.debug("recovered %s, %d of %d", each.path, done, len(plans))
        yield loaded


def recovery_summary(loaded: Iterable[LoadedLog], took_ms: float) -> str | None:
    """One sentence about all logs that were not closed in order; None when all were."""
    recovered = [each for each in loaded if not each.found.directory.was_clean]
    if not recovered:
        return None
    segments = sum(each.recovered_segments for each in recovered)
    cut = [each for each in recovered if each.truncated_bytes]
    lost = f", {sum(each.truncated_bytes for each in cut)} bytes cut from {len(cut)} of them" if cut else ""
    return f"recovered {len(recovered)} partitions in {took_ms / 1000:.1f} s: {segments} segments read{lost}"


def _loader(found: FoundLog, settings: TopicSettings, limits: ProducerLimits, now_ms: int) -> LogLoader:
    directory, name = found.directory, found.name.topic_partition
    return LogLoader(
        found.path,
        name,
        settings,
        files=directory.files,
        producers=ProducerState(
            id_expiration_ms=limits.id_expiration_ms,
            id_limit=limits.id_limit,
            verification_required=limits.verification_required,
        ),
        now_ms=now_ms,
        is_clean=directory.was_clean,
        is_suspect=directory.is_suspect,
        # The tables are about logs in use; a copy that is still being made is read from its beginning.
        recovery_point=(0 if found.name.role else directory.offset(RECOVERY_POINTS, name)) or 0,
        log_start_offset=(0 if found.name.role else directory.offset(LOG_STARTS, name)) or 0,
        high_watermark=(0 if found.name.role else directory.offset(HIGH_WATERMARKS, name)) or 0,
        log_start_is_known=not directory.is_damaged(LOG_STARTS),
        compacted_up_to=END_OF_OFFSETS
        if directory.is_damaged(CLEANER_OFFSETS)
        else directory.offset(CLEANER_OFFSETS, name) or 0,
    )


def _load(work: tuple[FoundLog, LogLoader]) -> KafkaStorageError | None:
    found, loader = work
    if not found.directory.is_online:
        return None
    try:
        run(loader.steps())
    except KafkaStorageError as error:
        return error
    return None


def _loaded(found: FoundLog, loader: LogLoader, settings_of: Callable[[str], TopicSettings], now_ms: int) -> LoadedLog:
    directory, name = found.directory, found.name.topic_partition
    if not directory.is_online:
        for segment in loader.segments:
            segment.abandon()
        return LoadedLog(found, None)
    log = opened(loader, settings_of(name.topic), files=directory.files, now_ms=now_ms)
    log.update_high_watermark(directory.offset(HIGH_WATERMARKS, name) or 0)
    return LoadedLog(found, log, loader.truncated_bytes, len(loader.recovered), loader.damage)
