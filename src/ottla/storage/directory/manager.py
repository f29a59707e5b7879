"""All logs of a broker: where they are, opened at the start, looked after while it runs, closed at the end.

    manager = LogManager([Path("/var/lib/ottla")], files=DiskFiles(), default_settings=TopicSettings(),
                         cluster_id=cluster_id, broker_id=1)
    manager.open(now_ms)                                  # clean: reads no records; else recovers
    log = manager.create(TopicPartition("orders", 0), topic_id, settings, now_ms)
    for cleaned_up in manager.clean_up(now_ms): ...       # retention, a step at a time
    for job in manager.checkpoint_jobs(): job.run()       # any thread
    for removal in manager.removals_due(now_ms): removal.run()
    manager.close()

1. One owner makes all calls. Jobs (`FlushJob`, `CheckpointJob`, `Removal`) are values whose `run` any thread may call.
2. The owner of the clock asks what is due. Retention goes in steps, each bounded, and says what it did; logs may come
   and go between two of them.
3. A new log goes to the directory that has the fewest. While a directory is offline only logs that are new for sure
   (`is_new`) are made: the records of the others may be there.
4. A directory that fails is reported once by `failures`, with the partitions that are gone with it; if it was the last
   one the broker must stop. Its logs raise from then on, here and in the hands of those who have them.
5. A full disk is no failure: what needs room says so and is done the next time.
6. A truncation, and a log that takes the name of a deleted one, are written down before they happen: else a recovery
   would trust records that took the place of synced ones, or take a young log for one that lost its records.
7. `close` ends with the mark of a clean stop in every directory where everything went well, and in no other.
"""

from __future__ import annotations

import logging
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Final

from ottla.errors import KafkaStorageError, OttlaError, UnknownTopicOrPartition
from ottla.light_tuples import NamedTuple
from ottla.storage.directory.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from ottla.storage.directory.directories import DELETE, FUTURE, STRAY, CheckpointJob, FoundLog, LogDirectory
from ottla.storage.directory.future_logs import FutureLogs, forget_replacing, future_directory_name, note_replacing
from ottla.storage.directory.loading import (
    DEFAULT_PRODUCER_LIMITS,
    LoadedLog,
    ProducerLimits,
    claim,
    find_logs,
    load_all,
)
from ottla.storage.directory.open_files import OpenFiles
from ottla.storage.directory.removals import Removal, Removals
from ottla.storage.directory.stopping import close_cleanly
from ottla.storage.files import Files
from ottla.storage.log import retention
from ottla.storage.log.partition_log import PartitionLog, deleted_directory_name, open_log
from ottla.storage.log.truncate import Removed
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

REMOVALS_PER_CALL: Final = 10
PREFERENCES_LIMIT: Final = 10_000
CHECKPOINTED: Final = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)

logger = logging.getLogger(__name__)


class NoLogDirectory(OttlaError):
    """Not one of the log directories can be used, so the broker stops.
    Look at the disks and at what was logged about each directory before you start it again."""


class DirectoryFailure(NamedTuple):
    """A directory is offline, and these partitions with it; `is_last` when no other is left."""

    directory: Path
    directory_id: bytes | None
    error: KafkaStorageError
    partitions: tuple[TopicPartition, ...]
    is_last: bool


class CleanedUp(NamedTuple):
    """What a step of retention took out of one log; or the error that kept it from doing so."""

    topic_partition: TopicPartition
    reason: str
    segment_count: int = 0
    size_bytes: int = 0
    error: KafkaStorageError | None = None


class LogManager:
    """The logs of a broker, by partition."""

    def __init__(
        self,
        directories: Sequence[Path],
        *,
        files: Files,
        default_settings: TopicSettings,
        settings_of: Callable[[str], TopicSettings] | None = None,
        cluster_id: str,
        broker_id: int,
        producer_limits: ProducerLimits = DEFAULT_PRODUCER_LIMITS,
        cordoned: Iterable[Path] = (),
        random_bytes: Callable[[int], bytes] = os.urandom,
        meta_version: int = 1,
    ) -> None:
        if not directories:
            raise NoLogDirectory("log.dirs is empty")
        self.open_files = OpenFiles(files.open_file_limit())
        self.directories = [LogDirectory(path, files, meta_version, self.open_files) for path in directories]
        self.cordoned = set(cordoned)
        self._settings_of = settings_of or (lambda _: default_settings)
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._producer_limits = producer_limits
        self._random_bytes = random_bytes
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._futures = FutureLogs()
        self._preferred: OrderedDict[TopicPartition, LogDirectory] = OrderedDict()
        self._directories_by_log: dict[TopicPartition, LogDirectory] = {}
        self._failed: dict[TopicPartition, LogDirectory] = {}
        self._abandoned: list[PartitionLog] = []
        self._reported: set[Path] = set()
        self._removals = Removals()
        self._is_claimed = False
        self._is_open = False

    # --- start --------------------------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Lock and identify the directories, for who has something to do in them before the logs are opened. An error
        means that none is locked."""
        try:
            claim(
                self.directories,
                cluster_id=self._cluster_id,
                broker_id=self._broker_id,
                random_bytes=self._random_bytes,
            )
        except BaseException:
            self.close(is_clean=False)
            raise
        self._is_claimed = True

    def open(self, now_ms: int, *, pool: Executor | None = None) -> list[LoadedLog]:
        """Open everything; see `opening`."""
        return list(self.opening(now_ms, pool=pool))

    def opening(self, now_ms: int, *, pool: Executor | None = None) -> Iterator[LoadedLog]:
        """Open everything, giving each log when it is open. An error means that nothing is open."""
        try:
            yield from self._opening(now_ms, pool)
        except BaseException:
            self.close(is_clean=False)
            raise

    def _opening(self, now_ms: int, pool: Executor | None) -> Iterator[LoadedLog]:
        if not self._is_claimed:
            self.claim()
        found = find_logs(self.directories, self._random_bytes)
        for each in found:
            self._note_role(each, now_ms)
        wanted = [each for each in found if each.name.role in ("", FUTURE)]
        loading = load_all(
            wanted, settings_of=self._settings_of, limits=self._producer_limits, now_ms=now_ms, pool=pool
        )
        for loaded in loading:
            self._add(loaded)
            yield loaded
        for directory in self.directories:
            directory.trust()
        if not any(directory.is_online for directory in self.directories):
            raise NoLogDirectory("; ".join(str(each.failure) for each in self.directories))
        self._is_open = True

    def _note_role(self, found: FoundLog, now_ms: int) -> None:
        if found.name.role == DELETE:
            name = found.name.topic_partition
            due_ms = now_ms + self._settings_of(name.topic).file_delete_delay_ms
            self._removals.add(Removal(name, found.path, found.directory.files, is_directory=True), due_ms)
        elif found.name.role == STRAY:
            logger.warning("%s belongs to no partition of this broker; look into it and remove it", found.path)

    def _add(self, loaded: LoadedLog) -> None:
        name = loaded.found.name.topic_partition
        if loaded.log is None:
            if loaded.found.name.role != FUTURE:
                self._failed[name] = loaded.found.directory
        elif loaded.found.name.role == FUTURE:
            self._futures.add(name, loaded.log, loaded.found.directory)
        else:
            self._logs[name] = loaded.log
            self._directories_by_log[name] = loaded.found.directory

    # --- logs ---------------------------------------------------------------------------------------------------------

    def log(self, name: TopicPartition) -> PartitionLog | None:
        """The log of a partition, if there is one; KafkaStorageError if its directory is offline."""
        self._drop_failed_logs()
        failed = self._failed.get(name)
        if failed is not None:
            failed.files.check()
        return self._logs.get(name)

    def future_log(self, name: TopicPartition) -> PartitionLog | None:
        """The copy that is to take a log's place in another directory, if there is one."""
        self._drop_failed_logs()
        return self._futures.get(name)

    def futures(self) -> list[TopicPartition]:
        """The partitions that have such a copy."""
        return list(self._futures)

    def logs(self) -> list[PartitionLog]:
        """All logs whose directories work."""
        self._drop_failed_logs()
        return list(self._logs.values())

    def directory_of(self, name: TopicPartition) -> LogDirectory | None:
        """Where a partition's log is."""
        return self._directories_by_log.get(name) or self._failed.get(name)

    def create(
        self,
        name: TopicPartition,
        topic_id: bytes,
        settings: TopicSettings,
        now_ms: int,
        *,
        is_new: bool = False,
    ) -> PartitionLog:
        """Make the log of a partition; one that is there already is returned if it is of the same topic."""
        found = self.log(name)
        if found is not None:
            found.assign_topic_id(topic_id)
            return found
        directory = self._directory_for(name, is_new)
        directory.lower(name, 0)  # a log of this name that was deleted may still be in the tables
        log = self._made(directory, str(name), name, topic_id, settings, now_ms)
        self._preferred.pop(name, None)
        self._logs[name], self._directories_by_log[name] = log, directory
        return log

    def _made(
        self,
        directory: LogDirectory,
        directory_name: str,
        name: TopicPartition,
        topic_id: bytes,
        settings: TopicSettings,
        now_ms: int,
    ) -> PartitionLog:
        path, limits = directory.path / directory_name, self._producer_limits
        log = open_log(
            path,
            name,
            settings,
            files=directory.files,
            now_ms=now_ms,
            is_clean=False,
            producer_id_expiration_ms=limits.id_expiration_ms,
            max_producer_ids=limits.id_limit,
            verification_required=limits.verification_required,
        )
        try:
            log.assign_topic_id(topic_id)
        except KafkaStorageError:
            log.close(is_clean=False)
            if directory.is_online:
                directory.files.remove_directory(path)
            raise
        return log

    def _directory_for(self, name: TopicPartition, is_new: bool) -> LogDirectory:
        online = [each for each in self.directories if each.is_online]
        if not is_new and len(online) < len(self.directories):
            offline = next(each for each in self.directories if not each.is_online)
            raise KafkaStorageError(f"{name} is not made anew, because it may be in {offline.path}, which is offline")
        preferred = self._preferred.get(name)
        if preferred is not None and preferred.is_online:
            return preferred
        usable = [each for each in online if each.path not in self.cordoned] or online
        if not usable:
            raise KafkaStorageError(f"{name} cannot be made: all log directories are offline")
        if len(usable) == 1:
            return usable[0]
        counts = Counter(id(each) for each in self._directories_by_log.values())
        return min(usable, key=lambda each: counts[id(each)])

    def cordon(self, directories: Iterable[Path]) -> None:
        """These, and no others, get no new logs."""
        self.cordoned = set(directories)

    def delete(self, name: TopicPartition, now_ms: int) -> None:
        """Take a partition's log out of use; it leaves the disk after file.delete.delay.ms."""
        self.cancel_future(name, now_ms)
        self._remove_later(self._expect(name), now_ms)

    def _remove_later(self, log: PartitionLog, now_ms: int) -> None:
        name = log.topic_partition
        self._set_aside(log, deleted_directory_name(name, self._random_bytes(16).hex()))
        segments = self._removals.pop_segments(name)
        removal = Removal(name, log.directory, log.files, segments=segments, log=log)
        self._removals.add(removal, now_ms + log.settings.file_delete_delay_ms)

    def make_stray(self, name: TopicPartition) -> Path:
        """Put a log that the cluster knows nothing of aside; nobody but a person removes it."""
        log = self._expect(name)
        self._set_aside(log, stray_directory_name(name, self._random_bytes(16).hex()))
        # Segments that wait for their removal stay in it: a log that gets the name may have files of the same names.
        Removal(name, log.directory, log.files, segments=self._removals.pop_segments(name), log=log).abandon()
        return log.directory

    def make_future_stray(self, name: TopicPartition) -> Path:
        """The same with a copy that was on its way to another directory."""
        found = self._futures.pop(name)
        assert found is not None, "there is a copy"
        log, _ = found
        log.rename_directory(stray_directory_name(name, self._random_bytes(16).hex()))
        log.close(is_clean=False)
        return log.directory

    def _set_aside(self, log: PartitionLog, directory_name: str) -> None:
        log.rename_directory(directory_name)
        del self._logs[log.topic_partition]
        del self._directories_by_log[log.topic_partition]

    def _expect(self, name: TopicPartition) -> PartitionLog:
        log = self.log(name)
        if log is None:
            raise UnknownTopicOrPartition(f"this broker has no log of {name}")
        return log

    # --- copies that take the place of logs (future_logs.py) ----------------------------------------------------------

    def prefer(self, name: TopicPartition, directory: LogDirectory) -> None:
        """Make the log of a partition there, when it is made; the last PREFERENCES_LIMIT wishes are remembered."""
        self._preferred[name] = directory
        self._preferred.move_to_end(name)
        if len(self._preferred) > PREFERENCES_LIMIT:
            self._preferred.popitem(last=False)

    def begin_future(self, name: TopicPartition, directory: LogDirectory, now_ms: int) -> PartitionLog:
        """An empty copy of a partition's log in another directory; one that is elsewhere is given up."""
        current, found = self._expect(name), self._futures.get(name)
        if found is not None and self._futures.directory_of(name) is directory:
            return found
        self.cancel_future(name, now_ms)
        assert current.topic_id is not None, "every log in use belongs to a topic"
        directory_name = future_directory_name(name, self._random_bytes(16).hex())
        log = self._made(directory, directory_name, name, current.topic_id, current.settings, now_ms)
        self._futures.add(name, log, directory)
        return log

    def cancel_future(self, name: TopicPartition, now_ms: int) -> None:
        """Give a copy up, if there is one."""
        found = self._futures.pop(name)
        if found is None:
            return
        log, directory = found
        if not directory.is_online:
            self._abandoned.append(log)
            return
        log.rename_directory(deleted_directory_name(name, self._random_bytes(16).hex()))
        removal = Removal(name, log.directory, log.files, log=log)
        self._removals.add(removal, now_ms + log.settings.file_delete_delay_ms)

    def promote_future(self, name: TopicPartition, now_ms: int) -> PartitionLog:
        """Let the copy, which has all that the log has, take its place; returns the copy. Its directory has it on the
        disk when the log leaves its own."""
        current, found = self._expect(name), self._futures.pop(name)
        assert found is not None, "there is a copy"
        log, directory = found
        log.update_high_watermark(current.high_watermark)
        log.advance_log_start(current.log_start_offset)
        self._write_down(directory, log)
        note_replacing(log)
        log.rename_directory(str(name))
        try:
            self._remove_later(current, now_ms)
        except KafkaStorageError as error:
            logger.error("%s has moved, but could not be removed from where it was: %s", name, error)
            self._abandoned.append(self._logs.pop(name))
        self._logs[name], self._directories_by_log[name] = log, directory
        forget_replacing(directory.files, log.directory)
        return log

    def _write_down(self, directory: LogDirectory, log: PartitionLog) -> None:
        """What the tables of its new directory must say of a log before it is in use there."""
        name = log.topic_partition
        for table, offsets_of in _OFFSETS_OF.items():
            known = {each: offset for each, offset in directory.offsets(table).items() if each != name}
            directory.write(table, {**known, **offsets_of([log])})
        compacted = {each: offset for each, offset in directory.offsets(CLEANER_OFFSETS).items() if each != name}
        directory.write(CLEANER_OFFSETS, compacted)  # what was copied before it was compacted is not compact

    # --- cutting ------------------------------------------------------------------------------------------------------

    def truncate_to(self, name: TopicPartition, offset: int, now_ms: int) -> None:
        """Let a log end at `offset`, or before the batch that holds it; on the disk when it returns."""
        log = self._expect(name)
        self._directories_by_log[name].lower(name, log.end_after_cut(offset))
        self.remove_later(log, log.truncate_to(offset, now_ms), now_ms)
        future = self.future_log(name)
        if future is not None and future.log_end_offset > log.log_end_offset:
            future.truncate_to(log.log_end_offset, now_ms).remove(future.files)  # nobody reads a copy

    def truncate_fully(self, name: TopicPartition, offset: int, now_ms: int) -> None:
        """Let a log start and end at `offset`."""
        log = self._expect(name)
        self._directories_by_log[name].lower(name, 0)
        self.remove_later(log, log.truncate_fully(offset, now_ms), now_ms)
        self.restart_future(name, offset, now_ms)

    def restart_future(self, name: TopicPartition, offset: int, now_ms: int) -> None:
        """Let a copy, if there is one, start and end at `offset`."""
        future = self.future_log(name)
        if future is not None:
            future.truncate_fully(offset, now_ms).remove(future.files)

    def remove_later(self, log: PartitionLog, removed: Removed, now_ms: int) -> None:
        """Remove files that are out of a log when file.delete.delay.ms is over."""
        if removed.segments or removed.snapshots:
            removal = Removal(log.topic_partition, log.directory, log.files, segments=(removed,))
            self._removals.add(removal, now_ms + log.settings.file_delete_delay_ms)

    # --- what is due --------------------------------------------------------------------------------------------------

    def clean_up(self, now_ms: int) -> Iterator[CleanedUp | None]:
        """Retention of all logs that there are now, in steps; None is a log that was checked to the end."""
        for name in sorted(self._logs):
            log = self._logs.get(name)
            if log is not None:
                yield from self._clean_up_log(name, log, now_ms)
                yield None

    def _clean_up_log(self, name: TopicPartition, log: PartitionLog, now_ms: int) -> Iterator[CleanedUp]:
        steps = retention.clean_up(log, now_ms)
        # Between two steps the log may have been deleted, or its directory may have failed.
        while self._logs.get(name) is log and self._directories_by_log[name].is_online:
            try:
                step = next(steps, None)
                if step is None:
                    return
                self.remove_later(log, step.removed, now_ms)
                yield CleanedUp(name, step.reason, len(step.removed.segments), step.size_bytes)
            except KafkaStorageError as error:
                yield CleanedUp(name, str(error), error=error)
                return

    def checkpoint_jobs(self, tables: Collection[str] = CHECKPOINTED) -> list[CheckpointJob]:
        """Which of these tables are not what they should be."""
        self._drop_failed_logs()
        jobs: list[CheckpointJob] = []
        for directory in self.directories:
            if directory.is_online:
                jobs += directory.checkpoint_jobs(self._tables(directory, tables))
        return jobs

    def _tables(
        self, directory: LogDirectory, tables: Collection[str] = CHECKPOINTED
    ) -> dict[str, dict[TopicPartition, int]]:
        logs = [log for name, log in self._logs.items() if self._directories_by_log[name] is directory]
        return {table: _OFFSETS_OF[table](logs) for table in tables}

    def removals_due(self, now_ms: int, *, limit: int = REMOVALS_PER_CALL) -> list[Removal]:
        """What may leave the disk now; each is returned once, and must be run."""
        return self._removals.pop_due(now_ms, limit)

    def cleaner_offset(self, name: TopicPartition) -> int | None:
        """Up to where compaction has come, as it is written down."""
        directory = self.directory_of(name)
        return None if directory is None else directory.offset(CLEANER_OFFSETS, name)

    def write_cleaner_offset(self, name: TopicPartition, offset: int) -> None:
        """Write down up to where compaction has come; partitions that are gone are forgotten with it."""
        directory = self._directories_by_log[name]
        known = {each: at for each, at in directory.offsets(CLEANER_OFFSETS).items() if each in self._logs}
        directory.write(CLEANER_OFFSETS, {**known, name: offset})

    # --- failures -----------------------------------------------------------------------------------------------------

    def failures(self) -> list[DirectoryFailure]:
        """The directories that have failed since this was asked last."""
        self._drop_failed_logs()
        is_last = not any(directory.is_online for directory in self.directories)
        failed = [each for each in self.directories if not each.is_online and each.path not in self._reported]
        self._reported.update(each.path for each in failed)
        return [self._failure(each, is_last) for each in failed]

    def _failure(self, directory: LogDirectory, is_last: bool) -> DirectoryFailure:
        assert directory.failure is not None, "only failed directories are reported"
        gone = tuple(sorted(name for name, each in self._failed.items() if each is directory))
        return DirectoryFailure(directory.path, directory.directory_id, directory.failure, gone, is_last)

    def take_offline(self, directory: Path, error: KafkaStorageError) -> None:
        """Use a directory no more, for a reason that its own calls did not show."""
        for each in self.directories:
            if each.path == directory:
                each.files.fail(error)

    def _drop_failed_logs(self) -> None:
        if all(directory.is_online for directory in self.directories):
            return
        self._abandoned += self._futures.pop_failed()
        for name, directory in list(self._directories_by_log.items()):
            if not directory.is_online:
                self._failed[name] = self._directories_by_log.pop(name)
                # Its files stay open: a thread may be in the middle of a sync.
                self._abandoned.append(self._logs.pop(name))

    # --- stop ---------------------------------------------------------------------------------------------------------

    def close(
        self,
        is_clean: bool = True,
        *,
        pool: Executor | None = None,
        broker_epoch: int = -1,
        closed: Callable[[int], None] = lambda left: None,
    ) -> None:
        """Close everything, syncing in the pool's threads if there is one. No job of a log may be running. `closed` is
        told how many logs of a directory are left.

        Where the start failed nothing is said to be closed in order: the directories may be another broker's, which
        runs, or may still have to be recovered.
        """
        is_clean, self._is_open = is_clean and self._is_open, False
        self._drop_failed_logs()
        for removal in self._removals.clear():
            removal.abandon()
        for log in self._abandoned:
            log.close(is_clean=False)
        self._futures.close(is_clean)
        for directory in self.directories:
            logs = [log for name, log in self._logs.items() if self._directories_by_log[name] is directory]
            try:
                if is_clean and directory.is_online:
                    tables = self._tables(directory)
                    close_cleanly(directory, logs, tables, pool=pool, broker_epoch=broker_epoch, closed=closed)
            finally:
                for log in logs:
                    log.close(is_clean=False)
                directory.release()
        self._abandoned.clear()
        self._logs.clear()
        self._directories_by_log.clear()


def stray_directory_name(name: TopicPartition, unique_id: str) -> str:
    """As Kafka's; like a deleted log's but for its last word."""
    return deleted_directory_name(name, unique_id).removesuffix(DELETE) + STRAY


def _starts_within_segment(log: PartitionLog) -> bool:
    first = log.segments.first
    return first is not None and log.log_start_offset > first.base_offset


def _recovery_points(logs: list[PartitionLog]) -> dict[TopicPartition, int]:
    return {log.topic_partition: log.recovery_point for log in logs}


def _log_starts(logs: list[PartitionLog]) -> dict[TopicPartition, int]:
    return {log.topic_partition: log.log_start_offset for log in logs if _starts_within_segment(log)}


def _high_watermarks(logs: list[PartitionLog]) -> dict[TopicPartition, int]:
    return {log.topic_partition: log.high_watermark for log in logs}


_OFFSETS_OF: Final = {
    RECOVERY_POINTS: _recovery_points,
    LOG_STARTS: _log_starts,
    HIGH_WATERMARKS: _high_watermarks,
}
