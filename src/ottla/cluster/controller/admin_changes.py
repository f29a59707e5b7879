"""What becomes of the changes that an administrator's plan wants, on a cluster of several brokers.

A plan says what shall be true; on one broker that is all. Here two things take time, and two need an epoch:

1. A topic to be removed gets a note, and goes when its replicas are gone (topic_deletion.py).
2. Partitions get other replicas only in a new leader epoch, because brokers listen to no other (reassignment.py).
3. A topic with a note is not changed any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.cluster.changes import AddPartitions, Change, ChangePartition, RemoveTopic, SetStoredValue
from ottla.cluster.controller.state import is_deletion_asked
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Partition
from ottla.cluster.store.events import deletion_asked
from ottla.light_dataclasses import replace


def admitted(image: ClusterImage, changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes to commit for those that a plan wants."""
    return tuple(each for change in changes for each in _admitted(image, change))


def _admitted(image: ClusterImage, change: Change) -> Iterator[Change]:
    if not isinstance(change, RemoveTopic | AddPartitions | ChangePartition):
        yield change
        return
    name = image.topic_name(change.topic_id)
    if name is None or is_deletion_asked(image, name):
        return
    if isinstance(change, RemoveTopic):
        yield SetStoredValue(deletion_asked(name), "")
    elif isinstance(change, ChangePartition):
        before = image.partition(name, change.index)
        yield change if before is None else replace(change, partition=_in_new_epoch(before, change.partition))
    else:
        yield change


def _in_new_epoch(before: Partition, after: Partition) -> Partition:
    if after.leader_epoch > before.leader_epoch:
        return after
    return replace(after, leader_epoch=before.leader_epoch + 1, partition_epoch=before.partition_epoch + 1)
