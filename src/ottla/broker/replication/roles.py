"""What this broker is for a partition, as values: its leader or a follower of it (Role), or nothing (NoRole).

image_roles.py  reads them off an image of the cluster: a broker that is alone, or whose truth is a metadata log
orders.py       reads them off what a controller orders while the cluster is kept in ZooKeeper
manager.py      makes them so, by the same rules wherever they come from
"""

from __future__ import annotations

from typing import Final

from ottla.cluster import model
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

NO_EPOCH: Final = -1
EPOCH_DURING_DELETE: Final = -2


class Role(NamedTuple):
    """Leader where `state` names this broker, else follower. `topic_id` is None for whoever does not know it."""

    name: TopicPartition
    topic_id: bytes | None
    state: model.Partition
    is_new: bool = False  # nobody has anything of the partition yet


class NoRole(NamedTuple):
    """A replica that is to stop here, for now or for good. `topic_id` is that of the topic which has the name now, as
    far as is known. The epoch may be NO_EPOCH (not told) or EPOCH_DURING_DELETE (whatever ours is)."""

    name: TopicPartition
    topic_id: bytes | None
    leader_epoch: int = NO_EPOCH
    deletes: bool = True

    def is_for(self, leader_epoch: int) -> bool:
        """Whether it is not older than what we know."""
        return self.leader_epoch in (NO_EPOCH, EPOCH_DURING_DELETE) or self.leader_epoch >= leader_epoch
