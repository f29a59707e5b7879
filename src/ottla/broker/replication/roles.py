"""What this broker is for a partition, as values: its leader or a follower of it (Role), or nothing (NoRole).

image_roles()   reads them off an image of the cluster: a broker that is alone, or whose truth is a metadata log
orders.py       reads them off what a controller orders while the cluster is kept in ZooKeeper
manager.py      makes them so, by the same rules wherever they come from, and answers with Moves

The image is the truth, so what the broker has is compared with what the image says that it should have: replicas that
belong to nobody any more go, those that are ours are made, lead or follow. Others may lead what we follow. The
difference is found anew each time, so what could not be done (a full disk) is among the roles again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.cluster import model
from ottla.cluster.image import ClusterImage
from ottla.errors import BrokerError, StorageExhausted
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition

NO_EPOCH: Final = -1
EPOCH_DURING_DELETE: Final = -2


class Role(NamedTuple):
    """Leader where `state` names this broker, else follower. `topic_id` is None for whoever does not know it, and so is
    `directory_id`, where the replica lies, or is to be made."""

    name: TopicPartition
    topic_id: bytes | None
    state: model.Partition
    is_new: bool = False  # nobody has anything of the partition yet
    directory_id: bytes | None = None


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


class Moves(NamedTuple):
    """What new roles brought to this broker's partitions."""

    new_leaders: list[Partition]  # led from here in a new epoch
    committed: list[Partition]  # led from here as before, with fewer in sync: more is committed now
    removed: list[TopicPartition]
    followers: list[Partition]  # that have another leader, or the same in a new epoch
    stopped: list[TopicPartition]  # here, but follow nobody any more
    refused: dict[TopicPartition, BrokerError]  # these are what they were before

    @property
    def unmade(self) -> dict[str, StorageExhausted]:
        """Topics of which logs could not be made yet, because the disk lacks something: what to come back for."""
        return {name.topic: error for name, error in self.refused.items() if isinstance(error, StorageExhausted)}


def image_roles(
    image: ClusterImage, topics: set[str] | None, held: Iterable[Partition], broker_id: int
) -> Iterator[Role | NoRole]:
    """Of the `topics` that changed, and of the partitions `held` here; None is all."""
    for partition in held:
        is_concerned = topics is None or partition.name.topic in topics
        if is_concerned and not _is_ours(image, partition, broker_id):
            yield NoRole(partition.name, partition.topic_id)
    for topic_name in sorted(image.topics() if topics is None else topics):
        topic = image.topic(topic_name)
        if topic is None:
            continue
        for index, state in enumerate(topic.partitions):
            if broker_id in state.replicas:
                yield _role(TopicPartition(topic_name, index), topic.id, state, broker_id)


def _role(name: TopicPartition, topic_id: bytes, state: model.Partition, broker_id: int) -> Role:
    """With what the image knows of the directory: a replica that lies in none yet was never here."""
    if not state.directories:
        return Role(name, topic_id, state)
    directory_id = state.directories[state.replicas.index(broker_id)]
    return Role(name, topic_id, state, directory_id == model.UNASSIGNED_DIRECTORY, directory_id)


def _is_ours(image: ClusterImage, partition: Partition, broker_id: int) -> bool:
    """A topic that was deleted and made again under the same name is another one."""
    topic, index = image.topic(partition.name.topic), partition.name.partition
    if topic is None or topic.id != partition.topic_id or index >= len(topic.partitions):
        return False
    return broker_id in topic.partitions[index].replicas
