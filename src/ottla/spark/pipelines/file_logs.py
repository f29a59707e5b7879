"""Whether the directories that a pipeline writes files into know no batches but its own.

Spark lists in a directory (`_spark_metadata/<batch>`) which batches it has, and writes no batch whose number is listed.
So a pipeline with a new `storage`, which begins with batch 0, would write nothing into a directory that another storage
has filled, and the run would say that it is completed.

1. A directory whose list is ahead of the flow's own progress has batches of somebody else: ForeignDirectory, before a
   row is read. A crash leaves the list at most as far as the progress: Spark notes a batch before it begins it.
2. Places that are not on this machine (s3://, hdfs://) are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.errors import OttlaError
from ottla.spark.pipelines.batches import TOPICS
from ottla.spark.pipelines.operations import Flow
from ottla.spark.pipelines.plan import Plan
from ottla.spark.pipelines.streaming import checkpoint_of

LIST: Final = "_spark_metadata"
_BATCH: Final = re.compile(r"(\d+)(\.compact)?")


class ForeignDirectory(OttlaError):
    """A directory of files has batches of another storage, and Spark would write none of ours into it. Give the sink
    another directory; or, to write everything again, use `ottla pipeline reset`; or go back to the storage that filled
    it."""

    invalid_configuration = True


def refuse_foreign_directories(plan: Plan) -> None:
    """Raise ForeignDirectory for directories that would swallow what is written to them."""
    if problems := list(_problems(plan)):
        raise ForeignDirectory("; ".join(problems))


def _problems(plan: Plan) -> Iterator[str]:
    for flow in plan.flows:
        directory = directory_of(flow)
        if directory is None or "://" in plan.storage.removeprefix("file://"):
            continue
        listed = last_batch(directory / LIST)
        checkpoint = Path(checkpoint_of(plan.storage, flow.name).removeprefix("file://"))
        planned = last_batch(checkpoint / "offsets")
        if listed > planned:
            ours = f"has begun batch {planned}" if planned >= 0 else "has begun none"
            yield f"{flow.name}: {directory} has batches up to {listed}, and its progress in {plan.storage} {ours}"


def directory_of(flow: Flow) -> Path | None:
    """Where a flow writes files on this machine."""
    path = flow.target.options.get("path")
    if flow.target.format == TOPICS or path is None or "://" in path.removeprefix("file://"):
        return None
    return Path(path.removeprefix("file://"))


def last_batch(directory: Path) -> int:
    """The highest number among Spark's files there; -1 when there is none."""
    found = (_BATCH.fullmatch(path.name) for path in directory.glob("*"))
    return max((int(match[1]) for match in found if match is not None), default=-1)
