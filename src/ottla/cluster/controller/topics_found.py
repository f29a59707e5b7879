"""What others wrote past the controller: topics that tools made, in-sync sets that leaders of old changed themselves.

It is true already, so it is observed, not committed. What the controller has to add is a first leader for partitions
that nobody ever led.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cluster.changes import AddPartitions, Change, ChangePartition, CreateTopic, RemoveTopic, apply_all
from ottla.cluster.controller.broker_changes import elect_all
from ottla.cluster.controller.events import ReassignmentsDue
from ottla.cluster.controller.state import ControllerState, Decided
from ottla.cluster.image import ClusterImage
from ottla.cluster.store.events import PartitionStatesChanged, TopicsChanged
from ottla.light_dataclasses import replace


def topics_changed(state: ControllerState, event: TopicsChanged) -> Decided:
    """Topics came or went; new partitions get their first leader."""
    observed = tuple(_observed(state.image, event))
    image = apply_all(state.image, observed)
    gone = {name for name in state.image.topics() if image.topic(name) is None}
    deletions = {each: found for each, found in state.deletions.items() if each.topic not in gone}
    after = replace(state, image=image, deletions=deletions)
    return Decided(after.with_image(state.image), tuple(elect_all(after)), observed=observed)


def _observed(image: ClusterImage, event: TopicsChanged) -> Iterator[Change]:
    for name in event.gone:
        if (topic := image.topic(name)) is not None:
            yield RemoveTopic(topic.id)
    for found in event.found:
        known = image.topic(found.name)
        if known is None or known.id != found.id:
            if known is not None and known.name not in event.gone:
                yield RemoveTopic(known.id)
            yield CreateTopic(found)
        elif len(found.partitions) > len(known.partitions):
            yield AddPartitions(found.id, found.partitions[len(known.partitions) :])


def partition_states_changed(state: ControllerState, event: PartitionStatesChanged) -> Decided:
    """Others wrote the states of partitions: observe them, and elect leaders where they are needed."""
    observed: list[Change] = []
    moving = []
    for name, partition in event.partitions:
        topic, known = state.image.topic(name.topic), state.image.partition(*name)
        # Events may come late: what we wrote since is newer.
        if topic is None or known is None or partition.partition_epoch <= known.partition_epoch:
            continue
        observed.append(ChangePartition(topic.id, name.partition, partition))
        if partition.is_reassigning:
            moving.append(name)
    after = state.with_image(apply_all(state.image, observed))
    then = (ReassignmentsDue(tuple(moving)),) if moving else ()
    return Decided(state, tuple(elect_all(after)) if observed else (), observed=tuple(observed), then=then)
