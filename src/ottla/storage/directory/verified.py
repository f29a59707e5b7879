"""How far the pass over all records of a log directory is, and what it found: a file of ours beside the logs.

    ottla-verification.json     {"began_ms": ..., "ended_ms": ..., "next": ["orders", 3], "damaged": {file: what}}

Written by the broker that verifies (broker/housekeeping/verification.py), read by its next life and by `ottla doctor`.
A file that makes no sense is as good as none: the pass begins anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.storage.files import Files
from ottla.values import TopicPartition

POSITION_FILE: Final = "ottla-verification.json"


@dataclass(slots=True)
class Position:
    """How far the pass over a directory is: everything before the log `next_log` is verified. `damaged` are segments
    with records that could not be read, as `log directory/file`, and what is wrong with them."""

    began_ms: int = 0
    ended_ms: int = 0
    next_log: TopicPartition | None = None
    damaged: dict[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return self.ended_ms >= self.began_ms

    def to_bytes(self) -> bytes:
        following = None if self.next_log is None else list(self.next_log)
        times = {"began_ms": self.began_ms, "ended_ms": self.ended_ms}
        return json.dumps({**times, "next": following, "damaged": self.damaged}).encode()


def read_position(files: Files, path: Path) -> Position:
    """What the file says; a new one if it cannot be read: then a pass begins again."""
    try:
        found = json.loads(files.read_bytes(path))
        following = found["next"]
        next_log = None if following is None else TopicPartition(str(following[0]), int(following[1]))
        damaged = {str(file): str(what) for file, what in dict(found.get("damaged", {})).items()}
        return Position(int(found["began_ms"]), int(found["ended_ms"]), next_log, damaged)
    except (OttlaError, OSError, ValueError, TypeError, KeyError, IndexError):
        return Position()
