"""What a new image, or an order of the controller, means for the parts of a broker.

apply_image     settings, coordinators and topics follow what the image says
apply_moves     partitions came, went, or have another leader: replication, waiters and coordinators follow
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.broker.replication.roles import Moves
from ottla.broker.requests.pacing import Pace
from ottla.cluster.changes import AddPartitions, AlterConfig, Change, ChangePartition, CreateTopic, RemoveTopic
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ResourceType
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)


def apply_image(broker: Broker, image: ClusterImage, changes: Sequence[Change]) -> set[str] | None:
    """Make an image the broker's; returns the topics that changed, None for all."""
    before = broker.image
    broker.take_image(image)
    _forget_counters(broker, {name for name, _ in _removed_topics(before, changes)})
    if any(isinstance(each, AlterConfig) and each.resource.type is ResourceType.BROKER for each in changes):
        broker.load_dynamic_settings()
    for coordinator in broker.coordinators.made:
        coordinator.image_changed(image)
    return topics_of(before, image, changes)


def notify_groups(broker: Broker, before: ClusterImage, changes: Sequence[Change], changed: set[str] | None) -> None:
    """Groups forget the offsets of topics that are gone, and share out partitions that are new."""
    deleted = _removed_topics(before, changes)
    for coordinator in broker.coordinators.made:
        coordinator.topics_changed(deleted, changed)


def _removed_topics(before: ClusterImage, changes: Sequence[Change]) -> list[tuple[str, bytes]]:
    """Names and ids; the name is only in the image before."""
    removed = [each.topic_id for each in changes if isinstance(each, RemoveTopic)]
    return [(before.topic_name(topic_id) or "", topic_id) for topic_id in removed]


def _forget_counters(broker: Broker, topics: set[str]) -> None:
    """A topic that is gone has no metrics any more; one that was made again under its name goes on with them."""
    for topic in topics:
        if broker.image.topic(topic) is None:
            broker.topic_metrics.forget(topic)


def apply_topic_settings(broker: Broker, topics: set[str] | None) -> None:
    """Partitions get the settings that their topic has now; None is all topics."""
    known: dict[str, TopicSettings] = {}
    for partition in broker.replicas:
        topic = partition.name.topic
        if topics is None or topic in topics:
            if topic not in known:
                known[topic] = broker.topics_in_effect.of(broker.image, topic)
            if partition.update_settings(known[topic]):
                broker.progress.committed(partition)


async def apply_moves(broker: Broker, moves: Moves, pace: Pace) -> None:
    """Partition by partition, so that a failure stays with its own. Coordinators are only begun to be loaded here."""
    broker.link.replication.apply(moves)
    # Also of topics that left the image before: they were counted as long as their partitions were here.
    _forget_counters(broker, {name.topic for name in moves.removed})
    for name in [*moves.removed, *(each.name for each in moves.followers)]:
        with _alone(name):
            _leave(broker, name)
        await pace.step()
    for name in moves.removed:
        broker.corruption.forget(name)
    for partition in moves.new_leaders:
        with _alone(partition.name):
            broker.forget_shared(partition.name)
            coordinator = broker.coordinators.of_topic(partition.name.topic)
            if coordinator is not None:
                coordinator.load(partition)
        await pace.step()
    for partition in moves.new_leaders:
        with _alone(partition.name):
            broker.progress.appended(partition)
        await pace.step()
    for partition in moves.committed:
        with _alone(partition.name):
            broker.progress.committed(partition)
        await pace.step()
    broker.deadlines.arm()


def _leave(broker: Broker, name: TopicPartition) -> None:
    """The partition is gone from here, or led by another broker."""
    broker.forget_shared(name)
    broker.progress.forget(name)
    coordinator = broker.coordinators.of_topic(name.topic)
    if coordinator is not None:
        coordinator.runtime.unload(name.partition)


@contextmanager
def _alone(name: TopicPartition) -> Iterator[None]:
    """What fails here is about this partition, and no reason to leave others undone."""
    try:
        yield
    except Exception:
        log.exception("%s is not what it was to be: this partition alone is not served rightly", name)


def topics_of(before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> set[str] | None:
    """The topics that changes are about; None when it may be any of them."""
    found: set[str] = set()
    for change in changes:
        if isinstance(change, CreateTopic):
            found.add(change.topic.name)
        elif isinstance(change, RemoveTopic | AddPartitions | ChangePartition):
            # A removed topic has its name only in the image before, a new one only in the image after.
            found.add(before.topic_name(change.topic_id) or after.topic_name(change.topic_id) or "")
        elif isinstance(change, AlterConfig):
            if change.resource.type is ResourceType.BROKER:
                return None  # defaults of every topic
            if change.resource.type is ResourceType.TOPIC:
                found.add(change.resource.name)
    return found
