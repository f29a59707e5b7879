"""To make a pipeline begin anew: what is to be forgotten and removed, first as a plan, then done.

1. A flow begins anew when its checkpoint is gone: the next run is another query to Spark and to our sink, so nothing of
   it is taken for a repetition.
2. A files sink must lose Spark's list of its batches (_spark_metadata) at the same time: with it the new batches would
   count as done, and nothing would be written. The files in that list are the flow's own rows, which are written anew:
   they are removed with it. Files that somebody else put there stay.
3. Records in topics and rows in databases stay: only the user knows who has read them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.batches import TOPICS
from ottla.spark.pipelines.faults import nearest
from ottla.spark.pipelines.file_logs import LIST
from ottla.spark.pipelines.operations import Flow
from ottla.spark.pipelines.plan import Plan
from ottla.spark.pipelines.storage import CHECKPOINTS, Storage


class NotHere(OttlaError):
    """This cannot be reset from here. Where it is, remove the flow's checkpoint, and of a files sink the directory with
    its _spark_metadata."""


class UnknownFlow(OttlaError):
    """The pipeline has no such flow."""


@dataclass(frozen=True, slots=True)
class FlowReset:
    """What a reset does with one flow."""

    flow: str
    checkpoint: Path
    batches: int
    """How many batches are forgotten."""
    directory: Path | None = None
    files: tuple[Path, ...] = ()
    """What the flow has written there."""
    topic: str | None = None

    @property
    def sink(self) -> str:
        """What becomes of what it has written, in words."""
        if self.directory is not None:
            return f"{len(self.files)} files in {self.directory} are removed"
        if self.topic is not None:
            return f"records in {self.topic} stay: the next run writes them again behind these"
        return "rows in the table stay: the next run writes them again"


def plan_reset(plan: Plan, flows: Collection[str]) -> list[FlowReset]:
    """What a reset of these flows does; of all when none is named."""
    known = [flow.name for flow in plan.flows]
    for name in flows:
        if name not in known:
            raise UnknownFlow(f"{name!r}{nearest(name, known)}")
    storage = Storage(plan.storage)
    if storage.directory is None:
        raise NotHere(f"{plan.storage} is not on this machine")
    return [_of_flow(storage, storage.directory, flow) for flow in plan.flows if not flows or flow.name in flows]


def _of_flow(storage: Storage, root: Path, flow: Flow) -> FlowReset:
    progress = storage.progress_of(flow.name)
    checkpoint, batches = root / CHECKPOINTS / flow.name, 0 if progress is None else progress.batch + 1
    if flow.target.format == TOPICS:
        return FlowReset(flow.name, checkpoint, batches, topic=flow.target.options["topic"])
    if not flow.target.is_files:
        return FlowReset(flow.name, checkpoint, batches)
    path = flow.target.options["path"]
    if "://" in path.removeprefix("file://"):
        raise NotHere(f"{path} is not on this machine")
    directory = Path(path.removeprefix("file://"))
    return FlowReset(flow.name, checkpoint, batches, directory, tuple(written_files(directory)))


def written_files(directory: Path) -> Iterator[Path]:
    """The files that Spark's list in a directory says are there."""
    there: dict[Path, None] = {}
    logs = [path for path in (directory / LIST).glob("*") if path.name.partition(".")[0].isdigit()]
    for log in sorted(logs, key=lambda path: int(path.name.partition(".")[0])):
        for line in log.read_text().splitlines()[1:]:
            path = Path(unquote(urlparse(json.loads(line)["path"]).path))
            if directory in path.parents and path.exists():
                there[path] = None
    yield from there


def reset(changes: Collection[FlowReset]) -> None:
    """Do it; one that was cut short is done again by the next one, because the lists go behind what is in them."""
    for change in changes:
        for file in change.files:
            file.unlink(missing_ok=True)
            _checksum_of(file).unlink(missing_ok=True)
        if change.directory is not None:
            shutil.rmtree(change.directory / LIST, ignore_errors=True)
        if change.checkpoint.exists():
            shutil.rmtree(change.checkpoint)


def _checksum_of(file: Path) -> Path:
    """Hadoop's, beside each file on a local disk."""
    return file.with_name(f".{file.name}.crc")
