"""Preferred leaders: give leaderships back to those who come first in the list of replicas.

1. By itself (auto.leader.rebalance.enable): a broker that leads too few of the partitions that prefer it gets them
   back, when more than leader.imbalance.per.broker.percentage of them are led by others. Small differences stay,
   because every new leader costs its clients a look-up.
2. Only where the preferred one is there and in sync, the partition does not move, and the topic does not go.
3. On request (a node that old tools write; ElectLeaders has its own plan): the same, for the partitions named.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cluster.changes import Change, ChangePartition, SetStoredValue
from ottla.cluster.controller import leaders
from ottla.cluster.controller.events import RebalanceDue
from ottla.cluster.controller.state import ControllerState, Decided, is_deletion_asked
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Partition
from ottla.cluster.store.events import ELECTION_ASKED, ElectionAsked
from ottla.values import TopicPartition


def imbalance(image: ClusterImage) -> dict[int, tuple[int, list[TopicPartition]]]:
    """For every broker that is there: how many partitions prefer it, and which of them are led by another."""
    found: dict[int, tuple[int, list[TopicPartition]]] = {each.id: (0, []) for each in image.active_brokers()}
    for name, partition in image.partitions():
        first = partition.replicas[0]
        if first in found and not is_deletion_asked(image, name.topic):
            count, elsewhere = found[first]
            found[first] = (count + 1, elsewhere if partition.leader == first else [*elsewhere, name])
    return found


def rebalance_due(state: ControllerState, event: RebalanceDue) -> Decided:
    """Elect the preferred leaders of brokers that lead too little."""
    wanted: list[TopicPartition] = []
    for count, elsewhere in imbalance(state.image).values():
        if count and len(elsewhere) * 100 > count * state.rules.imbalance_percentage:
            wanted += [name for name in elsewhere if not _partition(state, name).is_reassigning]
    return Decided(state, tuple(_elected(state, wanted)))


def _partition(state: ControllerState, name: TopicPartition) -> Partition:
    found = state.image.partition(*name)
    assert found is not None  # the name came from this image
    return found


def _elected(state: ControllerState, names: Iterable[TopicPartition]) -> Iterable[Change]:
    for name in sorted(set(names)):
        topic, partition = state.image.topic(name.topic), state.image.partition(*name)
        if topic is None or partition is None or is_deletion_asked(state.image, name.topic):
            continue
        after = leaders.preferred(partition, lambda each, name=name: state.may_lead(name, each))  # type: ignore[misc]
        if after is not None:
            yield ChangePartition(topic.id, name.partition, after)


def election_asked(state: ControllerState, event: ElectionAsked) -> Decided:
    """Preferred leaders where they are asked for; the request is done then, whatever became of it."""
    return Decided(state, (*_elected(state, event.partitions), SetStoredValue(ELECTION_ASKED, None)))
