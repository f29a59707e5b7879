"""What a formatted log directory has before anybody starts on it, as `kafka-storage format` leaves it.

    every directory       meta.properties, bootstrap.checkpoint
    the metadata's one    __cluster_metadata-0/00000000000000000000-0000000000.checkpoint, where the first voters are
    told

1. bootstrap.checkpoint has the records that the first active controller of a new cluster writes into the empty log: the
   levels of the features, and users whose passwords must be there before anybody can log in. It is written once.
2. The snapshot of nothing has the level of kraft.version and the voters; a node that joins later gets them by the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from ottla.cluster.changes import Change
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.reading import Replay
from ottla.cluster.metadata_log.writing import VersionedRecord
from ottla.cluster.raft.log import METADATA_PARTITION
from ottla.cluster.raft.snapshots import BOOTSTRAP, SnapshotId, Voters, read_snapshot, write_snapshot
from ottla.protocol.metadata_log import MetadataRecord
from ottla.storage.files import Files

NOTHING_YET: Final = SnapshotId(0, 0)


def write_bootstrap(
    files: Files, log_directory: Path, records: Iterable[VersionedRecord], now_ms: Callable[[], int]
) -> None:
    """Say what a new cluster begins with."""
    _write_whole(files, log_directory / BOOTSTRAP, records, 0, now_ms, Voters())


def read_bootstrap(files: Files, log_directory: Path) -> list[MetadataRecord] | None:
    """What a new cluster begins with; None when nobody has said."""
    path = log_directory / BOOTSTRAP
    if not files.exists(path):
        return None
    return [record for batch in read_snapshot(files, path) for record in batch.records]


def first_changes(files: Files, log_directory: Path) -> list[Change] | None:
    """The same as changes of an empty image; None when nobody has said."""
    records = read_bootstrap(files, log_directory)
    if records is None:
        return None
    replay = Replay(ClusterImage(""))
    for record in records:
        replay.add(record)
    return list(replay.changes())


def write_first_voters(files: Files, log_directory: Path, voters: Voters, now_ms: Callable[[], int]) -> None:
    """Say who votes first."""
    directory = log_directory / str(METADATA_PARTITION)
    files.make_directory(directory)
    files.sync_directory(log_directory)
    _write_whole(files, directory / NOTHING_YET.file_name, (), now_ms(), now_ms, voters)


def _write_whole(
    files: Files,
    path: Path,
    records: Iterable[VersionedRecord],
    last_timestamp_ms: int,
    now_ms: Callable[[], int],
    voters: Voters,
) -> None:
    values: Sequence[bytes] = [record.encode() for record in records]
    for _ in write_snapshot(
        files, path, values, epoch=0, last_timestamp_ms=last_timestamp_ms, now_ms=now_ms, voters=voters
    ):
        pass
