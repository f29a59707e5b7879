"""Logs in the directories of a broker whose own metadata is not there: whose they are, in words, before any is touched.

1. Nothing is locked, written or repaired: whoever made the directory can go on with it as it is.
2. A broker that is a cluster of its own must not begin a new one beside logs of another: their topics would be unknown,
   and a topic that is made under the same name would take the place of the log. `refuse_unknown_logs` says what the
   directory is, and what to do.
3. A broker of a cluster in ZooKeeper must not go on there with a directory that was taken over to the metadata log.
4. What kept metadata before Kafka's metadata log did is nobody's any more: OldStore says how its topics come over.
5. Logs on their way out (`-delete`) and those that are set aside already (`-stray`) are nobody's topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ottla.errors import KafkaStorageError, OttlaError
from ottla.storage.directory.checkpoints import META_PROPERTIES_BEFORE, MetaProperties, read_meta_properties
from ottla.storage.directory.directories import DELETE, METADATA_TOPIC, STRAY, parse_log_name
from ottla.storage.files import Files

QUORUM_LOG: Final = f"{METADATA_TOPIC}-0"
SNAPSHOT_SUFFIX: Final = ".checkpoint"
OLD_STORE: Final = "__cluster_metadata-1"
"""What the builds before the metadata log kept their metadata in."""
FIRST_VOTERS: Final = f"{0:020}-{0:010}{SNAPSHOT_SUFFIX}"
NAMES_SHOWN: Final = 5


class UnknownLogs(OttlaError):
    """The data directory has logs, but not the metadata of this broker that says which topics they are, so the broker
    does not start and nothing in the directory is changed."""


def refuse_unknown_logs(files: Files, directories: Sequence[Path]) -> None:
    """UnknownLogs when there are logs. Called where the first directory has no metadata log."""
    elsewhere = next((directory for directory in directories if has_quorum_log(files, directory)), None)
    topics = sorted({topic for directory in directories for topic in topics_of(files, directory)})
    if elsewhere is not None or topics:
        raise UnknownLogs(_of_nobody(files, directories, topics, elsewhere))


class ClusterHasMoved(OttlaError):
    """The cluster of this directory was taken over from ZooKeeper to the metadata log, so no broker starts with it on
    ZooKeeper, which does not know what was decided since: followers would cut off what they do not share with it."""


def refuse_moved(files: Files, directories: Sequence[Path]) -> None:
    """ClusterHasMoved when a directory is not one of ZooKeeper's cluster any more."""
    moved = next((path for path in directories if files.exists(path / META_PROPERTIES_BEFORE)), None)
    if moved is not None:
        raise ClusterHasMoved(
            f"{moved} has {META_PROPERTIES_BEFORE}: it was taken over to the metadata log. Start this node with its "
            "settings for that (process.roles); as long as no node has started, ottla storage migrate --back undoes it"
        )


class OldStore(OttlaError):
    """The data was made by a build of Ottla from before Kafka's metadata log, and is not changed."""


def refuse_old_store(files: Files, directories: Sequence[Path]) -> None:
    """OldStore when one of these directories has the metadata of such a build."""
    old = next((directory for directory in directories if files.exists(directory / OLD_STORE)), None)
    if old is not None:
        raise OldStore(
            f"{old / OLD_STORE} has the metadata of a build of Ottla from before the metadata log. Bring its topics "
            "over: start that build on the data as it is, start this one on other directories beside it, and copy "
            "topic by topic with a client (ottla consume, ottla produce, or MirrorMaker)"
        )


def topics_of(files: Files, directory: Path) -> Iterator[str]:
    """The topics whose logs are in a directory; none when it cannot be read, which its opening will say."""
    try:
        names = files.list_directory(directory)
        for name in names:
            parsed = parse_log_name(name)
            if parsed is None or parsed.role in (DELETE, STRAY) or parsed.topic_partition.topic == METADATA_TOPIC:
                continue
            if files.is_directory(directory / name):
                yield parsed.topic_partition.topic
    except (KafkaStorageError, OSError):
        return


def has_quorum_log(files: Files, directory: Path) -> bool:
    """Whether a quorum has ever run there; the first voters alone are told by formatting the directory."""
    try:
        path = directory / QUORUM_LOG
        return files.is_directory(path) and any(name != FIRST_VOTERS for name in files.list_directory(path))
    except (KafkaStorageError, OSError):
        return False


# --- sentences --------------------------------------------------------------------------------------------------------


def _of_nobody(files: Files, directories: Sequence[Path], topics: Sequence[str], elsewhere: Path | None) -> str:
    first = directories[0]
    if elsewhere is not None:
        return (
            f"{', '.join(map(str, directories))} have logs of {_named(topics)}, and the metadata is in {elsewhere}. "
            "Name that directory first in log.dirs"
        )
    meta = _meta(files, first)
    if meta is not None and meta.version == 0:
        return (
            f"{first} is the directory of {_node(files, first)} of a cluster that keeps its metadata in ZooKeeper, "
            f"with logs of {_named(topics)}. Start the broker with zookeeper.connect, take the cluster over to the "
            "metadata log (ottla storage migrate), or give this broker another directory (--data, log.dirs)"
        )
    return (
        f"{', '.join(map(str, directories))}: logs of {_named(topics)} which this broker's metadata does not know; "
        f"{first / QUORUM_LOG} is missing. If it was lost, restore that folder from a copy; else give this broker "
        "another directory (--data, log.dirs). What is in the logs is shown by: ottla log list"
    )


def _node(files: Files, directory: Path) -> str:
    meta = _meta(files, directory)
    if meta is None or meta.node_id is None:
        return "a node"
    return f"node {meta.node_id}" + (f" (cluster.id {meta.cluster_id})" if meta.cluster_id else "")


def _meta(files: Files, directory: Path) -> MetaProperties | None:
    try:
        return read_meta_properties(files, directory)
    except (KafkaStorageError, OSError):
        return None


def _named(topics: Sequence[str]) -> str:
    if not topics:
        return "no topics"
    count = "1 topic" if len(topics) == 1 else f"{len(topics)} topics"
    more = ", …" if len(topics) > NAMES_SHOWN else ""
    return f"{count} ({', '.join(topics[:NAMES_SHOWN])}{more})"
