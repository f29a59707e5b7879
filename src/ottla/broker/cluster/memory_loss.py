"""Whether the machine lost its memory since this broker's last life: then its copies may lack what it acknowledged.

With `replicated` durability a record is acknowledged when the in-sync brokers have it in memory. kill -9 does not harm
that, because the kernel keeps what was written to it; a machine that goes down does.

1. Every log directory has a file `.ottla_boot` with the id that the kernel gave itself when the machine came up. A
   directory that was not closed in order, and whose file names another boot, may have lost something.
2. Where nobody knows (no such file, though there are logs; a system that has no boot id) it counts as lost.
3. A directory that was closed in order lost nothing, nor did a new one: without that file and without logs of topics.
   Where the file is and no logs are, the logs may be what was lost. So the file is written before anything is
   acknowledged, and after a loss when the controllers have heard of it.

The broker says so when it registers, and a controller of ours does not let it lead, or count as in sync, as long as
another broker is known that may have more (cluster/controller/broker_changes.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ottla.errors import KafkaStorageError
from ottla.storage.directory.directories import LogDirectory
from ottla.storage.directory.unknown_logs import QUORUM_LOG

log = logging.getLogger(__name__)

BOOT_FILE: Final = ".ottla_boot"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
SIZE_LIMIT_BYTES: Final = 100


def read_boot_id() -> str | None:
    """The kernel's name for the time since the machine came up; None where there is none."""
    try:
        return BOOT_ID.read_text().strip() or None
    except OSError:
        return None


def lost_memory(directories: Iterable[LogDirectory], boot_id: str | None) -> bool:
    """Whether one of the directories may have lost something; they are loaded."""
    return any(_lost(each, boot_id) for each in directories if each.is_online)


def _lost(directory: LogDirectory, boot_id: str | None) -> bool:
    if directory.was_clean:
        return False
    noted = _noted(directory)
    return _has_logs(directory) if noted is None else noted != boot_id


def _has_logs(directory: LogDirectory) -> bool:
    files = directory.files
    names = (name for name in files.list_directory(directory.path) if name != QUORUM_LOG)
    return any(files.is_directory(directory.path / name) for name in names)


def _noted(directory: LogDirectory) -> str | None:
    path = directory.path / BOOT_FILE
    if not directory.files.exists(path):
        return None
    return directory.files.read_bytes(path)[:SIZE_LIMIT_BYTES].decode(errors="replace")


def note_boot(directories: Iterable[LogDirectory], boot_id: str | None) -> None:
    """From now on what is in the directories is of this boot."""
    for directory in directories:
        if boot_id is None or not directory.is_online:
            continue
        try:
            if _noted(directory) != boot_id:
                directory.files.replace_bytes(directory.path / BOOT_FILE, boot_id.encode())
        except KafkaStorageError as error:
            log.warning("%s cannot be written to: %s", directory.path, error)
