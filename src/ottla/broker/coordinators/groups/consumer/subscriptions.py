"""Which topics a group reads, and whether they are still what they were when it was last assigned.

Kafka 4.1 and later keep one number with the group: a hash over the subscribed topics that exist, each of them a hash of
its id, name, partitions and the racks these lie on. When it differs from the cluster's metadata, the group epoch is
bumped. The layout that is hashed (little-endian, text as UTF-16 and then its length):

    topic   byte 0, id high, id low: int64; name; partition count: int32; per partition its number: int32,
            and per rack, sorted: length: int32, name
    group   the topic hashes as int64, in the order of the names; 0 when there is none
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from ottla.broker.coordinators.effects import ClusterView
from ottla.broker.coordinators.groups.consumer.xxh3 import hash64


@runtime_checkable
class RackView(Protocol):
    """A ClusterView may also know on which racks the replicas of a partition lie."""

    def partition_racks(self, name: str, partition: int) -> Sequence[str]: ...


def topic_ids(cluster: ClusterView, names: Iterable[str]) -> frozenset[bytes]:
    """The ids of those that exist."""
    return frozenset(topic_id for name in names if (topic_id := cluster.topic_id(name)) is not None)


def metadata_hash(cluster: ClusterView, names: Iterable[str]) -> int:
    """The hash of a group that reads these topics."""
    hashes = [topic_hash(cluster, name) for name in sorted(names) if cluster.topic_id(name) is not None]
    return hash64(struct.pack(f"<{len(hashes)}q", *hashes)) if hashes else 0


def topic_hash(cluster: ClusterView, name: str) -> int:
    topic_id, count = cluster.topic_id(name), cluster.partition_count(name)
    if topic_id is None or count is None:
        return 0
    high, low = struct.unpack(">qq", topic_id)
    parts = [struct.pack("<bqq", 0, high, low), _text(name), struct.pack("<i", count)]
    racks = cluster if isinstance(cluster, RackView) else None  # asked once: it is slow, and partitions are many
    for partition in range(count):
        parts.append(struct.pack("<i", partition))
        if racks is not None:
            parts += [_rack(each) for each in sorted(racks.partition_racks(name, partition))]
    return hash64(b"".join(parts))


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le")
    return units + struct.pack("<i", len(units) // 2)


def _rack(name: str) -> bytes:
    return struct.pack("<i", len(name.encode("utf-16-le")) // 2) + _text(name)
