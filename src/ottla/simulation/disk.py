"""The disk of a simulated machine: testing/files.py's faulty twin, on virtual time and with a life per process.

    disk = SimulatedDisk(Random(7), clock.now_ms)
    broker = disk.mount()                 # the door of one process
    disk.kill()                           # kill -9: handles and locks are gone, all that was written stays
    disk.crash()                          # power cut: what was not synced is lost, torn or out of order
    disk.image()                          # every file as it is now, for who compares

1. `mount` gives a Files whose every call fails with EIO once the process is gone: code of a dead process that Python
   still runs (a `finally` at the very end) changes nothing.
2. Unsynced writes after a power cut: any subset, each torn at any byte, or zeros, or garbage; names of a directory:
   the first few, in order (testing/files.py, 2). A process that is killed loses nothing of what it wrote: the kernel
   has it.
3. Faults are those of MemoryFiles: `files.fill`, `files.fail`, `files.mend`, `files.flip_bit`, `files.open_limit`.
4. `strike_at` lets something happen instead of the n-th operation from now: a kill or a power cut in the middle of what
   the broker does to its disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from ottla.storage.files import File, Files, Lock, storage_error
from ottla.testing.files import CAPACITY_BYTES, Keep, MemoryFiles, Operation

__all__ = ["SimulatedDisk"]

DEAD: Final = "the process is gone"


class SimulatedDisk:
    """See the module."""

    def __init__(
        self, random: Random, now_ms: Callable[[], int] = lambda: 0, *, capacity_bytes: int = CAPACITY_BYTES
    ) -> None:
        self._mounts: list[_Mount] = []
        self.files = _StruckFiles(seed=random.getrandbits(32), now_ms=now_ms, capacity_bytes=capacity_bytes)

    def mount(self) -> Files:
        """The disk as one process sees it, for as long as that lives."""
        mounted = _Mount(self.files)
        self._mounts.append(mounted)
        return mounted

    def strike_at(self, count: int, strike: Callable[[], None]) -> None:
        """Call this instead of the `count`-th operation from now, which fails. A power cut before that forgets it."""
        self.files.strike, self.files.until_strike = strike, count

    def kill(self) -> None:
        """Whoever had mounted it is gone; what was written is there."""
        for mounted in self._mounts:
            mounted.die()
        self._mounts.clear()
        self.files.kill()

    def crash(self, keep: Keep = "any") -> None:
        """A power cut."""
        self.kill()
        self.files.strike = None
        self.files.crash(keep)

    def image(self) -> dict[str, bytes]:
        """Every file and what is in it."""
        return {str(path): self.files.read_bytes(path) for path in self._walk(Path("/"))}

    def _walk(self, path: Path) -> list[Path]:
        found: list[Path] = []
        for name in self.files.list_directory(path):
            below = path / name
            found += self._walk(below) if self.files.is_directory(below) else [below]
        return found


class _StruckFiles(MemoryFiles):
    """MemoryFiles in which an operation is the last one."""

    strike: Callable[[], None] | None = None
    until_strike = 0

    def attempt(self, operation: Operation, *, may_be_full: bool = True) -> None:
        if self.strike is not None:
            self.until_strike -= 1
            if self.until_strike <= 0:
                strike, self.strike = self.strike, None
                strike()
                raise storage_error(OSError(errno.EIO, os.strerror(errno.EIO)), DEAD, operation.path)
        super().attempt(operation, may_be_full=may_be_full)


class _Mount:
    """The door of one process: everything goes to the disk until the process is gone."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files
        self._is_dead = False

    def die(self) -> None:
        self._is_dead = True

    def _live(self, path: Path) -> MemoryFiles:
        if self._is_dead:
            raise storage_error(OSError(errno.EIO, os.strerror(errno.EIO)), DEAD, path)
        return self._files

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> File:
        return self._live(path).open(path, create=create, read_only=read_only)

    def exists(self, path: Path) -> bool:
        return self._live(path).exists(path)

    def is_directory(self, path: Path) -> bool:
        return self._live(path).is_directory(path)

    def size(self, path: Path) -> int:
        return self._live(path).size(path)

    def modified_ms(self, path: Path) -> int:
        return self._live(path).modified_ms(path)

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        self._live(path).set_modified_ms(path, modified_ms)

    def make_read_only(self, path: Path) -> None:
        self._live(path).make_read_only(path)

    def list_directory(self, path: Path) -> list[str]:
        return self._live(path).list_directory(path)

    def make_directory(self, path: Path) -> None:
        self._live(path).make_directory(path)

    def rename(self, old: Path, new: Path) -> None:
        self._live(old).rename(old, new)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        self._live(path).remove(path, missing_ok=missing_ok)

    def remove_directory(self, path: Path) -> None:
        self._live(path).remove_directory(path)

    def sync_directory(self, path: Path) -> None:
        self._live(path).sync_directory(path)

    def read_bytes(self, path: Path) -> bytes:
        return self._live(path).read_bytes(path)

    def replace_bytes(self, path: Path, content: bytes) -> None:
        self._live(path).replace_bytes(path, content)

    def free_bytes(self, path: Path) -> int:
        return self._live(path).free_bytes(path)

    def lock(self, path: Path) -> Lock:
        return self._live(path).lock(path)

    def open_file_limit(self) -> int | None:
        return self._files.open_file_limit()
