"""The partitions this broker has: made, changed and removed as the cluster's image says.

The image is the truth; this file makes the disk follow it. What changed is told as values, so that coordinators can be
loaded and unloaded by whoever knows them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from ottla.broker.long_work import Steps
from ottla.broker.replication.partition import Partition
from ottla.cluster.image import ClusterImage
from ottla.errors import KafkaStorageError
from ottla.storage.files import Files
from ottla.storage.log import PartitionLog
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

log = logging.getLogger(__name__)


class Directory(Protocol):
    """One of log.dirs, storage.directories.LogDirectory."""

    @property
    def path(self) -> Path: ...
    @property
    def files(self) -> Files: ...
    @property
    def failure(self) -> KafkaStorageError | None: ...


class Logs(Protocol):
    """The logs of this broker, storage.manager.LogManager."""

    @property
    def directories(self) -> Sequence[Directory]: ...
    @property
    def cordoned(self) -> Collection[Path]: ...
    def log(self, name: TopicPartition) -> PartitionLog | None: ...
    def create(self, name: TopicPartition, topic_id: bytes, settings: TopicSettings, now_ms: int) -> PartitionLog: ...
    def delete(self, name: TopicPartition, now_ms: int) -> None: ...


class Moves(NamedTuple):
    """What an image brought."""

    new_leaders: list[Partition]
    removed: list[TopicPartition]


class ReplicaManager:
    def __init__(
        self, broker_id: int, logs: Logs, *, settings_of: Callable[[ClusterImage, str], TopicSettings]
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._settings_of = settings_of
        self._partitions: dict[TopicPartition, Partition] = {}
        # On the path of every record, where a plain pair is made in less time than a TopicPartition and equals it.
        self.get: Callable[[tuple[str, int]], Partition | None] = cast(Any, self._partitions.get)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def directories(self) -> Sequence[Directory]:
        """All log directories, the failed ones too."""
        return self._logs.directories

    @property
    def cordoned(self) -> Collection[Path]:
        """The directories that get no new logs."""
        return self._logs.cordoned

    def follow(self, image: ClusterImage, topics: set[str] | None, now_ms: int) -> Steps[Moves]:
        """Make what we have match the image; `topics` limits the look to those that changed, None is all."""
        moves = Moves([], [])
        names = set(image.topics()) if topics is None else topics
        for topic in sorted(names):
            yield from self._follow_topic(image, topic, now_ms, moves)
        gone = [each for each in self._partitions if image.topic(each.topic) is None and self._concerns(each, topics)]
        for name in gone:
            self._remove(name, now_ms, moves)
            yield
        return moves

    @staticmethod
    def _concerns(name: TopicPartition, topics: set[str] | None) -> bool:
        return topics is None or name.topic in topics

    def _follow_topic(self, image: ClusterImage, topic_name: str, now_ms: int, moves: Moves) -> Steps[None]:
        topic = image.topic(topic_name)
        if topic is None:
            return
        settings: TopicSettings | None = None
        for index, state in enumerate(topic.partitions):
            yield
            name = TopicPartition(topic_name, index)
            partition = self._partitions.get(name)
            if partition is not None and partition.topic_id != topic.id:
                self._remove(name, now_ms, moves)  # deleted and made again under the same name
                partition = None
            if self._broker_id not in state.replicas:
                if partition is not None:
                    self._remove(name, now_ms, moves)
                continue
            settings = settings or self._settings_of(image, topic_name)
            if partition is None:
                partition = self._open(name, topic.id, settings, now_ms)
            else:
                partition.log.settings = settings
            if partition.take_state(state):
                moves.new_leaders.append(partition)

    def _open(self, name: TopicPartition, topic_id: bytes, settings: TopicSettings, now_ms: int) -> Partition:
        found = self._logs.log(name)
        if found is not None and found.topic_id not in (None, topic_id):
            log.warning("%s on disk belongs to a topic that was deleted; it is removed", name)
            self._logs.delete(name, now_ms)
            found = None
        if found is None:
            found = self._logs.create(name, topic_id, settings, now_ms)
        found.settings = settings
        partition = self._partitions[name] = Partition(name, topic_id, found, broker_id=self._broker_id)
        return partition

    def _remove(self, name: TopicPartition, now_ms: int, moves: Moves) -> None:
        self._partitions.pop(name).retire()
        moves.removed.append(name)
        try:
            self._logs.delete(name, now_ms)
        except KafkaStorageError:
            log.exception("%s could not be deleted; its directory is left behind", name)
