"""The faulty twin of the disk: a file system in memory that forgets, tears, fills up, fails and rots on demand.

    files = MemoryFiles(seed=7)
    files.fill(free_bytes=100)                                    # the write that needs more raises DiskFull
    files.open_limit = 20                                         # the 21st file gives EMFILE
    files.fail(3)                                                 # the third operation from now gives EIO, once
    files.fail(lambda each: each.kind == "sync", for_ever=True)   # no sync works any more
    files.flip_bit(path, bit=12)
    files.crash()                                                 # what was not synced is kept, lost or torn

1. It promises what `ottla.storage.files` promises and nothing more; one test suite runs on both.
2. What a crash may leave is the worst that POSIX allows. Of a file's unsynced writes any subset, each torn at any
   byte; of what makes a file longer also the room without its bytes: zeros, or what another file left there. Of the
   unsynced names of a directory the first few, in order; syncing a file does not keep its name.
   A failed sync is like a crash for that file: some of it is on the disk, the rest never will be, yet readers see all.
   A failed sync of a directory is the end of a journal: such a file system must be mounted again, so names that the
   disk does not have are gone at once.
3. After a crash, handles and locks of the life before are dead and planned failures are forgotten.
4. Everything is decided by the seed and the order of calls. `trace` has the operations that were tried.
5. It is bounded: `capacity_bytes` of data, TRACE_LIMIT operations, PENDING_LIMIT unsynced changes per file or directory
   (the oldest then reach the disk by themselves, as they do in a kernel). A hole at the end of a file takes no room.

Renames across directories are refused, because storage makes none.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final, Literal, TypeAlias

from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.storage.files import Buffer, DirectoryInUse, replace_through, storage_error

CAPACITY_BYTES: Final = 256 << 20
TRACE_LIMIT: Final = 100_000
PENDING_LIMIT: Final = 10_000
FATES: Final = ("lost", "lost", "whole", "whole", "start", "start", "middle", "middle", "zeros", "garbage")

Keep: TypeAlias = Literal["any", "nothing", "everything"]


class Operation(NamedTuple):
    """Something that was asked of the disk."""

    kind: str
    path: Path
    position: int = 0
    size_bytes: int = 0
    target: Path | None = None


class MemoryFiles:
    """A whole file system; `/` exists."""

    def __init__(
        self,
        *,
        seed: int = 0,
        capacity_bytes: int = CAPACITY_BYTES,
        now_ms: Callable[[], int] = lambda: 0,
        open_limit: int | None = None,
    ) -> None:
        self.trace: deque[Operation] = deque(maxlen=TRACE_LIMIT)
        self.open_files: dict[MemoryFile, None] = {}  # ten thousand topics have thirty thousand of them
        self.now_ms = now_ms
        self.open_limit = open_limit  # with as many files open, EMFILE
        self._random = Random(seed)
        self._capacity_bytes = self._first_capacity_bytes = capacity_bytes
        self._allocated_at_most_bytes = 0
        self._root = _Directory()
        self._locked: set[Path] = set()
        self._failures: list[_Failure] = []
        self._operations = 0

    # --- faults ---

    def kill(self) -> None:
        """The process that used it is gone: its handles and locks are dead, what it wrote is all there."""
        for handle in list(self.open_files):
            handle.die()
        self._locked = set()  # another one: a lock of the life before must not release one of the next

    def crash(self, keep: Keep = "any") -> None:
        """The power fails and comes back: see promises 2 and 3."""
        self.kill()
        self._failures.clear()
        self._root.crash(keep, self._random)
        self._allocated_at_most_bytes = self._root.allocated()

    def fill(self, free_bytes: int) -> None:
        """Leave room for that many bytes more."""
        self._allocated_at_most_bytes = self._root.allocated()
        self._capacity_bytes = self._allocated_at_most_bytes + free_bytes

    def mend(self) -> None:
        """Planned failures are forgotten, and there is room again."""
        self._failures.clear()
        self._capacity_bytes = self._first_capacity_bytes

    def fail(self, when: int | Callable[[Operation], bool], error: int = errno.EIO, *, for_ever: bool = False) -> None:
        """Let an operation fail: the `when`-th from now (1 is the next), or the first that `when` says yes to.
        With `for_ever` also those that follow it, or all that `when` says yes to."""
        number = self._operations + when if isinstance(when, int) else None
        self._failures.append(_Failure(number, when if callable(when) else None, error, for_ever))

    def flip_bit(self, path: Path, bit: int) -> None:
        """Let one bit of a file rot; bit 0 is the lowest of the first byte."""
        byte = bit // 8
        self.rot(path, byte, bytes([self._file(path).live.read(byte, 1)[0] ^ 1 << bit % 8]))

    def rot(self, path: Path, position: int, content: bytes) -> None:
        """Let bytes of a file become others, on the disk too; its time stays."""
        self._file(path).rot(_Change(position, content))

    def names(self, path: Path) -> list[str]:
        """Those in a directory, for who looks on from outside: it is no operation, so nothing fails or is counted."""
        return sorted(self._directory(path).entries) if self.is_directory(path) else []

    def content(self, path: Path) -> bytes:
        """All that is in a file, without a hole at its end; from outside, too."""
        return bytes(self._file(path).live.data)

    def synced_content(self, path: Path) -> bytes:
        """As much of that as the disk has just as everybody sees it."""
        return self._file(path).synced()

    def attempt(self, operation: Operation, *, may_be_full: bool = True) -> None:
        """Note an operation, and raise what was planned for it."""
        self._operations += 1
        self.trace.append(operation)
        for failure in self._failures:
            if failure.hits(operation, self._operations):
                if not failure.for_ever:
                    self._failures.remove(failure)
                raise _translated(failure.error, operation.kind, operation.path, may_be_full=may_be_full)

    # --- Files ---

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        self.attempt(Operation("open", path))
        if self.open_limit is not None and len(self.open_files) >= self.open_limit:
            raise _translated(errno.EMFILE, "open", path)
        parent, name = self._place(path)
        node = parent.entries.get(name)
        if node is None and create:
            node = _Inode(self.now_ms())
            parent.move(_Move(None, name, node))
        if node is None:
            raise _missing(path)
        if isinstance(node, _Directory):
            raise _translated(errno.EISDIR, "open", path)
        if node.is_read_only and not read_only:
            raise _translated(errno.EACCES, "open", path)
        return MemoryFile(self, path, node, read_only)

    def exists(self, path: Path) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: Path) -> bool:
        return isinstance(self._find(path), _Directory)

    def size(self, path: Path) -> int:
        return self._file(path).live.size

    def modified_ms(self, path: Path) -> int:
        return self._file(path).modified_ms

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        self.attempt(Operation("set_modified", path))
        self._file(path).modified_ms = modified_ms

    def make_read_only(self, path: Path) -> None:
        self.attempt(Operation("make_read_only", path))
        self._file(path).is_read_only = True

    def list_directory(self, path: Path) -> list[str]:
        self.attempt(Operation("list", path))
        return sorted(self._directory(path).entries)

    def make_directory(self, path: Path) -> None:
        self.attempt(Operation("make_directory", path))
        above = self._root
        for name in _names(path):
            if name not in above.entries:
                above.move(_Move(None, name, _Directory()))
            node = above.entries[name]
            if not isinstance(node, _Directory):
                raise _translated(errno.ENOTDIR, "make directory", path)
            above = node

    def rename(self, old: Path, new: Path) -> None:
        self.attempt(Operation("rename", old, target=new))
        if old.parent != new.parent:
            raise ValueError(f"{old} and {new} are in different directories; this twin does not model that")
        parent, name = self._place(old)
        node, there = parent.entries.get(name), parent.entries.get(new.name)
        if node is None:
            raise _missing(old)
        if isinstance(there, _Directory) and there is not node and (isinstance(node, _Inode) or there.entries):
            raise _translated(errno.ENOTEMPTY if isinstance(node, _Directory) else errno.EISDIR, "rename", old)
        if isinstance(there, _Inode) and isinstance(node, _Directory):
            raise _translated(errno.ENOTDIR, "rename", old)
        parent.move(_Move(name, new.name, None))

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        self.attempt(Operation("remove", path))
        node = self._find(path)
        if isinstance(node, _Directory):
            raise _translated(errno.EISDIR, "remove", path)
        if node is not None:
            parent, name = self._place(path)
            parent.move(_Move(name, None, None))
        elif not missing_ok:
            raise _missing(path)

    def remove_directory(self, path: Path) -> None:
        directory = self._directory(path)
        for name in sorted(directory.entries):
            below = path / name
            (self.remove_directory if self.is_directory(below) else self.remove)(below)
        self.attempt(Operation("remove_directory", path))
        parent, name = self._place(path)
        parent.move(_Move(name, None, None))

    def sync_directory(self, path: Path) -> None:
        directory = self._directory(path)
        try:
            self.attempt(Operation("sync_directory", path), may_be_full=False)
        except Exception:
            directory.crash_names("any", self._random)
            directory.forget()
            raise
        directory.crash_names("everything", self._random)

    def read_bytes(self, path: Path) -> bytes:
        self.attempt(Operation("read", path))
        content = self._file(path).live
        return content.read(0, content.size)

    def replace_bytes(self, path: Path, content: bytes) -> None:
        replace_through(self, path, content)

    def free_bytes(self, path: Path) -> int:
        if not self.exists(path):
            raise _missing(path)
        return max(0, self._capacity_bytes - self._root.allocated())

    def lacking_bytes(self, growth_bytes: int) -> int:
        """How much of that much more data there is no room for."""
        # Counting all that is there takes as long as there are files; a bound that only grows is enough until it is
        # not. It forgets what was deleted, and is found out again when it reaches the capacity.
        if self._allocated_at_most_bytes + growth_bytes > self._capacity_bytes:
            self._allocated_at_most_bytes = self._root.allocated()
        lacking = self._allocated_at_most_bytes + growth_bytes - self._capacity_bytes
        self._allocated_at_most_bytes += growth_bytes
        return max(0, lacking)

    def lock(self, path: Path) -> MemoryLock:
        self.attempt(Operation("lock", path))
        if path in self._locked:
            raise DirectoryInUse(f"{path.parent} is locked already")
        self.open(path, create=True).close()
        return MemoryLock(self._locked, path)

    def open_file_limit(self) -> int | None:
        return self.open_limit

    # --- finding ---

    def _find(self, path: Path) -> _Node | None:
        node: _Node | None = self._root
        for name in _names(path):
            node = node.entries.get(name) if isinstance(node, _Directory) else None
        return node

    def _file(self, path: Path) -> _Inode:
        node = self._find(path)
        if node is None:
            raise _missing(path)
        if isinstance(node, _Directory):
            raise _translated(errno.EISDIR, "look at", path)
        return node

    def _directory(self, path: Path) -> _Directory:
        node = self._find(path)
        if node is None:
            raise _missing(path)
        if isinstance(node, _Inode):
            raise _translated(errno.ENOTDIR, "look at", path)
        return node

    def _place(self, path: Path) -> tuple[_Directory, str]:
        if not _names(path):
            raise _translated(errno.EBUSY, "change", path)
        return self._directory(path.parent), path.name

    def crash_inode(self, inode: _Inode, keep: Keep) -> None:
        inode.crash(keep, self._random)


class MemoryFile:
    """An open file of this twin. A file that was removed can still be used by those who have it open."""

    def __init__(self, files: MemoryFiles, path: Path, inode: _Inode, read_only: bool) -> None:
        self.path = path
        self._files = files
        self._inode: _Inode | None = inode
        self._read_only = read_only
        files.open_files[self] = None

    def size(self) -> int:
        return self._opened("look at").live.size

    def read_at(self, position: int, size_bytes: int) -> bytes:
        inode = self._opened("read")
        if position < 0 or size_bytes < 0:
            raise _translated(errno.EINVAL, "read", self.path)
        self._files.attempt(Operation("read", self.path, position, size_bytes))
        return inode.live.read(position, size_bytes)

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        inode = self._opened("write", writing=True)
        content = b"".join(buffers)
        if position < 0:
            raise _translated(errno.EINVAL, "write", self.path)
        self._files.attempt(Operation("write", self.path, position, len(content)))
        lacking = self._files.lacking_bytes(inode.live.growth(position, len(content)))
        inode.modified_ms = self._files.now_ms()
        if lacking <= 0:
            inode.change(_Change(position, content))
            return len(content)
        self._write_what_fits(inode, position, content[: max(0, len(content) - lacking)])
        raise _translated(errno.ENOSPC, "write", self.path)

    def _write_what_fits(self, inode: _Inode, position: int, content: bytes) -> None:
        inode.change(_Change(position, content))
        if content and inode.live.size == position + len(content):
            inode.change(_Change(position, None))

    def reserve(self, position: int, size_bytes: int) -> bool:
        return False

    def truncate(self, size_bytes: int) -> None:
        inode = self._opened("truncate", writing=True)
        if size_bytes < 0:
            raise _translated(errno.EINVAL, "truncate", self.path)
        self._files.attempt(Operation("truncate", self.path, size_bytes))
        inode.modified_ms = self._files.now_ms()
        inode.change(_Change(size_bytes, None))

    def sync(self, *, metadata: bool = False) -> None:
        inode = self._opened("sync")
        try:
            self._files.attempt(Operation("sync", self.path), may_be_full=False)
        except Exception:
            if self._inode is not None:  # else the process was killed here, and the kernel still has all that it wrote
                self._files.crash_inode(inode, "any")
            raise
        inode.sync()

    def close(self) -> None:
        if self._inode is not None:
            self.die()
            self._files.attempt(Operation("close", self.path))

    def detach(self) -> None:
        """Whoever uses it now may go on; it does not count as open any more."""
        self._files.open_files.pop(self, None)

    def die(self) -> None:
        """Stop working without being closed, as in a crash."""
        self._inode = None
        self.detach()

    def fileno(self) -> None:
        return None

    def _opened(self, doing: str, *, writing: bool = False) -> _Inode:
        if self._inode is None or (writing and self._read_only):
            raise _translated(errno.EBADF, doing, self.path)
        return self._inode


class MemoryLock:
    """A lock of this twin."""

    def __init__(self, locked: set[Path], path: Path) -> None:
        self.path = path
        self._locked: set[Path] | None = locked
        locked.add(path)

    def release(self) -> None:
        if self._locked is not None:
            self._locked.discard(self.path)
        self._locked = None


# --- what is in memory and what is on the disk -----------------------------------------------------------------------


class _Change(NamedTuple):
    """Bytes written at a position, or (no content) a file cut or grown to it."""

    position: int
    content: bytes | None


class _Image:
    """The bytes of a file from one point of view; a hole at the end is only a size."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = 0

    def read(self, position: int, size_bytes: int) -> bytes:
        end = min(position + size_bytes, self.size)
        return bytes(self.data[position:end]).ljust(max(0, end - position), b"\0")

    def growth(self, position: int, size_bytes: int) -> int:
        return max(0, position + size_bytes - len(self.data)) if size_bytes else 0

    def apply(self, change: _Change) -> None:
        position, content = change
        if content is None:
            del self.data[position:]
            self.size = position
        elif content:
            self.data.extend(bytes(max(0, position - len(self.data))))
            self.data[position : position + len(content)] = content
            self.size = max(self.size, position + len(content))


class _Inode:
    """A file: what everybody sees, what the disk has, and the changes in between."""

    def __init__(self, modified_ms: int) -> None:
        self.modified_ms = modified_ms
        self.is_read_only = False
        self.live = _Image()
        self._durable = _Image()
        self._pending: deque[_Change] = deque()

    def change(self, change: _Change) -> None:
        self.live.apply(change)
        self._pending.append(change)
        if len(self._pending) > PENDING_LIMIT:
            self._durable.apply(self._pending.popleft())

    def rot(self, change: _Change) -> None:
        if change.position < self._durable.size:
            self._durable.apply(change)
        self.change(change)

    def synced(self) -> bytes:
        """The beginning that the disk has just as everybody sees it."""
        live, durable = bytes(self.live.data), bytes(self._durable.data)
        if live == durable:
            return live
        low, high = 0, min(len(live), len(durable))
        while low < high:  # the longest beginning that is the same
            middle = (low + high + 1) // 2
            low, high = (middle, high) if live[:middle] == durable[:middle] else (low, middle - 1)
        return live[:low]

    def sync(self) -> None:
        # Counted first: a write that another thread makes meanwhile was not part of what it asked for.
        for _ in range(len(self._pending)):
            self._durable.apply(self._pending.popleft())

    def crash(self, keep: Keep, random: Random) -> None:
        """Decide what of the unsynced changes the disk has."""
        old_size = self._durable.size
        while self._pending:
            change = self._pending.popleft()
            for kept in _torn(change, random, old_size) if keep == "any" else [change] if keep == "everything" else []:
                self._durable.apply(kept)

    def forget(self) -> None:
        """Everybody sees what the disk has."""
        self.live.apply(_Change(0, None))
        self.live.apply(_Change(0, bytes(self._durable.data)))
        self.live.size = self._durable.size


def _torn(change: _Change, random: Random, old_size: int) -> Iterator[_Change]:
    position, content = change
    fate = random.choice(FATES)
    if content is None:
        if fate in ("whole", "start"):
            yield change
    elif fate in ("zeros", "garbage"):
        start = min(len(content), max(0, old_size - position))  # room that the disk had given has its old bytes
        new = len(content) - start
        yield _Change(position + start, bytes(new) if fate == "zeros" else random.randbytes(new))
    elif fate != "lost":
        start = random.randint(0, len(content)) if fate == "middle" else 0
        end = len(content) if fate == "whole" else random.randint(start, len(content))
        yield _Change(position + start, content[start:end])


class _Move(NamedTuple):
    """A name that comes (new only), goes (old only) or changes (both)."""

    old: str | None
    new: str | None
    node: _Node | None

    def apply(self, entries: dict[str, _Node]) -> None:
        node = self.node if self.old is None else entries.pop(self.old, None)
        if self.new is not None and node is not None:
            entries[self.new] = node


class _Directory:
    """A directory: the names everybody sees, those on the disk, and the moves in between."""

    def __init__(self) -> None:
        self.entries: dict[str, _Node] = {}
        self._durable: dict[str, _Node] = {}
        self._pending: deque[_Move] = deque()

    def move(self, move: _Move) -> None:
        move.apply(self.entries)
        self._pending.append(move)
        if len(self._pending) > PENDING_LIMIT:
            self._pending.popleft().apply(self._durable)

    def crash_names(self, keep: Keep, random: Random) -> None:
        """Decide how many of the unsynced moves, in order, the disk has."""
        kept = {"everything": len(self._pending), "nothing": 0}.get(keep)
        for _ in range(random.randint(0, len(self._pending)) if kept is None else kept):
            self._pending.popleft().apply(self._durable)
        self._pending.clear()

    def forget(self) -> None:
        """Everybody sees the names that the disk has."""
        self.entries = dict(self._durable)

    def crash(self, keep: Keep, random: Random) -> None:
        """After a crash only what the disk has is left, here and below."""
        self.crash_names(keep, random)
        self.forget()
        for _, node in sorted(self.entries.items()):
            node.crash(keep, random)
            if isinstance(node, _Inode):
                node.forget()

    def allocated(self) -> int:
        return sum(
            len(node.live.data) if isinstance(node, _Inode) else node.allocated() for node in self.entries.values()
        )


_Node: TypeAlias = _Inode | _Directory


@dataclass(eq=False)
class _Failure:
    """A planned failure; `number` counts operations since the beginning."""

    number: int | None
    predicate: Callable[[Operation], bool] | None
    error: int
    for_ever: bool = field(default=False)

    def hits(self, operation: Operation, number: int) -> bool:
        if self.predicate is not None:
            return self.predicate(operation)
        return self.number is not None and (number >= self.number if self.for_ever else number == self.number)


def _names(path: Path) -> tuple[str, ...]:
    return path.parts[1:] if path.is_absolute() else path.parts


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _translated(number: int, doing: str, path: Path, *, may_be_full: bool = True) -> Exception:
    return storage_error(OSError(number, os.strerror(number)), doing, path, may_be_full=may_be_full)
