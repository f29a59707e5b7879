"""A door to one log directory that closes for good at the first failure.

1. The first write, sync, read, rename ... that fails is remembered; from then on nothing gets through: every call
   raises KafkaStorageError with what had happened. Nothing is tried again, because after a failed sync the kernel may
   say yes to bytes that it has lost.
2. A full disk (DiskFull) is no failure: the call is refused, the door stays open, and the next one may succeed.
3. A missing file and a file that we closed ourselves are mistakes or races of ours, not of the disk.
4. Closing files is always possible. What was handed to the kernel before (sendfile) goes on as it can.
5. The failure is one assignment, so that threads which only sync may meet it; whoever owns the directory looks at
   `failure`, nobody is called back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from ottla.errors import DiskFull, KafkaStorageError
from ottla.storage.files import Buffer, File, Files, Lock

P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger(__name__)


class FailStopFiles:
    """The files of one log directory, until the first failure."""

    def __init__(self, files: Files, directory: Path) -> None:
        self.failure: KafkaStorageError | None = None
        self._files = files
        self._directory = directory

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
        if not isinstance(error, DiskFull):
            self.fail(error)

    def _do(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.check()
        try:
            return call(*args, **kwargs)
        except KafkaStorageError as error:
            self.judge(error)
            raise

    # --- Files --------------------------------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FailStopFile:
        return FailStopFile(self, self._do(self._files.open, path, create=create, read_only=read_only))

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

    def list_directory(self, path: Path) -> list[str]:
        return self._do(self._files.list_directory, path)

    def make_directory(self, path: Path) -> None:
        self._do(self._files.make_directory, path)

    def rename(self, old: Path, new: Path) -> None:
        self._do(self._files.rename, old, new)

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


class FailStopFile:
    """An open file of the directory."""

    __slots__ = ("_door", "_file", "_is_closed", "path")

    def __init__(self, door: FailStopFiles, file: File) -> None:
        self.path = file.path
        self._door = door
        self._file = file
        self._is_closed = False

    def size(self) -> int:
        return self._do(self._file.size)

    def read_at(self, position: int, size_bytes: int) -> bytes:
        return self._do(self._file.read_at, position, size_bytes)

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        # Every append comes through here, so it is written out.
        if self._door.failure is not None:
            self._door.check()
        try:
            return self._file.write_at(position, buffers)
        except KafkaStorageError as error:
            self._judge(error)
            raise

    def truncate(self, size_bytes: int) -> None:
        self._do(self._file.truncate, size_bytes)

    def sync(self, *, metadata: bool = False) -> None:
        self._do(self._file.sync, metadata=metadata)

    def close(self) -> None:
        self._is_closed = True
        try:
            self._file.close()
        except KafkaStorageError as error:
            was_offline = self._door.failure is not None
            self._door.judge(error)
            if not was_offline:
                raise

    def fileno(self) -> int | None:
        self._door.check()
        return self._file.fileno()

    def _do(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._door.failure is not None:
            self._door.check()
        try:
            return call(*args, **kwargs)
        except KafkaStorageError as error:
            self._judge(error)
            raise

    def _judge(self, error: KafkaStorageError) -> None:
        if not self._is_closed:
            self._door.judge(error)
