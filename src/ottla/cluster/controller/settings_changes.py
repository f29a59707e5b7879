"""Settings that say who may lead, and what changes with them.

unclean.leader.election.enable   partitions without a leader may have one now
min.insync.replicas              nobody is eligible outside the in-sync set any more (KIP-966): who left a set that was
                                 too small to acknowledge anything may have missed what is acknowledged from now on
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ottla.cluster.changes import AlterConfig, Change, ChangePartition, apply_all
from ottla.cluster.controller import leaders
from ottla.cluster.controller.broker_changes import elect_all
from ottla.cluster.controller.events import SettingsChanged
from ottla.cluster.controller.state import ControllerState, Decided
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ConfigResource, ResourceType

UNCLEAN: Final = "unclean.leader.election.enable"
MIN_INSYNC: Final = "min.insync.replicas"


def affect_elections(changes: Iterable[Change]) -> bool:
    """Whether elections depend on these changes, so that the controller must decide again."""
    return any(_resources(changes, UNCLEAN)) or any(_resources(changes, MIN_INSYNC))


def settings_changed(state: ControllerState, event: SettingsChanged) -> Decided:
    """What follows from settings that hold already."""
    trusted = without_eligible(state.image, event.changes)
    if not any(_resources(event.changes, UNCLEAN)):
        return Decided(state, trusted)
    # Both may touch a partition, and one write is one epoch: elections follow with the next event.
    after = state.with_image(apply_all(state.image, trusted))
    return Decided(state, trusted, then=(event,)) if trusted else Decided(state, tuple(elect_all(after)))


def without_eligible(image: ClusterImage, changes: Sequence[Change]) -> tuple[Change, ...]:
    """The partitions whose eligible replicas are not to be trusted when min.insync.replicas is another."""
    topics = set(_topics(image, _resources(changes, MIN_INSYNC)))
    return tuple(_forgetting(image, topics)) if topics else ()


def _resources(changes: Iterable[Change], setting: str) -> Iterator[ConfigResource]:
    for change in changes:
        if isinstance(change, AlterConfig) and any(name == setting for name, _ in change.values):
            yield change.resource


def _topics(image: ClusterImage, resources: Iterable[ConfigResource]) -> Iterator[str]:
    for resource in resources:
        if resource.type is ResourceType.TOPIC:
            yield resource.name
        elif resource.type is ResourceType.BROKER:
            yield from image.topics()


def _forgetting(image: ClusterImage, topics: Iterable[str]) -> Iterator[Change]:
    for name in sorted(topics):
        topic = image.topic(name)
        for index, partition in enumerate(topic.partitions if topic is not None else ()):
            if topic is not None and partition.elr:
                yield ChangePartition(topic.id, index, leaders.without_eligible(partition))
