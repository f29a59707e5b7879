"""Which leader wrote from which offset, so that replicas that disagree find out where they parted.

Every leader of a partition has an epoch, a number that grows. A replica keeps, for each epoch it has records of, the
offset of the first one. A follower asks the leader "where does epoch 5 end with you?" and cuts its log there.

1. Entries grow in both columns: epoch and start offset.
2. `assign` keeps it so: an entry that contradicts older ones replaces them, because the new leader is right. Assigning
   the latest epoch again changes nothing, unless it now starts earlier.
3. An epoch ends where the next one begins; the latest ends where the log ends.
4. The first entry may start after the record that began its epoch: records before it were deleted, and the entry moved
   with the start of the log. It never starts before the log does.
5. `LeaderEpochs` is plain state, `EpochHistory` keeps it and leader-epoch-checkpoint together: a new epoch is written
   before the records of that epoch, so that the file never lacks an epoch of which there are records. A file
   that has too many, after a crash, is cut by the log with the two `truncate` methods. One that was cut by a power
   failure is noticed, and the epochs are read from the records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla.errors import StorageExhausted
from ottla.light_tuples import NamedTuple
from ottla.storage.directory.checkpoints import read_table, table_bytes, whole_number
from ottla.storage.files import Files
from ottla.storage.log.partition_directory import PartitionDirectory

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1
UNWRITTEN: Final = -2


class EpochEntry(NamedTuple):
    """A leader's epoch and the offset of its first record here."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Where an epoch ends; both are -1 when nothing is known of it."""

    epoch: int
    end_offset: int


UNKNOWN_END: Final = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        for each in entries:
            self.assign(*each)

    @classmethod
    def load(cls, files: Files, directory: Path) -> LeaderEpochs:
        """From a partition's directory; without the file there are no epochs."""
        return cls(read_table(files, directory / LEADER_EPOCHS, _parse, may_be_cut=True))

    def save(self, files: Files, directory: Path) -> None:
        """Replace the file in a partition's directory."""
        files.replace_bytes(directory / LEADER_EPOCHS, self.content())

    def content(self) -> bytes:
        """What the file holds."""
        return table_bytes(f"{epoch} {offset}" for epoch, offset in self._entries)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> EpochEntry | None:
        return self._entries[-1] if self._entries else None

    @property
    def earliest(self) -> EpochEntry | None:
        return self._entries[0] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that an epoch starts at an offset; says whether that was new and must be saved."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} cannot start at offset {start_offset}: neither may be negative")
        latest = self.latest
        if latest is not None and epoch == latest.epoch and start_offset >= latest.start_offset:
            return False
        while self._entries and (self._entries[-1].epoch >= epoch or self._entries[-1].start_offset >= start_offset):
            self._entries.pop()
        self._entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch up to the one asked for, and where it ends here.

        An epoch older than all entries was deleted: it is answered with itself and the first offset there is, so that
        the asker starts there. An epoch newer than all entries is unknown."""
        latest = self.latest
        if epoch == UNDEFINED_EPOCH or latest is None or epoch > latest.epoch:
            return UNKNOWN_END
        if epoch == latest.epoch:
            return EpochEnd(epoch, log_end_offset)
        after = bisect_right(self._entries, epoch, key=_epoch)
        found = self._entries[after - 1].epoch if after else epoch
        return EpochEnd(found, self._entries[after].start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch a record at that offset was written in; None when it is older than all entries."""
        after = bisect_right(self._entries, offset, key=_start_offset)
        return self._entries[after - 1].epoch if after else None

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget what starts at or after `end_offset`, where the log now ends; says whether anything did."""
        if end_offset < 0:
            raise ValueError(f"a log cannot end at offset {end_offset}; an unknown end is no reason to forget anything")
        kept = bisect_left(self._entries, end_offset, key=_start_offset)
        changed = kept < len(self._entries)
        del self._entries[kept:]
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget epochs that ended before `start_offset`, where the log now starts; the one that covers it is moved
        to it. Says whether anything changed."""
        covering = bisect_right(self._entries, start_offset, key=_start_offset) - 1
        if covering < 0 or (covering == 0 and self._entries[0].start_offset == start_offset):
            return False
        self._entries[: covering + 1] = [EpochEntry(self._entries[covering].epoch, start_offset)]
        return True

    def clear(self) -> bool:
        """Forget everything, when the log starts again; says whether there was anything."""
        return self.truncate_from_end(0)


class EpochHistory:
    """The epochs of a log together with their file: a change is in the file before it counts."""

    def __init__(self, epochs: LeaderEpochs, directory: PartitionDirectory) -> None:
        self.epochs = epochs
        self.written_epoch = _latest(epochs)  # the newest in the file; UNWRITTEN when the file lacks what is here
        self._directory = directory

    def begin(self, epoch: int, log_end_offset: int) -> None:
        """A leader begins. It is written down with its first record: before that there is nothing to lose, and a start
        forgets an epoch without records anyway."""
        changed = LeaderEpochs(self.epochs.entries)
        if changed.assign(epoch, log_end_offset):
            self.epochs, self.written_epoch = changed, UNWRITTEN

    def covers(self, epoch: int) -> bool:
        """Whether records of this epoch, and of older ones, change nothing here: the file has it, or a newer one."""
        return epoch <= self.written_epoch

    def change(self, change: Callable[[LeaderEpochs], bool]) -> None:
        """Change the epochs, in the file first: a change that fails has not happened."""
        changed = LeaderEpochs(self.epochs.entries)
        if change(changed) or self.written_epoch == UNWRITTEN:
            self._directory.replace(LEADER_EPOCHS, changed.content())
            self.epochs, self.written_epoch = changed, _latest(changed)

    def forget_before(self, offset: int) -> None:
        """The log starts at `offset`. Nobody waits for a sync: what a power failure leaves is noticed by the next start
        (recovery.py), and epochs too many are forgotten by it again."""
        changed = LeaderEpochs(self.epochs.entries)
        if not changed.truncate_from_start(offset):
            return
        if self.written_epoch != UNWRITTEN:
            with suppress(StorageExhausted):  # deleting is what makes room
                self._directory.replace_unsynced(LEADER_EPOCHS, changed.content())
        self.epochs = changed


def _latest(epochs: LeaderEpochs) -> int:
    return UNDEFINED_EPOCH if epochs.latest is None else epochs.latest.epoch


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset


def _parse(words: list[str]) -> EpochEntry:
    epoch, start_offset = words
    entry = EpochEntry(whole_number(epoch, 32), whole_number(start_offset))
    if min(entry) < 0:
        raise ValueError("neither number may be negative")
    return entry
