"""What a controller knows while it is one, and what it decides.

1. The image is the truth: brokers as this controller knows them (`in_controlled_shutdown` for those that
   asked to stop), topics, notes of deletion. It moves only by what the controller commits or observes.
2. The rest is what brokers reported and nobody wrote down: replicas on failed directories, and how far the deletion of
   each replica has come. A controller that takes over begins without it and asks again.
3. A state never changes; a decision has the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.cluster.changes import Change
from ottla.cluster.controller.events import ControllerEvent
from ottla.cluster.controller.replica_states import ReplicaState
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker
from ottla.cluster.store.events import Controller, deletion_asked
from ottla.light_dataclasses import dataclass, field, replace
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition


class Replica(NamedTuple):
    """One broker's copy of a partition."""

    topic: str
    partition: int
    broker_id: int


@dataclass(frozen=True)
class ControllerRules:
    """What a controller must know of its settings. The functions get the image because settings change while running.

    `started_uncleanly` says of a broker that registered whether it lost its memory: then what it has may be less than
    what it acknowledged.
    """

    inter_broker_listener: str = "PLAINTEXT"
    deletion_enabled: bool = True
    imbalance_percentage: int = 10
    unclean_allowed: Callable[[ClusterImage, str], bool] = lambda image, topic: False
    min_insync_replicas: Callable[[ClusterImage, str], int] = lambda image, topic: 1
    started_uncleanly: Callable[[Broker], bool] = lambda broker: False


@dataclass(frozen=True)
class ControllerState:
    """See above. `deletions` has the replicas of topics that are being deleted, by how far they are."""

    controller: Controller
    image: ClusterImage
    rules: ControllerRules = field(default_factory=ControllerRules)
    offline_replicas: frozenset[Replica] = frozenset()
    deletions: Mapping[Replica, ReplicaState] = field(default_factory=dict)

    def is_alive(self, name: TopicPartition, broker_id: int) -> bool:
        """Whether the broker is there (it may be shutting down) and the replica's log directory works."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced and Replica(*name, broker_id) not in self.offline_replicas

    def may_lead(self, name: TopicPartition, broker_id: int) -> bool:
        """Alive, and staying."""
        return self.is_alive(name, broker_id) and self.image.is_active(broker_id)

    def with_image(self, image: ClusterImage) -> ControllerState:
        return replace(self, image=image)


class Decided(NamedTuple):
    """What follows from an event. First `observed` is applied to the image (it is true already), then `changes` are
    committed; then `replies` may go out, `state` holds with the new image, brokers in `resend_partitions` get all their
    partitions again (those in `resend_everything` the metadata too), and the events of `then` come next, before any
    other."""

    state: ControllerState
    changes: tuple[Change, ...] = ()
    replies: tuple[Any, ...] = ()
    observed: tuple[Change, ...] = ()
    resend_partitions: frozenset[int] = frozenset()
    resend_everything: frozenset[int] = frozenset()
    then: tuple[ControllerEvent, ...] = ()


def is_deletion_asked(image: ClusterImage, topic: str) -> bool:
    """Whether there is a note that the topic is to go."""
    return bool(image.stored_values) and deletion_asked(topic) in image.stored_values


def is_being_deleted(image: ClusterImage, topic: str) -> bool:
    """Whether the topic goes now: a topic whose partitions move has to arrive first."""
    if not is_deletion_asked(image, topic):
        return False
    found = image.topic(topic)
    return found is not None and not any(each.is_reassigning for each in found.partitions)
