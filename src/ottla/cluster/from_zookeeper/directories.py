"""Whose the log directories of a node are, when its cluster is taken from ZooKeeper over to the metadata log; and back.

    meta.properties              version 1 from now on: node.id in the place of broker.id, and the directory's own id
    meta.properties.zookeeper    as it was, for the way back

1. Decided before anything is written: every directory must be this node's, of this cluster, and no broker may have it.
2. What a node has never started on can be written again, and taken back. Who started has a metadata log that goes on,
   and ZooKeeper does not know what it says: from there nothing leads back.
3. meta.properties of the metadata's directory is written last. A crash before that leaves a node that does not start,
   and the same command is given again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from ottla.cluster.from_zookeeper.beginning import Beginning
from ottla.cluster.raft.snapshots import parse_name
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, replace
from ottla.storage.directory.checkpoints import (
    META_PROPERTIES,
    META_PROPERTIES_BEFORE,
    MetaProperties,
    lock_directory,
    read_meta_properties,
    write_meta_properties,
)
from ottla.storage.directory.unknown_logs import QUORUM_LOG, topics_of
from ottla.storage.files import Files
from ottla.values import random_uuid


class CannotTake(OttlaError):
    """A directory cannot be taken over as it is, so nothing was written."""


@dataclass(frozen=True, slots=True)
class DirectoryPlan:
    """One log directory before and after; `before` is None when it is new."""

    path: Path
    before: MetaProperties | None
    after: MetaProperties

    @property
    def is_done(self) -> bool:
        return self.before == self.after


def plan_directories(
    files: Files,
    directories: Sequence[Path],
    *,
    cluster_id: str | None,
    node_id: int | None,
    metadata_id: bytes | None,
    random_bytes: Callable[[int], bytes],
) -> list[DirectoryPlan]:
    """What becomes of the directories, of which the first one has the metadata; `metadata_id` is the id that it was
    promised. What is not told is what the directories say."""
    found = {path: read_meta_properties(files, path) if files.exists(path) else None for path in directories}
    known = [meta for meta in found.values() if meta is not None]
    cluster_id = cluster_id or next((meta.cluster_id for meta in known if meta.cluster_id), None)
    node_id = (
        node_id if node_id is not None else next((each.node_id for each in known if each.node_id is not None), None)
    )
    if cluster_id is None:
        raise CannotTake(
            f"{', '.join(map(str, directories))}: no {META_PROPERTIES} says which cluster they are of. A node that is "
            "new is formatted: kafka-storage format -t CLUSTER-ID -c FILE --no-initial-controllers"
        )
    if node_id is None:
        raise CannotTake("neither the settings (node.id) nor the directories say which node this is; set node.id")
    plans = []
    for path, meta in found.items():
        if meta is None:
            _refuse_logs(files, path)
        else:
            meta.expect(path, cluster_id=cluster_id, node_id=node_id)
        own_id = (metadata_id if path == directories[0] else None) or (meta and meta.directory_id)
        after = replace(
            meta or MetaProperties(),
            version=1,
            cluster_id=cluster_id,
            node_id=node_id,
            directory_id=own_id or random_uuid(random_bytes),
        )
        plans.append(DirectoryPlan(path, meta, after))
    return plans


def _refuse_logs(files: Files, path: Path) -> None:
    topics = sorted({*topics_of(files, path)}) if files.exists(path) else []
    if topics:
        raise CannotTake(
            f"{path} has logs ({', '.join(topics[:5])}) and no {META_PROPERTIES} that says whose they are. Restore "
            "that file, or start the broker with ZooKeeper once, which writes it"
        )


def has_started(files: Files, directory: Path) -> bool:
    """Whether a node has started on the metadata log of a directory: there is more than snapshots."""
    path = directory / QUORUM_LOG
    return files.exists(path) and any(parse_name(name) is None for name in files.list_directory(path))


def refuse_started(files: Files, directories: Sequence[Path]) -> None:
    for directory in directories:
        if has_started(files, directory):
            raise CannotTake(
                f"{directory / QUORUM_LOG} is the metadata log of a node that has started, and it stays as it is. The "
                "cluster is on the metadata log already"
            )


class Locked:
    """Holds the directories, so that no broker starts meanwhile; DirectoryInUse when one runs."""

    def __init__(self, files: Files, directories: Sequence[Path]) -> None:
        self._files, self._directories = files, directories
        self._stack = ExitStack()

    def __enter__(self) -> Locked:
        with ExitStack() as stack:
            for path in self._directories:
                if not self._files.exists(path):
                    self._files.make_directory(path)
                    self._files.sync_directory(path.parent)
                stack.callback(lock_directory(self._files, path).release)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def write(files: Files, plans: Sequence[DirectoryPlan], beginning: Beginning | None) -> Iterator[Path]:
    """Carry it out on directories that are held; tells what was written. See 3."""
    home = plans[0].path
    if beginning is not None:
        yield beginning.write(files, home)
    for plan in (*plans[1:], plans[0]):
        if plan.is_done:
            continue
        if plan.before is not None and plan.before.version == 0:
            files.replace_bytes(plan.path / META_PROPERTIES_BEFORE, files.read_bytes(plan.path / META_PROPERTIES))
        write_meta_properties(files, plan.path, plan.after)
        yield plan.path / META_PROPERTIES


def take_back(files: Files, directories: Sequence[Path]) -> Iterator[Path]:
    """Make the directories a broker's of ZooKeeper again, as long as nobody has started; tells which are as they
    were."""
    refuse_started(files, directories)
    logs = [path / QUORUM_LOG for path in directories if files.exists(path / QUORUM_LOG)]
    if not logs and not any(files.exists(path / META_PROPERTIES_BEFORE) for path in directories):
        raise CannotTake(
            f"{', '.join(map(str, directories))}: nothing was taken over here (there is no {META_PROPERTIES_BEFORE})"
        )
    for path in directories:
        if files.exists(path / META_PROPERTIES_BEFORE):
            files.rename(path / META_PROPERTIES_BEFORE, path / META_PROPERTIES)
        elif _is_new(files, path):
            files.remove(path / META_PROPERTIES, missing_ok=True)
        files.sync_directory(path)
        yield path
    for log in logs:  # at last: with it a crash before leaves something to take back
        files.remove_directory(log)
        files.sync_directory(log.parent)


def _is_new(files: Files, path: Path) -> bool:
    """Whether a directory was made for the metadata log, and has nothing of ZooKeeper's cluster."""
    meta = read_meta_properties(files, path)
    return meta is not None and meta.version == 1 and not any(topics_of(files, path))
