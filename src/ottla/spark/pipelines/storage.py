"""The directory where a pipeline keeps its progress: who works in it, what was reported last, how far flows are.

    storage/_checkpoints/<flow>/<flow>/<version>     Spark's: offsets and commits of every batch, state
    storage/_ottla/lock                              held by the process that runs the pipeline
    storage/_ottla/status.json                       what it reported last (statuses.py)

1. Two processes in one storage would both write batches under the same numbers: the second is refused (StorageInUse).
   The lock is the system's, so it ends with the process, however that ends.
2. A storage that is no directory of this machine (s3://, hdfs://) is not locked, and its status is not kept.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.statuses import RunStatus, read_status
from ottla.spark.source.offsets import StreamOffset, UnreadableOffset

OWN: Final = "_ottla"
CHECKPOINTS: Final = "_checkpoints"


class StorageInUse(OttlaError):
    """Another process runs this pipeline, or resets it. Stop that one first: two of them would write rows twice."""


class ResetUnfinished(OttlaError):
    """A reset of this pipeline was cut short, so its progress and its files do not fit each other. Finish it with
    ottla pipeline reset."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one flow is: its last batch that is done, and where each of its topics was then."""

    flow: str
    batch: int
    offsets: tuple[StreamOffset, ...]


class Storage:
    """The storage of a plan; `directory` is None when it is not on this machine."""

    def __init__(self, address: str) -> None:
        self.address = address
        local = address.removeprefix("file://")
        self.directory = None if "://" in local else Path(local)

    @contextmanager
    def locked(self, *, for_reset: bool = False) -> Iterator[None]:
        """While this is open no other process works here. After a reset that was cut short only another reset may."""
        if self.directory is None:
            yield
            return
        path = self.directory / OWN / "lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                raise StorageInUse(f"{self.directory} is in use by process {file.read().strip() or '?'}") from None
            if self._reset_mark.exists() and not for_reset:
                raise ResetUnfinished(str(self.directory))
            file.seek(0)
            file.truncate()
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    def is_in_use(self) -> bool:
        """Whether a process works here now."""
        if self.directory is None or not (self.directory / OWN / "lock").exists():
            return False
        with (self.directory / OWN / "lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    @property
    def _reset_mark(self) -> Path:
        assert self.directory is not None, "only a directory is locked and reset"
        return self.directory / OWN / "resetting"

    @contextmanager
    def being_reset(self) -> Iterator[None]:
        """The lock, and a mark that stays when this is cut short."""
        with self.locked(for_reset=True):
            self._reset_mark.touch()
            yield
            self._reset_mark.unlink()

    # --- what was reported --------------------------------------------------------------------------------------------

    def write_status(self, status: RunStatus) -> None:
        """Keep what a run reports; who reads it sees this report or the one before, never half of one."""
        if self.directory is None:
            return
        path = self.directory / OWN / "status.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".new")
        half.write_text(json.dumps(status.to_json()))
        half.replace(path)

    def last_status(self) -> RunStatus | None:
        """What the last run reported, if there was one."""
        if self.directory is None:
            return None
        with suppress(OSError, ValueError):
            return read_status(json.loads((self.directory / OWN / "status.json").read_text()))
        return None

    # --- Spark's checkpoints ------------------------------------------------------------------------------------------

    def checkpoints_of(self, flow: str) -> list[Path]:
        """The versions that Spark has of a flow's progress, the newest last."""
        if self.directory is None:
            return []
        versions = (self.directory / CHECKPOINTS / flow / flow).glob("*")
        return sorted((each for each in versions if each.name.isdigit()), key=lambda each: int(each.name))

    def progress_of(self, flow: str) -> Progress | None:
        """How far a flow is; None when it has done no batch."""
        for checkpoint in reversed(self.checkpoints_of(flow)[-1:]):
            done = [int(each.name) for each in (checkpoint / "commits").glob("*") if re.fullmatch(r"\d+", each.name)]
            if done:
                lines = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()
                return Progress(flow, max(done), tuple(_offsets(lines)))
        return None


def _offsets(lines: list[str]) -> Iterator[StreamOffset]:
    """The positions in topics; other sources (files) count in their own ways."""
    for line in lines:
        with suppress(ValueError, UnreadableOffset):
            found: Any = json.loads(line)
            if isinstance(found, Mapping) and {"version", "offsets", "topic_ids"} <= found.keys():
                yield StreamOffset.from_json(found)
