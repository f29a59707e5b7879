"""The directory of one log: its small files, its name, and what in it is not on the disk yet.

1. Owned by the log. What was changed without a sync is noted here, and the next flush has it: rolled segments, small
   files, names in directories.
2. `unsynced` returns all that as a value, in the order in which it must be synced; `forget_synced` takes that value
   back when it was done. What was noted in between stays.
3. A directory that is renamed takes everything along that waits for its sync.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from ottla.light_tuples import NamedTuple
from ottla.storage.files import Files, replace_unsynced
from ottla.storage.segment.segment import Segment


class Unsynced(NamedTuple):
    """What is not on the disk yet."""

    segments: tuple[Segment, ...]
    files: tuple[Path, ...]
    directories: tuple[Path, ...]


class PartitionDirectory:
    """Where a log is, and what of it waits for a sync."""

    def __init__(self, files: Files, path: Path) -> None:
        self.files = files
        self.path = path
        self._segments: list[Segment] = []
        self._small_files: list[Path] = []
        self._directories: list[Path] = []

    # --- what waits for a sync ----------------------------------------------------------------------------------------

    @property
    def has_new_names(self) -> bool:
        return bool(self._directories)

    @property
    def unsynced(self) -> Unsynced:
        return Unsynced(tuple(self._segments), tuple(self._small_files), tuple(self._directories))

    def syncs(self, unsynced: Unsynced, active: Iterable[Callable[[], None]]) -> list[Callable[[], None]]:
        """The calls that put it on the disk, those of the active segment among them; any thread may make them."""
        return [
            *(sync for segment in unsynced.segments for sync in segment.pending_syncs()),
            *active,
            *(partial(_sync_file, self.files, path) for path in unsynced.files),
            *(partial(self.files.sync_directory, path) for path in unsynced.directories),
        ]

    def forget_synced(self, synced: Unsynced) -> None:
        """These are on the disk."""
        self._segments = [each for each in self._segments if each not in synced.segments]
        self._small_files = [each for each in self._small_files if each not in synced.files]
        self._directories = [each for each in self._directories if each not in synced.directories]

    def note_segment(self, segment: Segment) -> None:
        """A segment that will not grow any more was written to."""
        if segment not in self._segments:
            self._segments.append(segment)

    def forget_segments(self, segments: Iterable[Segment]) -> None:
        """These are out of the log, or synced already."""
        gone = list(segments)
        self._segments = [each for each in self._segments if each not in gone]

    def note_file(self, path: Path) -> None:
        """A small file was written, and with it its name."""
        self.note_names()
        if path not in self._small_files:
            self._small_files.append(path)

    def note_names(self) -> None:
        """Names in the directory were made, changed or removed."""
        self._note_directory(self.path)

    def note_made(self) -> None:
        """The directory itself is new."""
        self._note_directory(self.path.parent)

    def _note_directory(self, path: Path) -> None:
        if path not in self._directories:
            self._directories.append(path)

    # --- small files and the name -------------------------------------------------------------------------------------

    def replace(self, name: str, content: bytes) -> None:
        """Replace a small file, synced; but a log so new that its directory is not synced yet need not have more on the
        disk than that, and the next flush syncs both."""
        if self.path.parent in self._directories:
            self.replace_unsynced(name, content)
        else:
            self.files.replace_bytes(self.path / name, content)

    def replace_unsynced(self, name: str, content: bytes) -> None:
        """Replace a small file, and let the next flush sync it; after a power failure it may be cut."""
        replace_unsynced(self.files, self.path / name, content)
        self.note_file(self.path / name)

    def rename(self, name: str) -> None:
        """Give the directory another name, on the disk when it returns."""
        path = self.path.with_name(name)
        self.files.rename(self.path, path)
        self.files.sync_directory(path.parent)
        self._small_files = [path / each.name for each in self._small_files]
        self._directories = [path if each == self.path else each for each in self._directories]
        self.path = path


def _sync_file(files: Files, path: Path) -> None:
    try:
        file = files.open(path)
    except FileNotFoundError:
        return  # a snapshot that was deleted meanwhile
    try:
        file.sync()
    finally:
        file.close()
