"""What decisions about partitions ask about the cluster: who may lead there, how many must be in sync, what is
allowed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from ottla.cluster.changes import ChangePartition
from ottla.cluster.features import ELR_VERSION
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import (
    LOST_DIRECTORY,
    METADATA_VERSION,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    Broker,
    Partition,
    Topic,
)
from ottla.cluster.placement import default_directory
from ottla.cluster.quorum_controller.partition_changes import Election, PartitionRules, Wanted, changed
from ottla.light_dataclasses import dataclass, field, replace

_UNKNOWN_DIRECTORIES = frozenset({MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY})


@dataclass(frozen=True)
class ControllerRules:
    """What the controller must know of settings. The functions get the image, because settings are changed in it."""

    unclean_allowed: Callable[[ClusterImage, str], bool] = lambda image, topic: False
    min_insync_replicas: Callable[[ClusterImage, str], int] = lambda image, topic: 1
    imbalance_percentage: int = 10
    session_timeout_ms: float = 9_000
    elections_at_once: int = 1_000


def works(broker: Broker, directory: bytes) -> bool:
    """Whether a replica of the broker in that directory can be read, as far as is known."""
    if directory in _UNKNOWN_DIRECTORIES or not broker.directories:
        return True
    return directory != LOST_DIRECTORY and directory in broker.directories


@dataclass(frozen=True)
class Decider:
    """Changes partitions of an image. `without` are brokers that may not lead from now on, whatever the image says of
    them, `coming` those that may."""

    image: ClusterImage
    rules: ControllerRules
    without: Container[int] = ()
    coming: Container[int] = ()
    has_elr: bool = field(init=False)
    _topics: dict[str, tuple[bool, int]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "has_elr", bool(self.image.feature(ELR_VERSION)))

    def may_lead(self, partition: Partition, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker_id in self.without or not (broker.is_active or broker_id in self.coming):
            return False
        if not partition.directories or broker_id not in partition.replicas:
            return True
        return works(broker, partition.directories[partition.replicas.index(broker_id)])

    def unclean_allowed(self, topic: str) -> bool:
        return self._settings(topic)[0]

    def min_insync(self, topic: Topic) -> int:
        return min(self._settings(topic.name)[1], topic.replication_factor)

    def _settings(self, topic: str) -> tuple[bool, int]:
        found = self._topics.get(topic)
        if found is None:
            rules, image = self.rules, self.image
            found = rules.unclean_allowed(image, topic), rules.min_insync_replicas(image, topic)
            self._topics[topic] = found
        return found

    def rules_of(self, topic: Topic, partition: Partition) -> PartitionRules:
        return PartitionRules(
            may_lead=lambda broker_id: self.may_lead(partition, broker_id),
            min_insync=self.min_insync(topic),
            has_elr=self.has_elr,
            directory_of=lambda broker_id: default_directory(self.image, broker_id),
            metadata_version=self.image.feature(METADATA_VERSION),
        )

    def changed(self, topic: Topic, partition: Partition, wanted: Wanted) -> Partition:
        """As `wanted` says; without a word about the election, what the topic's settings allow."""
        if wanted.election is Election.ONLINE and self.unclean_allowed(topic.name):
            wanted = replace(wanted, election=Election.UNCLEAN)
        return changed(partition, wanted, self.rules_of(topic, partition))

    def changes(
        self, concerns: Callable[[Partition], bool], wanted: Callable[[Partition], Wanted]
    ) -> Iterator[ChangePartition]:
        """Of all partitions that it concerns."""
        for topic in self.image.topics_by_name.values():
            for index, partition in enumerate(topic.partitions):
                if concerns(partition):
                    after = self.changed(topic, partition, wanted(partition))
                    if after is not partition:
                        yield ChangePartition(topic.id, index, after)
