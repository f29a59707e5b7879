"""The roles of a broker, read off an image: what it has is compared with what the image says that it should have.

The image is the truth, so the difference is all there is to do: replicas that belong to nobody any more go, those that
are ours are made, lead or follow. Others may lead what we follow. It is found anew each time, so what could not be done
(a full disk) is among the roles again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from ottla.broker.replication.roles import NoRole, Role
from ottla.cluster.image import ClusterImage
from ottla.values import TopicPartition


class Held(Protocol):
    """A partition that this broker has, partition.Partition."""

    @property
    def name(self) -> TopicPartition: ...
    @property
    def topic_id(self) -> bytes: ...


def image_roles(
    image: ClusterImage, topics: set[str] | None, held: Iterable[Held], broker_id: int
) -> Iterator[Role | NoRole]:
    """Of the `topics` that changed; None is all."""
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
                yield Role(TopicPartition(topic_name, index), topic.id, state)


def _is_ours(image: ClusterImage, partition: Held, broker_id: int) -> bool:
    """A topic that was deleted and made again under the same name is another one."""
    topic, index = image.topic(partition.name.topic), partition.name.partition
    if topic is None or topic.id != partition.topic_id or index >= len(topic.partitions):
        return False
    return broker_id in topic.partitions[index].replicas
