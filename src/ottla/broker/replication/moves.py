"""What new roles brought to this broker's partitions."""

from __future__ import annotations

from ottla.broker.replication.partition import Partition
from ottla.errors import BrokerError, StorageExhausted
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition


class Moves(NamedTuple):
    new_leaders: list[Partition]  # led from here in a new epoch
    removed: list[TopicPartition]
    followers: list[Partition]  # that have another leader, or the same in a new epoch
    stopped: list[TopicPartition]  # here, but follow nobody any more
    refused: dict[TopicPartition, BrokerError]  # these are what they were before

    @property
    def unmade(self) -> dict[str, StorageExhausted]:
        """Topics of which logs could not be made yet, because the disk lacks something: what to come back for."""
        return {name.topic: error for name, error in self.refused.items() if isinstance(error, StorageExhausted)}
