"""What a leader knows of those who copy from it; replication.py has the real one, this file the one without any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ottla.broker.replication.partition import Partition
from ottla.broker.replication.roles import Moves
from ottla.errors import NotLeaderOrFollower
from ottla.values import TopicPartition


class Followers(Protocol):
    """Replication, as the rest of the broker uses it."""

    def apply(self, moves: Moves) -> None:
        """Partitions came, went, or have another leader."""

    def lags(self) -> Iterable[tuple[int, TopicPartition, int | None]]:
        """Every partition that this broker follows: its leader, its name, how many records it is behind; -1 when it
        failed, None when nobody knows."""

    def follower_fetched(
        self, partition: Partition, replica_id: int, offset: int, *, log_start_offset: int, broker_epoch: int
    ) -> None:
        """A follower has everything before `offset`."""

    def check_follower(self, partition: Partition, replica_id: int, *, knows_epoch: bool) -> None:
        """Raise unless this broker is one of the partition's replicas."""

    def preferred_replica(self, partition: Partition, rack: str, offset: int) -> int | None:
        """Where a consumer should read instead of here; None for here."""

    def is_leader_throttled(self, partition: Partition, replica_id: int) -> bool:
        """Whether this follower gets nothing of this partition now."""

    def count_sent(self, partition: Partition, replica_id: int, size_bytes: int) -> None:
        """So much goes to a follower; it counts when the follower is throttled."""


class NoFollowers:
    """Followers of a broker that is alone."""

    def apply(self, moves: Moves) -> None:
        """Nobody has to be followed."""

    def lags(self) -> Iterable[tuple[int, TopicPartition, int | None]]:
        return ()

    def follower_fetched(
        self, partition: Partition, replica_id: int, offset: int, *, log_start_offset: int, broker_epoch: int
    ) -> None:
        """Nobody follows."""

    def check_follower(self, partition: Partition, replica_id: int, *, knows_epoch: bool) -> None:
        raise NotLeaderOrFollower(f"{partition.name} has no replica on broker {replica_id}")

    def preferred_replica(self, partition: Partition, rack: str, offset: int) -> int | None:
        return None

    def is_leader_throttled(self, partition: Partition, replica_id: int) -> bool:
        return False

    def count_sent(self, partition: Partition, replica_id: int, size_bytes: int) -> None:
        """Nobody is throttled."""
