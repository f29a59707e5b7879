"""Whether a broker is ready: what /health/ready answers.

1. Not while it starts or stops.
2. A controller that is no broker has no records; it is ready when it knows who leads the metadata log.
3. Not when nothing can be written: every log directory is offline or has less than ROOM_NEEDED_BYTES left. With room in
   one directory the broker is ready, because topics of that directory are.
4. The reason names the directories, so that its reader knows where to search.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from ottla.errors import KafkaStorageError

ROOM_NEEDED_BYTES: Final = 10 * 1024 * 1024
"""A batch, its index and the checkpoints fit into it; below it a write may fail at any moment."""


class DirectoryFiles(Protocol):
    def free_bytes(self, path: Path) -> int: ...


class Directory(Protocol):
    """What is asked of a log directory."""

    @property
    def path(self) -> Path: ...
    @property
    def failure(self) -> KafkaStorageError | None: ...
    @property
    def files(self) -> DirectoryFiles: ...


def why_not_writable(directories: Iterable[Directory]) -> str | None:
    """Why no record can be written now; None when one can be."""
    problems = []
    for directory in directories:
        problem = _problem(directory)
        if problem is None:
            return None
        problems.append(f"{directory.path} {problem}")
    return f"nothing can be written: {', '.join(problems)}"


def why_not_led(controller_id: int) -> str | None:
    """Why the metadata cannot be changed, as a controller knows it."""
    return "no node leads the metadata log: no majority of the voters is there" if controller_id < 0 else None


def _problem(directory: Directory) -> str | None:
    if directory.failure is not None:
        return "is offline"
    try:
        free_bytes = directory.files.free_bytes(directory.path)
    except KafkaStorageError as error:
        return f"cannot be used ({error})"
    if free_bytes < ROOM_NEEDED_BYTES:
        return f"is full ({free_bytes} bytes are free); make room or add a directory to log.dirs"
    return None
