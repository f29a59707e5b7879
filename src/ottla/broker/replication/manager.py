"""The partitions this broker has: made, changed and removed by the roles that it gets (roles.py).

What changed is returned as values, so that whoever knows them can load and unload coordinators, and follow leaders.

1. What goes is first, so that there is room, then leaders, then followers: the sooner there is a leader, the sooner
   somebody is served.
2. Roles of an image are the truth. An order may be late, or meant for another topic: it is obeyed when its leader epoch
   is greater than ours, and is for what we have. So a late one does not bring back what was stopped.
3. What is refused, is refused for that partition only, and nothing of it happens.
4. A replica that is stopped stays, unless it is to be deleted: its broker is going down, and comes back.
5. Only a log of a topic that this cluster deleted is removed. One that belongs to a topic which the cluster does not
   know, or to another topic of that name, is set aside (`-stray`) with a warning and kept: nobody here can tell whose
   records it has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, cast

from ottla.broker.replication.partition import NO_EPOCH, Partition
from ottla.broker.replication.roles import Moves, NoRole, Role
from ottla.broker.requests.pacing import Pace
from ottla.cluster.image import ClusterImage
from ottla.cluster.partition_room import PartitionRoom
from ottla.errors import (
    BrokerError,
    FencedLeaderEpoch,
    InconsistentTopicId,
    KafkaStorageError,
    StaleControllerEpoch,
    UnknownTopicOrPartition,
)
from ottla.storage.directory.directories import CheckpointJob, LogDirectory
from ottla.storage.directory.open_files import OpenFiles
from ottla.storage.files import Files
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.truncate import Removed
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
    def directories(self) -> Sequence[LogDirectory]: ...
    @property
    def cordoned(self) -> Collection[Path]: ...
    @property
    def open_files(self) -> OpenFiles: ...
    def log(self, name: TopicPartition) -> PartitionLog | None: ...
    def create(
        self, name: TopicPartition, topic_id: bytes, settings: TopicSettings, now_ms: int, *, is_new: bool = False
    ) -> PartitionLog: ...
    def logs(self) -> list[PartitionLog]: ...
    def directory_of(self, name: TopicPartition) -> LogDirectory | None: ...
    def delete(self, name: TopicPartition, now_ms: int) -> None: ...
    def make_stray(self, name: TopicPartition) -> Path: ...
    def make_future_stray(self, name: TopicPartition) -> Path: ...
    def truncate_to(self, name: TopicPartition, offset: int, now_ms: int) -> None: ...
    def truncate_fully(self, name: TopicPartition, offset: int, now_ms: int) -> None: ...
    def checkpoint_jobs(self, tables: Collection[str]) -> list[CheckpointJob]: ...
    def futures(self) -> list[TopicPartition]: ...
    def future_log(self, name: TopicPartition) -> PartitionLog | None: ...
    def prefer(self, name: TopicPartition, directory: LogDirectory) -> None: ...
    def begin_future(self, name: TopicPartition, directory: LogDirectory, now_ms: int) -> PartitionLog: ...
    def cancel_future(self, name: TopicPartition, now_ms: int) -> None: ...
    def restart_future(self, name: TopicPartition, offset: int, now_ms: int) -> None: ...
    def promote_future(self, name: TopicPartition, now_ms: int) -> PartitionLog: ...
    def cleaner_offset(self, name: TopicPartition) -> int | None: ...
    def remove_later(self, log: PartitionLog, removed: Removed, now_ms: int) -> None: ...


class ReplicaManager:
    def __init__(
        self,
        broker_id: int,
        logs: Logs,
        *,
        settings_of: Callable[[ClusterImage, str], TopicSettings],
        broker_epoch: Callable[[], int] = lambda: NO_EPOCH,
        monotonic_ms: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`broker_epoch` is that of our registration; by `monotonic_ms` followers are late."""
        self._broker_id = broker_id
        self.logs = logs
        self._settings_of = settings_of
        self._partitions: dict[TopicPartition, Partition] = {}
        self._names: dict[bytes, dict[TopicPartition, None]] = {}  # by topic id
        self.broker_epoch = broker_epoch
        self._monotonic_ms = monotonic_ms
        # Whether this cluster deleted a topic not long ago; a controller that gives orders says what to delete.
        self.was_deleted: Callable[[bytes], bool] = lambda topic_id: False
        # On the path of every record, where a plain pair is made in less time than a TopicPartition and equals it.
        self.get = cast(Callable[[tuple[str, int]], Partition | None], self._partitions.get)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic that this broker has partitions of."""
        names = self._names.get(topic_id)
        return next(iter(names)).topic if names else None

    @property
    def directories(self) -> Sequence[LogDirectory]:
        """All log directories, the failed ones too."""
        return self.logs.directories

    def futures(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        """The copies that are to take the place of logs in other directories."""
        for name in self.logs.futures():
            found = self.logs.future_log(name)
            if found is not None:
                yield name, found

    def directory_of(self, name: TopicPartition) -> LogDirectory | None:
        """Where the log of a partition is."""
        return self.logs.directory_of(name)

    def prefer(self, name: TopicPartition, directory: LogDirectory) -> None:
        """Where the log of a partition is to be made when it comes to this broker."""
        self.logs.prefer(name, directory)

    @property
    def cordoned(self) -> Collection[Path]:
        """The directories that get no new logs."""
        return self.logs.cordoned

    def partition_room(self, image: ClusterImage) -> PartitionRoom | None:
        """How many partitions more this broker can have open; None when there is no limit."""
        files = self.logs.open_files
        if files.partition_limit is None:
            return None
        reason = (
            f"the process may have {files.process_limit} files open, of which {files.limit} are for logs. Raise that "
            "limit (ulimit -n, LimitNOFILE) and start the broker again, or spread the partitions over more brokers"
        )
        return PartitionRoom(self._broker_id, image, files.partition_limit, reason)

    # -- roles -------------------------------------------------------------------------------------------------------

    async def apply_roles(
        self, roles: Iterable[Role | NoRole], image: ClusterImage, now_ms: int, pace: Pace, *, are_orders: bool
    ) -> Moves:
        """Be what the roles say, with the settings that topics have in the image."""
        moves = Moves([], [], [], [], [], {})
        waiting: list[Role | NoRole] = []
        for role in roles:  # they may be read off a large image
            waiting.append(role)
            await pace.step()
        waiting.sort(key=self._turn_of)
        settings: dict[str, TopicSettings] = {}
        for role in waiting:
            try:
                if are_orders:
                    self._check_order(role)
                if isinstance(role, NoRole):
                    self._give_up(role, now_ms, moves)
                else:
                    self._take(role, image, settings, now_ms, moves)
            except BrokerError as error:
                moves.refused[role.name] = error
            await pace.step()
        return moves

    def _turn_of(self, role: Role | NoRole) -> int:
        if isinstance(role, NoRole):
            return 0
        return 1 if role.state.leader == self._broker_id else 2

    def _check_order(self, role: Role | NoRole) -> None:
        """Raise unless it is newer than what we know, and about what we have."""
        name, partition = role.name, self._partitions.get(role.name)
        if partition is not None and partition.offline is not None:
            raise partition.offline
        if isinstance(role, NoRole):
            if partition is not None and not role.is_for(partition.leader_epoch):
                raise FencedLeaderEpoch(f"{name} is in epoch {partition.leader_epoch}, not {role.leader_epoch}")
            return
        if not self._is_of_topic(role, partition):
            raise InconsistentTopicId(f"the log of {name} belongs to another topic of that name")
        epoch = partition.leader_epoch if partition is not None else NO_EPOCH
        if role.state.leader_epoch <= epoch:
            raise StaleControllerEpoch(f"{name} is in leader epoch {epoch}, the order is of {role.state.leader_epoch}")
        if self._broker_id not in role.state.replicas:
            raise UnknownTopicOrPartition(f"this broker is not among the replicas of {name}")

    def _is_of_topic(self, role: Role, partition: Partition | None) -> bool:
        if role.topic_id is None:
            return True
        if partition is not None:
            return partition.topic_id == role.topic_id
        found = self.logs.log(role.name)
        return found is None or found.may_be_of(role.topic_id)

    def _take(
        self, role: Role, image: ClusterImage, settings: dict[str, TopicSettings], now_ms: int, moves: Moves
    ) -> None:
        topic = role.name.topic
        if topic not in settings:
            settings[topic] = self._settings_of(image, topic)
        partition = self._partitions.get(role.name)
        before = None if partition is None else (partition.is_leader, partition.leader_epoch)
        committed_before = None if partition is None else partition.high_watermark
        if partition is None:
            partition = self._made(role, settings[topic], now_ms)
        else:
            partition.log.settings = settings[topic]
        partition.update_state(role.state, now_ms=self._monotonic_ms())
        if before != (partition.is_leader, partition.leader_epoch):
            (moves.new_leaders if partition.is_leader else moves.followers).append(partition)
        elif partition.is_leader and partition.high_watermark != committed_before:
            moves.committed.append(partition)

    def _made(self, role: Role, settings: TopicSettings, now_ms: int) -> Partition:
        log_of = self.logs.log(role.name)
        topic_id = role.topic_id or (log_of.topic_id if log_of is not None else None)
        if topic_id is None:
            raise InconsistentTopicId(f"the controller gave no id for the topic of {role.name}, and the log has none")
        wanted = next((each for each in self.directories if each.directory_id == role.directory_id), None)
        if log_of is None and role.directory_id is not None and wanted is not None and wanted.is_online:
            self.logs.prefer(role.name, wanted)
            return self._open(role.name, topic_id, settings, now_ms, is_new=True)  # no other directory may have it
        return self._open(role.name, topic_id, settings, now_ms, is_new=role.is_new)

    def _give_up(self, role: NoRole, now_ms: int, moves: Moves) -> None:
        if not role.deletes:
            moves.stopped.append(role.name)
        elif role.name in self._partitions:
            self._remove(role.name, now_ms, moves)
        elif (found := self.logs.log(role.name)) is not None:
            self._delete_left_over(found, role, now_ms)

    def _delete_left_over(self, found: PartitionLog, role: NoRole, now_ms: int) -> None:
        """It was to go while we were away; unless it is of another topic of that name, which nobody spoke of."""
        if role.topic_id is not None and not found.may_be_of(role.topic_id):
            _warn_of_stray(role.name, self.logs.make_stray(role.name))
        else:
            self.logs.delete(role.name, now_ms)

    # -- logs that are nobody's --------------------------------------------------------------------------------------

    async def set_unknown_aside(self, image: ClusterImage, now_ms: int, pace: Pace) -> None:
        """What is on the disk and belongs to no partition of the image: deleted topics of ours go, the rest is kept."""
        for found in self.logs.logs():
            if found.topic_partition not in self._partitions and not _belongs(image, found):
                try:
                    self._dispose(found.topic_partition, found.topic_id, now_ms)
                except KafkaStorageError as error:
                    log.error("%s is no partition's and could not be set aside: %s", found.topic_partition, error)
            await pace.step()
        for name, copy in list(self.futures()):
            if name not in self._partitions and not _belongs(image, copy):
                try:
                    self._dispose_copy(name, copy.topic_id, now_ms)
                except KafkaStorageError as error:
                    log.error("the copy of %s is no partition's and could not be set aside: %s", name, error)
            await pace.step()

    # -- cutting -----------------------------------------------------------------------------------------------------

    def truncate_to(self, partition: Partition, offset: int, now_ms: int) -> None:
        """Let a follower's log end at `offset`, or before the batch that holds it; it is on the disk then."""
        self.logs.truncate_to(partition.name, offset, now_ms)

    def truncate_fully(self, partition: Partition, offset: int, now_ms: int) -> None:
        """Let a follower's log start and end at `offset`."""
        self.logs.truncate_fully(partition.name, offset, now_ms)

    # -- making and removing -----------------------------------------------------------------------------------------

    def _open(
        self, name: TopicPartition, topic_id: bytes, settings: TopicSettings, now_ms: int, *, is_new: bool = False
    ) -> Partition:
        found = self.logs.log(name)
        if found is not None and not found.may_be_of(topic_id):
            self._dispose(name, found.topic_id, now_ms)
            found = None
        if found is None:
            found = self.logs.create(name, topic_id, settings, now_ms, is_new=is_new)
        else:
            found.assign_topic_id(topic_id)
        found.settings = settings
        partition = self._partitions[name] = Partition(name, topic_id, found, broker_id=self._broker_id)
        self._names.setdefault(topic_id, {})[name] = None
        return partition

    def _dispose(self, name: TopicPartition, topic_id: bytes | None, now_ms: int) -> None:
        """Take a log that is no partition's out of the way: removed if we deleted its topic, else kept as a stray."""
        if self._is_deleted(topic_id):
            log.info("%s on disk belongs to a topic that was deleted; it is removed", name)
            self.logs.delete(name, now_ms)
        else:
            _warn_of_stray(name, self.logs.make_stray(name))

    def _dispose_copy(self, name: TopicPartition, topic_id: bytes | None, now_ms: int) -> None:
        if self._is_deleted(topic_id):
            self.logs.cancel_future(name, now_ms)
        else:
            _warn_of_stray(name, self.logs.make_future_stray(name))

    def _is_deleted(self, topic_id: bytes | None) -> bool:
        return topic_id is not None and self.was_deleted(topic_id)

    def _remove(self, name: TopicPartition, now_ms: int, moves: Moves) -> None:
        partition = self._partitions.pop(name)
        partition.retire()
        names = self._names.get(partition.topic_id, {})
        names.pop(name, None)
        if not names:
            self._names.pop(partition.topic_id, None)
        moves.removed.append(name)
        try:
            self.logs.delete(name, now_ms)
        except KafkaStorageError as error:
            log.error("%s could not be deleted; its directory is left behind: %s", name, error)


def _belongs(image: ClusterImage, found: PartitionLog) -> bool:
    name = found.topic_partition
    topic = image.topic(name.topic)
    return topic is not None and name.partition < len(topic.partitions) and found.may_be_of(topic.id)


def _warn_of_stray(name: TopicPartition, path: Path) -> None:
    log.warning(
        "the log of %s belongs to no topic that this cluster knows or has deleted; it is kept as %s and not served. "
        "Look into it with: ottla log list",
        name,
        path,
    )
