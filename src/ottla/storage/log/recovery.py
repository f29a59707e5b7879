"""Start-up: what is in a partition's directory becomes a log, whatever state the last stop left it in.

    leftovers of swaps and deletions -> segments -> recovery, unless the stop was clean -> start and end
    -> leader epochs -> producers

1. After a clean stop nothing of a segment is read: the end of the log is known from the newest producer snapshot and
   the recovery point, if they agree; if not, by a walk from the last index entry.
2. After an unclean stop the segments from the recovery point on are read once, with every CRC. The longest sound row of
   batches is kept, the rest is cut and synced; later segments go. Indexes, leader epochs, producers and aborted
   transactions of what was read are rebuilt from it. Nothing before the recovery point is touched.
   What is not sound below the recovery point itself was synced once, and rotted: it is no end. It stays where it is and
   is named (`damages`), the records behind it stay, and no offset of it is given out again.
3. Offsets follow each other without a gap, unless the topic is compacted, or was up to `compacted_up_to`. A gap that
   compaction did not make is where a crash lost the end of a segment but kept the next: the row ends there.
4. A missing index, a missing or damaged snapshot, a damaged epoch file cost time, never records. A lost log start is
   known from the first leader epoch. A damaged partition.metadata is written again when somebody knows a topic of that
   name. Messages of old formats are converted first (old_formats.py).
5. Doing it again, at once or after a crash in the middle, changes nothing more.
6. After a sync that failed (`is_suspect`) the kernel may show bytes that are not on the disk, and say yes to the next
   sync without writing them. So what was read from the recovery point on is written again, and synced, before
   anybody counts on it.
7. It goes in steps (`LogLoader.steps`); each is bounded by a chunk of records or STEP_BATCHES headers.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from ottla.errors import CorruptMessage
from ottla.records import BatchInfo
from ottla.storage.compaction.swap import FileName, resolve_leftovers
from ottla.storage.directory.checkpoints import MalformedCheckpoint, read_topic_id
from ottla.storage.directory.checksums import has_rotted, read_checksums
from ottla.storage.files import Files
from ottla.storage.log.leader_epochs import LEADER_EPOCHS, EpochEntry, LeaderEpochs
from ottla.storage.log.segment_limits import create_segment, jitter_ms, limits_of, remove_segment_files
from ottla.storage.producers.replay import book_found, found_batches, reindex, replay, with_sound_indexes
from ottla.storage.producers.snapshot import (
    SUFFIX,
    load_newest,
    remove_snapshot,
    remove_stray_snapshots,
    take_snapshot,
    truncate_fully,
)
from ottla.storage.producers.state import ProducerState
from ottla.storage.segment.damage import Damage
from ottla.storage.segment.names import OFFSET_INDEX_SUFFIX, RECORDS_SUFFIX, TIME_INDEX_SUFFIX
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

logger = logging.getLogger(__name__)

END_OF_OFFSETS: Final = 2**63 - 1


class LogLoader:
    """The start of one log: iterate `steps` to the end, then everything else is what was found."""

    def __init__(
        self,
        directory: Path,
        topic_partition: TopicPartition,
        settings: TopicSettings,
        *,
        files: Files,
        producers: ProducerState,
        now_ms: int,
        is_clean: bool,
        recovery_point: int,
        log_start_offset: int,
        compacted_up_to: int,
        log_start_is_known: bool = True,
        is_suspect: bool = False,
        high_watermark: int = 0,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.segments: Segments[Segment] = Segments()
        self.producers = producers
        self.epochs = LeaderEpochs()
        self.topic_id: bytes | None = None
        self.log_start_offset = log_start_offset
        self.log_end_offset = 0
        self.recovery_point = recovery_point
        # What was found out, for reports.
        self.is_new = False
        self.recovered: list[Segment] = []
        self.truncated_bytes = 0
        self.damage: str | None = None
        self.damages: list[tuple[Segment, Damage]] = []
        self._settings = settings
        self._files = files
        self._now_ms = now_ms
        self._is_clean = is_clean and not is_suspect
        self._is_suspect = is_suspect
        self._log_start_is_known = log_start_is_known
        self._compacted_up_to = END_OF_OFFSETS if settings.is_compacted else compacted_up_to
        self._synced_up_to = recovery_point  # also when it is read from further back
        self._high_watermark = high_watermark
        self._expected_offset = 0
        self._epochs_on_disk: tuple[EpochEntry, ...] | None = ()
        self._is_damaged = False

    def steps(self) -> Iterator[int]:
        """Do it; returns the offset reached after every step."""
        names = self._list()
        self.topic_id = self._read_topic_id()
        self._open_segments(names)
        yield from self._load_epochs()
        if self._may_be_old():
            names = yield from self._convert_old(names)
        earliest = self.epochs.earliest
        yield from self._reindex_doubtful(names)
        self.log_end_offset = yield from self._find_end(names)
        if not self._log_start_is_known and earliest is not None:
            # The epochs move with the log start, and before it: deleted records must not come back.
            self.log_start_offset = min(max(self.log_start_offset, earliest.start_offset), self.log_end_offset)
        self._restore_bounds()
        self._restore_epochs()
        yield from self._load_producers(names)

    # --- segments -----------------------------------------------------------------------------------------------------

    def _list(self) -> list[FileName]:
        if not self._files.exists(self.directory):
            self._files.make_directory(self.directory)
            self.is_new = True
            return []
        return resolve_leftovers(self._files, self.directory, limits_of(self._settings), self._now_ms)

    def _may_be_old(self) -> bool:
        """Whether the log may begin with messages of old formats: leaders of those had no epochs."""
        first, earliest = self.segments.first, self.epochs.earliest
        if first is None or (earliest is not None and earliest.start_offset <= first.base_offset):
            return False
        return bool(first.size_bytes)

    def _convert_old(self, names: list[FileName]) -> Generator[int, None, list[FileName]]:
        """Segments of old formats become batches; the names are those that there are then."""
        from ottla.storage.log.old_formats import convert, old_segments  # a broker without logs has no use for it

        old = old_segments(self._files, self.directory, self.segments.base_offsets)
        if not old:
            return names
        for segment in self.segments:
            segment.abandon()
        self.segments = Segments()
        yield from convert(self._files, self.directory, old, is_clean=self._is_clean)
        names = self._list()
        self._open_segments(names)
        return names

    def _open_segments(self, names: list[FileName]) -> None:
        limits = limits_of(self._settings)
        bases = {name.base_offset for name in names if name.kind == RECORDS_SUFFIX}
        for base_offset in sorted(bases):
            jitter = jitter_ms(self._settings, self.topic_partition, base_offset)
            self.segments.add(
                Segment.open(self._files, self.directory, base_offset, limits, now_ms=self._now_ms, jitter_ms=jitter)
            )
        for orphan in {name.base_offset for name in names if name.kind != SUFFIX} - bases:
            remove_segment_files(self._files, self.directory, orphan)

    def _reindex_doubtful(self, names: list[FileName]) -> Iterator[int]:
        """Indexes that are missing or rotten; those from the recovery point on get new ones anyway."""
        present = {(name.base_offset, name.kind) for name in names}
        checksums = read_checksums(self._files, self.directory)
        for segment in self.segments if self._is_clean else self._trusted():
            is_whole = {(segment.base_offset, kind) for kind in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)} <= present
            if not is_whole:
                logger.warning("an index of %s is missing and is built anew", segment.path)
            elif has_rotted(self._files, segment.aborted_index.path, checksums.get(segment.aborted_index.path.name)):
                logger.warning("%s has rotted and is built anew from the records", segment.aborted_index.path)
            else:
                continue
            self._reindex(segment)
            yield segment.base_offset

    def _reindex(self, segment: Segment) -> None:
        reindex(
            segment,
            self.segments,
            files=self._files,
            directory=self.directory,
            log_start_offset=self.log_start_offset,
            now_ms=self._now_ms,
        )
        self.recovered.append(segment)

    def _trusted(self) -> list[Segment]:
        """The segments before the one that the recovery point is in."""
        doubtful = self.segments.values(self.recovery_point)
        return [segment for segment in self.segments if segment not in doubtful]

    # --- the end ------------------------------------------------------------------------------------------------------

    def _find_end(self, names: list[FileName]) -> Generator[int, None, int]:
        last = self.segments.last
        if last is None:
            return self.log_start_offset
        if self._is_clean:
            try:
                return self._clean_end(last, names)
            except CorruptMessage as error:
                # Whatever the marker says, somebody has cut the file since.
                logger.warning("%s was not closed cleanly: %s", last.path, error)
                self.recovery_point = last.base_offset
        yield from self._recover()
        return self._expected_offset

    def _clean_end(self, last: Segment, names: list[FileName]) -> int:
        if not last.size_bytes:
            return last.base_offset
        newest = max((name.base_offset for name in names if name.kind == SUFFIX), default=-1)
        if newest == self.recovery_point and newest > last.base_offset:
            return newest
        return with_sound_indexes(last, self._reindex, lambda segment: segment.next_offset())

    def _recover(self) -> Iterator[int]:
        """Read everything from the recovery point on."""
        doubtful = self.segments.values(self.recovery_point)
        first = doubtful[0]
        if first.base_offset < self.recovery_point < self._high_watermark:
            # A flush writes down the last offset that it synced (log_end.py, 1): the batch of that one is synced, too.
            self._synced_up_to = self.recovery_point + 1
        self._expected_offset = first.base_offset
        self.epochs.truncate_from_end(first.base_offset)
        yield from self._producers_at(first.base_offset)
        for number, segment in enumerate(doubtful):
            if not self._follows(segment, is_first=number == 0):
                self._drop(doubtful[number:])
                break
            yield from self._recover_segment(segment, doubtful[number + 1 : number + 2])
            if self._is_damaged:
                self._drop(doubtful[number + 1 :])
                break
        self._go_on_behind_damage()

    def _follows(self, segment: Segment, *, is_first: bool) -> bool:
        """Whether a segment begins where the one before it ends."""
        if is_first or self._is_next(segment.base_offset):
            if not is_first:
                self.producers.move_end(segment.base_offset)
                take_snapshot(self.producers, self._files, self.directory)
            return True
        self._damaged(f"{segment.path} does not begin at {self._expected_offset}, where the records before it end")
        return False

    def _go_on_behind_damage(self) -> None:
        """What is appended goes to a segment of its own when the last one ends with bytes that are no batch: a walk
        over its headers would never come to what is behind them."""
        last = self.segments.last
        if last is None or not last.damages or last.damages[-1].end_position < last.size_bytes:
            return
        made = create_segment(
            *(self._files, self.directory, self._expected_offset, self._settings, self.topic_partition),
            now_ms=self._now_ms,
        )
        self.segments.add(made)
        self.recovered.append(made)
        self._files.sync_directory(self.directory)

    def _recover_segment(self, segment: Segment, following: list[Segment]) -> Iterator[int]:
        end_offset = following[0].base_offset if following else self._synced_up_to
        has_gaps = segment.base_offset < self._compacted_up_to
        recovery = segment.recover(synced_up_to=self._synced_up_to, end_offset=end_offset, has_gaps=has_gaps)
        self._expected_offset = segment.base_offset
        is_row = True
        for batches in recovery:
            sound = self._in_row(batches) if is_row else []
            is_row = is_row and len(sound) == len(batches)
            book_found(self.producers, segment.aborted_index, sound)
            self._assign_epochs(sound)
            yield self._expected_offset
        self.recovered.append(segment)
        self.truncated_bytes += recovery.truncated_bytes
        segment.damages = tuple(recovery.damages)
        for damage in recovery.damages:
            self.damages.append((segment, damage))
            logger.error("%s has rotten records in %s: %s", self.topic_partition, segment.path, damage)
        if recovery.torn is not None:
            self._damaged(f"{segment.path}: {recovery.torn}")
        elif is_row:
            self._expected_offset = max(self._expected_offset, recovery.next_offset)
        if not is_row:
            self._damaged(f"{segment.path} has a gap at offset {self._expected_offset}")
            self.truncated_bytes += segment.truncate_to(self._expected_offset, self._now_ms)
        if self._is_suspect:
            for _ in segment.records.rewrite():
                yield self._expected_offset
        if self._is_damaged or self._is_suspect:
            # Else a second crash could bring the cut bytes back, behind batches that took their place.
            segment.records.file.sync(metadata=True)

    def _in_row(self, batches: list[BatchInfo]) -> list[BatchInfo]:
        """The batches before the first gap."""
        expected_offset = self._expected_offset
        for number, batch in enumerate(batches):
            if batch.base_offset != expected_offset and not self._is_next(batch.base_offset):
                return batches[:number]
            self._expected_offset = expected_offset = batch.next_offset
        return batches

    def _is_next(self, offset: int) -> bool:
        """Whether a batch may follow: at once, behind what compaction removed, or behind what rotted."""
        if offset == self._expected_offset:
            return True
        has_gap = self._expected_offset < self._synced_up_to or offset <= self._compacted_up_to
        return self._expected_offset < offset and has_gap

    def _damaged(self, what: str) -> None:
        self._is_damaged = True
        self.damage = what
        logger.warning("%s is cut to offset %d: %s", self.topic_partition, self._expected_offset, what)

    def _drop(self, segments: list[Segment]) -> None:
        """Remove segments behind the cut, the last one first, so that a crash leaves no hole."""
        for segment in reversed(segments):
            self.truncated_bytes += segment.size_bytes
            self.segments.remove(segment.base_offset)
            segment.delete()
            self.recovered = [each for each in self.recovered if each is not segment]
            remove_snapshot(self._files, self.directory, segment.base_offset)
        if segments:
            self._files.sync_directory(self.directory)

    # --- the bounds ---------------------------------------------------------------------------------------------------

    def _restore_bounds(self) -> None:
        first = self.segments.first
        if first is not None and self.log_end_offset < self.log_start_offset:
            logger.warning(
                "%s ends at %d, before its start %d, and is emptied: its files were removed by somebody else",
                *(self.topic_partition, self.log_end_offset, self.log_start_offset),
            )
            self._drop(list(self.segments))
            self.epochs.clear()
            truncate_fully(self.producers, self._files, self.directory, self.log_start_offset)
            first = None
        if first is None:
            first = create_segment(
                self._files,
                self.directory,
                self.log_start_offset,
                self._settings,
                self.topic_partition,
                now_ms=self._now_ms,
            )
            self.segments.add(first)
            self.recovered.append(first)
            self.log_end_offset = self.log_start_offset
        self.log_start_offset = max(self.log_start_offset, first.base_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        if self._is_clean and not self.recovered:
            self.recovery_point = self.log_end_offset

    # --- leader epochs ------------------------------------------------------------------------------------------------

    def _load_epochs(self) -> Iterator[int]:
        try:
            self.epochs = LeaderEpochs.load(self._files, self.directory)
            self._epochs_on_disk = self.epochs.entries
            self._refuse_empty_epochs()
        except MalformedCheckpoint as error:
            logger.warning("the leader epochs of %s are read from its records: %s", self.topic_partition, error)
            self._epochs_on_disk = None
            for segment in self.segments if self._is_clean else self._trusted():
                for batches in found_batches(segment, segment.base_offset, END_OF_OFFSETS):
                    self._assign_epochs(batches)
                    yield batches[-1].next_offset

    def _refuse_empty_epochs(self) -> None:
        """Kafka makes the file empty; beside records that is what a power failure left of it."""
        path = self.directory / LEADER_EPOCHS
        is_suspect = not self.epochs.entries and self.segments.size_bytes and self._files.exists(path)
        if is_suspect and not self._files.size(path):
            raise MalformedCheckpoint(f"{path} is empty")

    def _assign_epochs(self, batches: list[BatchInfo]) -> None:
        known = -1 if self.epochs.latest is None else self.epochs.latest.epoch
        for batch in batches:
            epoch = batch.leader_epoch
            if epoch > known:
                self.epochs.assign(epoch, batch.base_offset)
                known = epoch

    def _read_topic_id(self) -> bytes | None:
        """None also when it rotted, or the power failed too early: who knows a topic of that name says it again."""
        try:
            return read_topic_id(self._files, self.directory)
        except MalformedCheckpoint as error:
            logger.warning("nobody knows which topic %s belongs to: %s", self.topic_partition, error)
            return None

    def _restore_epochs(self) -> None:
        if self.damages:
            # Of an epoch whose first batch rotted the records tell nothing, or too late a beginning. A leader that did
            # not know it would have its followers cut what they still have.
            began = [entry for entry in self._epochs_on_disk or () if self._has_rotted_at(entry.start_offset)]
            self.epochs = LeaderEpochs(sorted({*began, *self.epochs.entries}))
        self.epochs.truncate_from_start(self.log_start_offset)
        self.epochs.truncate_from_end(self.log_end_offset)
        # Most recoveries find again what is there; two syncs for each of a thousand logs would be felt.
        if self.epochs.entries != self._epochs_on_disk or self._is_suspect:
            self.epochs.save(self._files, self.directory)

    def _has_rotted_at(self, offset: int) -> bool:
        return any(damage.first_offset <= offset < damage.next_offset for _, damage in self.damages)

    # --- producers ----------------------------------------------------------------------------------------------------

    def _producers_at(self, offset: int) -> Iterator[int]:
        """Let the producers be as they were at an offset."""
        load_newest(
            self.producers,
            self._files,
            self.directory,
            log_start_offset=self.log_start_offset,
            log_end_offset=offset,
            now_ms=self._now_ms,
        )
        yield from replay(self.producers, self.segments, offset)

    def _load_producers(self, names: list[FileName]) -> Iterator[int]:
        snapshots = [name.base_offset for name in names if name.kind == SUFFIX]
        remove_stray_snapshots(self._files, self.directory, self.segments.base_offsets)
        for offset in snapshots:
            if offset > self.log_end_offset:
                remove_snapshot(self._files, self.directory, offset)
        if self.producers.end_offset != self.log_end_offset or not self.recovered:
            yield from self._producers_at(self.log_end_offset)
