"""What is out of use and waits for file.delete.delay.ms before it leaves the disk.

1. A removal is due at a time; `pop_due` returns a bounded number of those that are, the longest waiting first.
2. The owner, or a thread for him, calls `run`: nobody else uses these files any more. One that fails is not tried
   again: the directory is offline then, or the next start removes what is left.
3. Files of a partition that is deleted as a whole wait with it, so that they cannot be mistaken for those of a
   partition that gets the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from pathlib import Path

from ottla.light_dataclasses import dataclass
from ottla.storage.files import Files
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.truncate import Removed
from ottla.values import TopicPartition


@dataclass(frozen=True, slots=True)
class Removal:
    """Segments of a log, a whole log, or a directory found at the start: whatever is not None."""

    name: TopicPartition
    path: Path
    files: Files
    segments: tuple[Removed, ...] = ()
    log: PartitionLog | None = None
    is_directory: bool = False

    def run(self) -> None:
        """Remove it from the disk."""
        if self.log is None and not self.is_directory:
            for removed in self.segments:
                removed.remove(self.files)
            return
        self.abandon()
        if self.files.exists(self.path):
            self.files.remove_directory(self.path)
            self.files.sync_directory(self.path.parent)

    def abandon(self) -> None:
        """Let its files go and leave them for the next start."""
        for removed in self.segments:
            for segment in removed.segments:
                segment.abandon()
        if self.log is not None:
            self.log.close(is_clean=False)


class Removals:
    """All that waits, by when it is due."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Removal]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Removal]:
        return iter([removal for _, _, removal in self._waiting])

    def add(self, removal: Removal, due_ms: int) -> None:
        self._count += 1
        heappush(self._waiting, (due_ms, self._count, removal))

    def pop_due(self, now_ms: int, limit: int) -> list[Removal]:
        """Those whose time has come, `limit` at most."""
        due: list[Removal] = []
        while self._waiting and self._waiting[0][0] <= now_ms and len(due) < limit:
            due.append(heappop(self._waiting)[2])
        return due

    def pop_segments(self, name: TopicPartition) -> tuple[Removed, ...]:
        """The files that wait for a log in use; they wait with somebody else from here on."""
        found = [entry for entry in self._waiting if _is_of_log(entry[2], name)]
        self._waiting = [entry for entry in self._waiting if not _is_of_log(entry[2], name)]
        heapify(self._waiting)
        return tuple(removed for _, _, each in sorted(found, key=lambda entry: entry[:2]) for removed in each.segments)

    def clear(self) -> list[Removal]:
        """Remove and return all of them."""
        waiting, self._waiting = [each for _, _, each in self._waiting], []
        return waiting


def _is_of_log(removal: Removal, name: TopicPartition) -> bool:
    """Whether these are segments of a log that is in use."""
    return removal.name == name and removal.log is None and not removal.is_directory
