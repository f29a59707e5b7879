"""What the partitions do when a broker comes, goes, stops, lost its memory, or loses a directory.

Each is one decision on the image before it, with the registration changed in the same batch: nobody sees one without
the other.
"""

from __future__ import annotations

from collections.abc import Collection

from ottla.cluster.changes import Change, ChangePartition, RegisterBroker, UnregisterBroker
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import NO_LEADER, Broker, Partition
from ottla.cluster.quorum_controller.partition_changes import Wanted
from ottla.cluster.quorum_controller.rules import ControllerRules, Decider
from ottla.light_dataclasses import replace


def without_broker(image: ClusterImage, broker_id: int, rules: ControllerRules) -> list[ChangePartition]:
    """The broker leads nothing any more and is in sync nowhere."""
    decider = Decider(image, rules, without={broker_id})
    return list(decider.changes(lambda each: broker_id in each.isr, lambda each: Wanted(isr=_others(each, broker_id))))


def _others(partition: Partition, broker_id: int) -> tuple[int, ...]:
    return tuple(each for each in partition.isr if each != broker_id)


def fenced(image: ClusterImage, broker: Broker, rules: ControllerRules) -> list[Change]:
    """Nobody counts on the broker any more."""
    return [*without_broker(image, broker.id, rules), RegisterBroker(replace(broker, fenced=True))]


def unfenced(image: ClusterImage, broker: Broker, rules: ControllerRules) -> list[Change]:
    """The broker may lead: partitions without a leader may have one now."""
    decider = Decider(image, rules, coming={broker.id})
    elected = decider.changes(lambda each: each.leader == NO_LEADER and broker.id in each.replicas, lambda _: Wanted())
    return [RegisterBroker(replace(broker, fenced=False)), *elected]


def stopping(image: ClusterImage, broker: Broker, rules: ControllerRules) -> list[Change]:
    """The broker hands over what it leads, and goes then."""
    moved = without_broker(image, broker.id, rules)
    if broker.in_controlled_shutdown:
        return list(moved)
    return [RegisterBroker(replace(broker, in_controlled_shutdown=True)), *moved]


def distrusted(image: ClusterImage, broker_id: int, rules: ControllerRules) -> list[ChangePartition]:
    """The broker may have less than what it acknowledged: it is neither in sync nor eligible anywhere."""
    decider = Decider(image, rules, without={broker_id})
    return list(
        decider.changes(
            lambda each: broker_id in each.isr or broker_id in each.elr,
            lambda each: Wanted(isr=_others(each, broker_id), lost=(broker_id,)),
        )
    )


def unregistered(image: ClusterImage, broker_id: int, rules: ControllerRules) -> list[Change]:
    """The broker is forgotten. Who was eligible stays so: what it acknowledged it may still have when it comes back."""
    return [*without_broker(image, broker_id, rules), UnregisterBroker(broker_id)]


def directories_lost(
    image: ClusterImage, broker: Broker, lost: Collection[bytes], rules: ControllerRules
) -> tuple[list[ChangePartition], Broker]:
    """What lies in directories that failed is in sync no more; the broker has the others."""
    gone = {each for each in broker.directories if each in lost}
    if not gone:
        return [], broker

    def concerns(partition: Partition) -> bool:
        if broker.id not in partition.isr or broker.id not in partition.replicas or not partition.directories:
            return False
        return partition.directories[partition.replicas.index(broker.id)] in gone

    decider = Decider(image, rules, without={broker.id})
    moved = list(decider.changes(concerns, lambda each: Wanted(isr=_others(each, broker.id))))
    return moved, replace(broker, directories=tuple(each for each in broker.directories if each not in gone))


def has_leaderships(image: ClusterImage, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id for topic in image.topics_by_name.values() for partition in topic.partitions
    )
