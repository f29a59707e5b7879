"""The image to the snapshot that a metadata log begins with, as if everything before it had been in the log.

    __cluster_metadata-0/00000000000000000042-0000000007.checkpoint

1. It ends behind as many offsets as it has records, in the last epoch of the controller in ZooKeeper: the log begins
   there, empty, and the first leader's epoch is the next one. A log that ends before its newest snapshot begins anew at
   that, ours and Apache Kafka's (a node that fetched a snapshot and stopped looks the same).
2. The bytes are the same on every machine, so that several first voters can each be given it: times are those of
   ZooKeeper, ids are made of names. `fingerprint` is told to compare them.
3. It is no snapshot of nothing (0-0): what is in that besides voters is read by nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.cluster.from_zookeeper.content import Content
from ottla.cluster.metadata_log.writing import snapshot_records
from ottla.cluster.raft.log import METADATA_PARTITION
from ottla.cluster.raft.snapshots import SnapshotId, Voters, parse_name, write_snapshot
from ottla.light_dataclasses import dataclass
from ottla.storage.files import Files

FINGERPRINT_LETTERS: Final = 16


@dataclass(frozen=True, slots=True)
class Beginning:
    """What the log of a first voter begins with."""

    content: Content
    id: SnapshotId
    fingerprint: str
    voters: Voters

    def write(self, files: Files, log_directory: Path) -> Path:
        """Put it there, in the place of one that nobody has started on."""
        directory = log_directory / str(METADATA_PARTITION)
        if files.exists(directory):
            for name in files.list_directory(directory):
                if parse_name(name) is not None:
                    files.remove(directory / name)
        else:
            files.make_directory(directory)
            files.sync_directory(log_directory)
        path = directory / self.id.file_name
        for _ in write_snapshot(
            files,
            path,
            _values(self.content),
            epoch=self.id.epoch,
            last_timestamp_ms=self.content.newest_ms,
            now_ms=lambda: self.content.newest_ms,
            voters=self.voters,
        ):
            pass
        return path


def beginning_of(content: Content, voters: Voters) -> Beginning:
    """Counts and sums up what would be written."""
    digest, count = hashlib.sha256(content.image.cluster_id.encode()), 0
    for value in _values(content):
        digest.update(len(value).to_bytes(4, "big") + value)
        count += 1
    digest.update(repr((content.epoch, content.newest_ms, voters)).encode())
    return Beginning(content, SnapshotId(count, content.epoch), digest.hexdigest()[:FINGERPRINT_LETTERS], voters)


def _values(content: Content) -> Iterator[bytes]:
    return (record.encode() for record in snapshot_records(content.image))
