"""The only door to the disk: open, read, write, sync, rename, list, lock.

1. `Files` is what storage knows of the world's disk; `DiskFiles` is the real one, `ottla.testing.files.MemoryFiles` the
   twin that tears, loses and fails. Nothing else in storage calls the operating system.
2. Nothing is durable until it is synced: the bytes of a file by `File.sync`, its name by `sync_directory` of the
   directory it is in. A new file needs both; a rename or a removal needs the second.
3. `write_at` writes everything or raises. When the disk fills up in the middle of a write that reached beyond the end
   of the file, the file is cut back to `position`, which for an append is its old end: what the caller knows of the
   file stays true, and the append can be tried again when there is room. If even that fails, it is not DiskFull.
4. Errors of the operating system become ours here: a full disk or quota is DiskFull, no number left for one more file
   is TooManyOpenFiles, a missing file stays FileNotFoundError, all else is KafkaStorageError. A failed sync is never
   DiskFull, because the kernel may have dropped what it could not write: trying again would report success for bytes
   that are lost.
5. `replace_bytes` leaves the old or the new content, never neither: write <path>.tmp, sync it, rename, sync the
   directory. A caller that replaces a file while another thread does has a copy of its own (<path>.1.tmp); the last
   rename wins.
6. `lock` uses the kind of lock Java uses (POSIX record locks), so that Ottla and Apache Kafka keep each other out of a
   directory. Such a lock belongs to the process and dies with it; it is not inherited by a child. Because a process
   never refuses itself, and closing any handle of the file would drop the lock, locks held by this process are
   remembered here and refused before the file is opened.
7. A `File` may be used from several threads, except that nobody may use it while it is being closed. Once closed it
   refuses everything, so that a number the kernel gives to another file is never written to. `detach` is for whoever
   cannot know who else is using it: the file is closed when the last one has let go of the object.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, TypeAlias

from ottla.errors import DiskFull, KafkaStorageError, OttlaError, TooManyOpenFiles

if sys.platform != "win32":
    import fcntl
    import resource

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Memory of single bytes; a memoryview of wider items must be cast to "B" first."""

TEMPORARY_SUFFIX: Final = ".tmp"
CLOSED: Final = 0x7FFF_FFFF  # no file ever has this number; -1 would not reach the kernel, which says why it refuses
BUFFERS_PER_CALL: Final = 1024  # IOV_MAX of Linux and macOS; more buffers take more calls


class File(Protocol):
    """An open file, read and written at positions; it has no cursor."""

    path: Path

    def size(self) -> int:
        """Bytes in the file now."""

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """That many bytes from there; fewer only where the file ends."""

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        """Write the buffers one after the other from there; returns how many bytes that were."""

    def reserve(self, position: int, size_bytes: int) -> bool:
        """Wish for room behind the end, see reserving.py; False when there is none to be had. Never raises."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file, or let it grow by zeros that take no room yet."""

    def sync(self, *, metadata: bool = False) -> None:
        """Return when the bytes are on the disk; with `metadata` also what reading them back does not need."""

    def close(self) -> None:
        """Give the file back, without a sync; closing again does nothing."""

    def detach(self) -> None:
        """Have the file closed as soon as nobody refers to this object any more."""

    def fileno(self) -> int | None:
        """The kernel's number, for sendfile; None where there is no kernel."""


class Lock(Protocol):
    """Held until released or until the process ends."""

    path: Path

    def release(self) -> None:
        """Let others in; releasing again does nothing."""


class Files(Protocol):
    """A file system; every path is a whole path."""

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> File:
        """Open a file; with `create` one that is missing is made, one that exists is left as it is."""

    def exists(self, path: Path) -> bool: ...
    def is_directory(self, path: Path) -> bool: ...
    def size(self, path: Path) -> int: ...
    def modified_ms(self, path: Path) -> int: ...
    def set_modified_ms(self, path: Path, modified_ms: int) -> None: ...

    def make_read_only(self, path: Path) -> None:
        """From now on nobody opens the file for writing, and its owner alone opens it at all. Who has it open goes on
        writing."""

    def list_directory(self, path: Path) -> list[str]:
        """The names in a directory, sorted."""

    def make_directory(self, path: Path) -> None:
        """Make a directory and what is missing above it; one that exists is left as it is."""

    def rename(self, old: Path, new: Path) -> None:
        """Give a file or directory another name; a file that had the new name is gone."""

    def remove(self, path: Path, *, missing_ok: bool = False) -> None: ...

    def remove_directory(self, path: Path) -> None:
        """Remove a directory and everything in it; a crash may leave a part of it."""

    def sync_directory(self, path: Path) -> None:
        """Return when names made, changed and removed in the directory are on the disk."""

    def read_bytes(self, path: Path) -> bytes: ...

    def replace_bytes(self, path: Path, content: bytes) -> None:
        """Make `content` all that the file holds; after a crash it holds the old or the new content."""

    def free_bytes(self, path: Path) -> int:
        """Room left for us on the disk the path is on."""

    def lock(self, path: Path) -> Lock:
        """Lock a file, made if missing, against other brokers; DirectoryInUse when another one holds it."""

    def open_file_limit(self) -> int | None:
        """How many files and sockets this process may have open at once; None when there is no limit."""


class DirectoryInUse(OttlaError):
    """Another broker is using this log directory. Stop it, or give each broker its own log.dirs."""


# --- the disk --------------------------------------------------------------------------------------------------------


class DiskFiles:
    """The files of this machine (POSIX)."""

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> DiskFile:
        flags = (os.O_RDONLY if read_only else os.O_RDWR) | (os.O_CREAT if create else 0) | os.O_CLOEXEC
        with _doing("open", path):
            if read_only and path.is_dir():  # only for reading would the kernel open it
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            return DiskFile(path, os.open(path, flags, 0o644))

    def exists(self, path: Path) -> bool:
        with _doing("look at", path):
            return path.exists()

    def is_directory(self, path: Path) -> bool:
        with _doing("look at", path):
            return path.is_dir()

    def size(self, path: Path) -> int:
        with _doing("look at", path):
            return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        with _doing("look at", path):
            return path.stat().st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        with _doing("set the time of", path):
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_read_only(self, path: Path) -> None:
        with _doing("make read-only", path):
            path.chmod(stat.S_IRUSR)

    def list_directory(self, path: Path) -> list[str]:
        with _doing("list", path):
            return sorted(os.listdir(path))  # noqa: PTH208  names are what callers parse; a Path each would cost

    def make_directory(self, path: Path) -> None:
        with _doing("make directory", path):
            path.mkdir(parents=True, exist_ok=True)

    def rename(self, old: Path, new: Path) -> None:
        with _doing("rename", old):
            old.replace(new)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        with _doing("remove", path):
            path.unlink(missing_ok=missing_ok)

    def remove_directory(self, path: Path) -> None:
        with _doing("remove directory", path):
            import shutil  # loads archivers, and a start has no use for it

            shutil.rmtree(path)

    def sync_directory(self, path: Path) -> None:
        with _doing("sync directory", path, may_be_full=False):
            number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def read_bytes(self, path: Path) -> bytes:
        with _doing("read", path):
            return path.read_bytes()

    def replace_bytes(self, path: Path, content: bytes) -> None:
        replace_through(self, path, content)

    def free_bytes(self, path: Path) -> int:
        with _doing("look at the room of", path):
            import shutil  # loads archivers, and a start has no use for it

            return shutil.disk_usage(path).free

    def lock(self, path: Path) -> DiskLock:
        with _doing("lock", path):
            return DiskLock(path)

    def open_file_limit(self) -> int | None:
        if sys.platform == "win32":
            return None
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if soft == resource.RLIM_INFINITY else soft


class DiskFile:
    """An open file of this machine."""

    __slots__ = ("_number", "path")

    def __init__(self, path: Path, number: int) -> None:
        self.path = path
        self._number = number

    def size(self) -> int:
        try:
            return os.fstat(self._number).st_size
        except OSError as error:
            raise storage_error(error, "look at", self.path) from error

    def read_at(self, position: int, size_bytes: int) -> bytes:
        try:
            part = os.pread(self._number, size_bytes, position)
            if len(part) in (size_bytes, 0):
                return part
            return part + self._rest(position + len(part), size_bytes - len(part))
        except OSError as error:
            raise storage_error(error, "read", self.path) from error

    def _rest(self, position: int, size_bytes: int) -> bytes:
        parts: list[bytes] = []
        # One call gives less than 2 GiB, and a signal or a network disk may cut it shorter.
        while size_bytes and (part := os.pread(self._number, size_bytes, position)):
            parts.append(part)
            position += len(part)
            size_bytes -= len(part)
        return b"".join(parts)

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        size_bytes = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        try:
            if position < 0:  # for Linux -1 is a place: wherever the cursor is
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            first = buffers if len(buffers) <= BUFFERS_PER_CALL else buffers[:BUFFERS_PER_CALL]
            written = os.pwritev(self._number, first, position)
            if written != size_bytes:
                self._write_rest(position, written, buffers)
        except OSError as error:
            raise storage_error(error, "write", self.path) from error
        return size_bytes

    def _write_rest(self, position: int, written: int, buffers: Sequence[Buffer]) -> None:
        end = position + written
        rest = _without(written, buffers)
        try:
            while rest:
                written = os.pwritev(self._number, rest[:BUFFERS_PER_CALL], end)
                if not written:
                    raise OSError(errno.EIO, "the kernel wrote nothing and gave no reason")
                end += written
                rest = _without(written, rest)
        except OSError as error:
            if _is_full(error):
                self._cut_back(position, end)
            raise

    def _cut_back(self, position: int, end: int) -> None:
        # A file that is longer than what we wrote was so before, and its end is not ours to move.
        if os.fstat(self._number).st_size == end:
            os.ftruncate(self._number, position)

    def reserve(self, position: int, size_bytes: int) -> bool:
        from ottla.storage.reserving_choice import reserve  # few brokers have a file that is so large

        return reserve(self._number, position, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        with _doing("truncate", self.path):
            os.ftruncate(self._number, size_bytes)

    def sync(self, *, metadata: bool = False) -> None:
        try:
            _sync(self._number, metadata)
        except OSError as error:
            raise storage_error(error, "sync", self.path, may_be_full=False) from error

    def close(self) -> None:
        number, self._number = self._number, CLOSED
        if number != CLOSED:
            with _doing("close", self.path):
                os.close(number)

    def detach(self) -> None:
        """See `__del__`."""

    def __del__(self) -> None:
        number, self._number = self._number, CLOSED
        if number != CLOSED:
            with suppress(OSError):  # what a close could report, the next sync of the file does
                os.close(number)

    def fileno(self) -> int:
        return self._number


class DiskLock:
    """A lock on a file of this machine, against other processes and against ourselves."""

    _held: Final[set[Path]] = set()
    _guard: Final = threading.Lock()

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity = path.resolve()
        with self._guard:
            if self._identity in self._held:
                raise DirectoryInUse(f"{path.parent} is locked by this process already")
            self._number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._take()
            self._held.add(self._identity)

    def _take(self) -> None:
        try:
            fcntl.lockf(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._number)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise DirectoryInUse(f"{self.path.parent} is locked by another process") from error
            raise

    def release(self) -> None:
        with self._guard:
            number, self._number = self._number, CLOSED
            if number != CLOSED:
                self._held.discard(self._identity)
                os.close(number)


def _sync(number: int, metadata: bool) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(number, fcntl.F_FULLFSYNC)  # fsync of macOS stops at the drive's cache
    elif metadata:
        os.fsync(number)
    else:
        os.fdatasync(number)


def _without(written: int, buffers: Sequence[Buffer]) -> list[Buffer]:
    """The buffers after their first `written` bytes; empty ones are dropped."""
    rest: list[Buffer] = []
    for buffer in buffers:
        if written < len(buffer):
            rest.append(memoryview(buffer)[written:] if written else buffer)
        written = max(0, written - len(buffer))
    return rest


# --- for every implementation ----------------------------------------------------------------------------------------


def replace_through(files: Files, path: Path, content: bytes) -> None:
    """Promise 5, step by step, through any `Files`."""
    _replace(files, path, content, is_synced=True)
    files.sync_directory(path.parent)


def replace_unsynced(files: Files, path: Path, content: bytes) -> None:
    """The same without a sync: whole after kill -9; after a power failure it may be the old one, or nothing."""
    _replace(files, path, content, is_synced=False)


def _replace(files: Files, path: Path, content: bytes, *, is_synced: bool) -> None:
    with _temporary_name(path) as temporary:
        try:
            file = files.open(temporary, create=True)
            try:
                file.truncate(0)
                file.write_at(0, [content])
                if is_synced:
                    file.sync(metadata=True)
            finally:
                file.close()
            files.rename(temporary, path)
        except DiskFull:
            files.remove(temporary, missing_ok=True)  # half of it is of no use and takes room
            raise


_temporary_names: Final[set[Path]] = set()
_temporary_guard: Final = threading.Lock()


@contextmanager
def _temporary_name(path: Path) -> Iterator[Path]:
    """A name beside `path` that no other thread writes to. The first one is always the same, so that what a crash
    leaves behind is written over and does not pile up."""
    names = (path.with_name(f"{path.name}{f'.{n}' if n else ''}{TEMPORARY_SUFFIX}") for n in count())
    with _temporary_guard:
        temporary = next(name for name in names if name not in _temporary_names)
        _temporary_names.add(temporary)
    try:
        yield temporary
    finally:
        _temporary_names.discard(temporary)


def storage_error(error: OSError, doing: str, path: Path, *, may_be_full: bool = True) -> Exception:
    """Promise 4: our error for the operating system's; errors that are ours already stay as they are."""
    if isinstance(error, FileNotFoundError):
        return error
    known: type[KafkaStorageError] = KafkaStorageError
    if error.errno in (errno.EMFILE, errno.ENFILE):
        known = TooManyOpenFiles
    elif may_be_full and _is_full(error):
        known = DiskFull
    return known(f"cannot {doing} {path}: {error.strerror or error}")


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class _doing:  # noqa: N801  reads as a word in `with _doing("open", path)`
    """Translates what the operating system raises inside the block."""

    __slots__ = ("_may_be_full", "_path", "_what")

    def __init__(self, what: str, path: Path, *, may_be_full: bool = True) -> None:
        self._what, self._path, self._may_be_full = what, path, may_be_full

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise storage_error(error, self._what, self._path, may_be_full=self._may_be_full) from error
