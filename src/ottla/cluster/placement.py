"""Which brokers get which replicas: Kafka's striped placement.

1. A partition's replicas are on different brokers; the first one, which will lead, is on a broker that is not fenced.
2. Racks come first: replicas go around the racks, then around the brokers of a rack, and fenced brokers are used only
   where a rack has no others left. Every partition begins one rack and one broker further, so that leaders spread.
3. Where to begin is drawn once per call. When as many partitions are placed as there are usable brokers, the order is
   shuffled, so that the same brokers do not always follow each other and share the load of a lost one evenly.
4. All of it is decided by the image and the random source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from ottla.cluster.changes import ChangePartition
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, Broker, Partition
from ottla.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from ottla.light_dataclasses import replace
from ottla.values import TopicPartition


def place(image: ClusterImage, partitions: int, replication_factor: int, random: Random) -> list[tuple[int, ...]]:
    """The replicas of each new partition; InvalidReplicationFactor when there are not enough brokers."""
    brokers = list(image.brokers.values())
    alive = sum(not broker.fenced for broker in brokers)
    if replication_factor <= 0:
        raise InvalidReplicationFactor(f"{replication_factor} replicas are not possible, at least 1 is needed")
    if not alive:
        raise InvalidReplicationFactor("all brokers are currently fenced, none is alive to lead a partition")
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"{replication_factor} replicas need {replication_factor} brokers, but only {len(brokers)} "
            f"{'is' if len(brokers) == 1 else 'are'} registered "
            f"and {alive} of them alive"
        )
    racks = _Racks(brokers, random)
    return [racks.place(replication_factor) for _ in range(partitions)]


def check_assignment(image: ClusterImage, replicas: Sequence[int], replication_factor: int | None = None) -> None:
    """InvalidReplicaAssignment when somebody chose brokers that cannot be meant."""
    if not replicas:
        raise InvalidReplicaAssignment("the assignment includes an empty replica list")
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise InvalidReplicaAssignment(
                f"the assignment includes broker {broker_id}, but no such broker is registered"
            )
    if len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignment(f"the assignment {list(replicas)} includes a broker more than once")
    if replication_factor is not None and len(replicas) != replication_factor:
        raise InvalidReplicaAssignment(
            f"the assignment includes a partition with {len(replicas)} replica(s), "
            f"but the partitions before it have {replication_factor}"
        )


def new_partition(image: ClusterImage, replicas: Sequence[int]) -> Partition | None:
    """A partition on these brokers, led by the first one that can; None when none of them can."""
    in_sync = tuple(broker_id for broker_id in replicas if image.is_active(broker_id))
    if not in_sync:
        return None
    directories = tuple(default_directory(image, broker_id) for broker_id in replicas)
    return Partition(tuple(replicas), in_sync, in_sync[0], directories=directories)


def default_directory(image: ClusterImage, broker_id: int) -> bytes:
    """Where a broker puts a new replica, as far as one can know: it has only one place, or it will say so later."""
    directories = image.brokers[broker_id].directories
    if not directories:
        return MIGRATING_DIRECTORY
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY


def moved_replicas(
    image: ClusterImage, broker_id: int, directory_of: Callable[[TopicPartition], bytes | None]
) -> Iterator[ChangePartition]:
    """Replicas of a broker that are in another directory than the image says; None is nowhere, or nobody knows."""
    for topic in image.topics_by_name.values():
        for index, partition in enumerate(topic.partitions):
            if broker_id not in partition.replicas:
                continue
            found = directory_of(TopicPartition(topic.name, index))
            directories = partition.directories or (MIGRATING_DIRECTORY,) * len(partition.replicas)
            place = partition.replicas.index(broker_id)
            if found is None or directories[place] == found:
                continue
            after = replace(
                partition,
                directories=(*directories[:place], found, *directories[place + 1 :]),
                partition_epoch=partition.partition_epoch + 1,
            )
            yield ChangePartition(topic.id, index, after)


class _Ring:
    """Brokers in a circle; every round begins one further than the one before, and gives each broker once."""

    def __init__(self, brokers: list[int], random: Random) -> None:
        self._brokers = sorted(brokers)
        self._start = random.randrange(len(brokers)) if brokers else 0
        self._round = 0
        self._handed_out = 0

    def next(self, round_number: int) -> int | None:
        if round_number != self._round and self._brokers:
            self._round, self._handed_out = round_number, 0
            self._start = (self._start + 1) % len(self._brokers)
        if self._handed_out == len(self._brokers):
            return None
        self._handed_out += 1
        return self._brokers[(self._start + self._handed_out - 1) % len(self._brokers)]

    def shuffle(self, random: Random) -> None:
        random.shuffle(self._brokers)


class _Racks:
    """All brokers by rack; brokers without one share a rack of their own."""

    def __init__(self, brokers: list[Broker], random: Random) -> None:
        self._random = random
        self._names = sorted({broker.rack for broker in brokers}, key=lambda rack: (rack is not None, rack or ""))
        self._usable = {name: _Ring(_ids(brokers, name, fenced=False), random) for name in self._names}
        self._fenced = {name: _Ring(_ids(brokers, name, fenced=True), random) for name in self._names}
        self._usable_count = sum(not broker.fenced for broker in brokers)
        self._start = random.randrange(len(self._names))
        self._round = 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        if self._round == self._usable_count > 1:
            self._shuffle()
        order = [*self._names[self._start :], *self._names[: self._start]]
        leader_rack, leader = self._leader(order)
        replicas = [leader, *self._followers(order, leader_rack, replication_factor - 1)]
        self._start = (self._start + 1) % len(self._names)
        self._round += 1
        return tuple(replicas)

    def _leader(self, order: list[str | None]) -> tuple[str | None, int]:
        for name in order:
            if (found := self._usable[name].next(self._round)) is not None:
                return name, found
        raise AssertionError("place() has checked that a broker is usable")

    def _followers(self, order: list[str | None], leader_rack: str | None, wanted: int) -> list[int]:
        found: list[int] = []
        skip_leader_rack = True  # its turn on the first way around is over: the leader was it
        while len(found) < wanted:
            for name in order:
                if skip_leader_rack and name == leader_rack:
                    skip_leader_rack = False
                elif len(found) < wanted and (broker := self._next(name)) is not None:
                    found.append(broker)
        return found

    def _next(self, rack: str | None) -> int | None:
        usable = self._usable[rack].next(self._round)
        return self._fenced[rack].next(self._round) if usable is None else usable

    def _shuffle(self) -> None:
        self._random.shuffle(self._names)
        for ring in (*self._usable.values(), *self._fenced.values()):
            ring.shuffle(self._random)
        self._round = 0


def _ids(brokers: list[Broker], rack: str | None, *, fenced: bool) -> list[int]:
    return [broker.id for broker in brokers if broker.rack == rack and broker.fenced is fenced]
