"""A door to one log directory that closes for good at the first failure.

1. The first write, sync, read, rename ... that fails is remembered; from then on nothing gets through: every call
   raises KafkaStorageError with what had happened. Nothing is tried again, because after a failed sync the kernel may
   say yes to bytes that it has lost.
2. What has run out (StorageExhausted: a full disk, no number left for one more file) is no failure: the call is
   refused, the door stays open, and the next one may succeed.
3. A missing file and a file that we closed ourselves are mistakes or races of ours, not of the disk.
4. Closing files is always possible. What was handed to the kernel before (sendfile) goes on as it can.
5. The failure is one assignment, so that threads which only sync may meet it; the owner of the directory checks
   `failure`, nobody is called back.
6. A file in the directory says that something failed (FAILED), for whoever starts next on this machine. It is made
   behind the closed door, and nobody waits for it.
7. Open files are counted (open_files.py). One that had to be closed is opened again by its next use, under the name
   that it has by then: renames come through here too. A number from `fileno` is good until the next call of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from ottla.errors import KafkaStorageError, OttlaError, StorageExhausted, TooManyOpenFiles
from ottla.storage.directory.open_files import OpenFiles
from ottla.storage.files import Buffer, File, Files, Lock

FAILED: Final = ".ottla_failed"
P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger(__name__)


class FailStopFiles:
    """The files of one log directory, until the first failure."""

    def __init__(self, files: Files, directory: Path, open_files: OpenFiles | None = None) -> None:
        self.failure: KafkaStorageError | None = None
        self.open_files = OpenFiles(files.open_file_limit()) if open_files is None else open_files
        self.lent: File | None = None  # the file whose number somebody uses
        self._files = files
        self._directory = directory
        self._guard = threading.Lock()  # of names: nobody opens a file again while it is being renamed
        self._handles: dict[Path, set[FailStopFile]] = {}  # by the directory they are in

    def fail(self, error: KafkaStorageError) -> None:
        """Close the door; the first reason stays."""
        if self.failure is None:
            self.failure = error
            logger.error("log directory %s is offline from now on: %s", self._directory, error)

    def check(self) -> None:
        """Raise if the directory is offline."""
        if self.failure is not None:
            raise KafkaStorageError(f"log directory {self._directory} is offline: {self.failure}")

    def judge(self, error: KafkaStorageError) -> None:
        """Decide what an error of a call means."""
        if not isinstance(error, StorageExhausted):
            is_first = self.failure is None
            self.fail(error)
            if is_first:
                self._leave_mark()

    def _leave_mark(self) -> None:
        try:
            self._files.open(self._directory / FAILED, create=True).close()
        except (OttlaError, OSError) as error:
            # A file system that refuses names is read-only, or gone: nothing can be started on it either.
            logger.warning("%s cannot be marked as failed: %s", self._directory, error)

    def _do(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.check()
        try:
            try:
                return call(*args, **kwargs)
            except TooManyOpenFiles:
                if not self.open_files.shrink():
                    raise
            return call(*args, **kwargs)
        except KafkaStorageError as error:
            self.judge(error)
            raise

    # --- open files ---------------------------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FailStopFile:
        file = self._do(self._files.open, path, create=create, read_only=read_only)
        handle = FailStopFile(self, file, read_only)
        with self._guard:
            self._handles.setdefault(path.parent, set()).add(handle)
        self.open_files.add(handle)
        return handle

    def reopen(self, handle: FailStopFile) -> File:
        """Open the file of a handle that had to be closed, unless somebody else just did."""
        with self._guard:
            if handle.file is not None:
                return handle.file
            if handle.is_closed:
                raise KafkaStorageError(f"cannot use {handle.path}: it was closed")
            try:
                file = self._do(self._files.open, handle.path, read_only=handle.read_only)
            except FileNotFoundError as error:
                raise KafkaStorageError(f"cannot open {handle.path} again: it was removed meanwhile") from error
            handle.file = file
            self.open_files.add(handle)
            return file

    def release(self, handle: FailStopFile) -> File | None:
        """Its owner closes it: gives the file that is open for it, if there is one."""
        with self._guard:
            handle.is_closed = True
            handles = self._handles.get(handle.path.parent, set())
            handles.discard(handle)
            if not handles:
                self._handles.pop(handle.path.parent, None)
        self.open_files.discard(handle)
        return handle.file

    def rename(self, old: Path, new: Path) -> None:
        with self._guard:
            self._do(self._files.rename, old, new)
            for handle in self._handles.get(old.parent, ()):
                if handle.path == old:
                    handle.path = new
            inside = self._handles.pop(old, None)
            if inside is not None:
                self._handles.setdefault(new, set()).update(inside)
                for handle in inside:
                    handle.path = new / handle.path.name

    # --- Files --------------------------------------------------------------------------------------------------------

    def exists(self, path: Path) -> bool:
        return self._do(self._files.exists, path)

    def is_directory(self, path: Path) -> bool:
        return self._do(self._files.is_directory, path)

    def size(self, path: Path) -> int:
        return self._do(self._files.size, path)

    def modified_ms(self, path: Path) -> int:
        return self._do(self._files.modified_ms, path)

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        self._do(self._files.set_modified_ms, path, modified_ms)

    def make_read_only(self, path: Path) -> None:
        self._do(self._files.make_read_only, path)

    def list_directory(self, path: Path) -> list[str]:
        return self._do(self._files.list_directory, path)

    def make_directory(self, path: Path) -> None:
        self._do(self._files.make_directory, path)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        self._do(self._files.remove, path, missing_ok=missing_ok)

    def remove_directory(self, path: Path) -> None:
        self._do(self._files.remove_directory, path)

    def sync_directory(self, path: Path) -> None:
        try:
            self._do(self._files.sync_directory, path)
        except FileNotFoundError as error:
            # A flush that was begun before its partition was deleted; what it should have kept is gone on purpose.
            raise KafkaStorageError(f"cannot sync directory {path}: it was removed or renamed meanwhile") from error

    def read_bytes(self, path: Path) -> bytes:
        return self._do(self._files.read_bytes, path)

    def replace_bytes(self, path: Path, content: bytes) -> None:
        self._do(self._files.replace_bytes, path, content)

    def free_bytes(self, path: Path) -> int:
        return self._do(self._files.free_bytes, path)

    def lock(self, path: Path) -> Lock:
        return self._do(self._files.lock, path)

    def open_file_limit(self) -> int | None:
        return self._files.open_file_limit()


class FailStopFile:
    """An open file of the directory; `file` is None while it had to be closed."""

    __slots__ = ("_door", "file", "is_closed", "is_recent", "path", "read_only")

    def __init__(self, door: FailStopFiles, file: File, read_only: bool) -> None:
        self.path = file.path
        self.file: File | None = file
        self.read_only = read_only
        self.is_closed = False
        self.is_recent = True  # used since OpenFiles checked it last
        self._door = door

    def size(self) -> int:
        return self._do(self._opened().size)

    # Every fetch and every append come through these two, so they are written out.

    def read_at(self, position: int, size_bytes: int) -> bytes:
        file = self.file
        if file is None or self._door.failure is not None:
            file = self._opened()
        self.is_recent = True
        try:
            return file.read_at(position, size_bytes)
        except KafkaStorageError as error:
            self._judge(error)
            raise

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        file = self.file
        if file is None or self._door.failure is not None:
            file = self._opened()
        self.is_recent = True
        try:
            return file.write_at(position, buffers)
        except KafkaStorageError as error:
            self._judge(error)
            raise

    def reserve(self, position: int, size_bytes: int) -> bool:
        """Never raises: the append that wishes for it has happened."""
        file = self.file
        return file is not None and self._door.failure is None and file.reserve(position, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        self._do(self._opened().truncate, size_bytes)

    def sync(self, *, metadata: bool = False) -> None:
        self._do(self._opened().sync, metadata=metadata)

    def close(self) -> None:
        file = self._door.release(self)
        if file is None:
            return
        try:
            file.close()
        except KafkaStorageError as error:
            was_offline = self._door.failure is not None
            self._door.judge(error)
            if not was_offline:
                raise

    def detach(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            file.detach()

    def fileno(self) -> int | None:
        file = self.file
        if file is None or self._door.failure is not None:
            file = self._opened()
        self.is_recent = True
        # Kept until the next one is asked for: a file that is detached now must not lose its number in mid-call.
        self._door.lent = file
        return file.fileno()

    def _opened(self) -> File:
        self._door.check()
        self.is_recent = True
        return self.file or self._door.reopen(self)

    def _do(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        # The call is a method of the file and so keeps it alive, whoever detaches it meanwhile.
        try:
            return call(*args, **kwargs)
        except KafkaStorageError as error:
            self._judge(error)
            raise

    def _judge(self, error: KafkaStorageError) -> None:
        if not self.is_closed:
            self._door.judge(error)
