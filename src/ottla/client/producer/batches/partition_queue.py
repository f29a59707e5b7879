"""The batches of one partition that wait, and what the sender must know of the partition. The readable twin.

The accumulator's lock covers the queue itself; everything else belongs to the sender.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.producer.batches.producer_batch import ProducerBatch
    from ottla.client.producer.batches.stamps import PartitionSequences
    from ottla.client.producer.batches.topic_state import TopicState
    from ottla.client.producer.transactions.states import ProducerIdentity
    from ottla.errors import OttlaError
    from ottla.values import Node, TopicPartition


class PartitionQueue:
    """The batches of one partition that are not on their way."""

    __slots__ = (
        "batches",
        "in_flight_count",
        "is_muted",
        "last_bytes",
        "last_error",
        "leader",
        "leader_epoch",
        "leader_version",
        "name",
        "numbers",
        "proven",
        "state",
    )

    def __init__(self, name: TopicPartition, state: TopicState) -> None:
        self.name = name
        self.state = state
        self.batches: deque[ProducerBatch] = deque()
        self.is_muted = False
        self.in_flight_count = 0
        self.last_bytes = 0  # how large the newest batch was that takes no more records
        self.last_error: OttlaError | None = None  # why its batches are tried again, until one is delivered
        self.proven: ProducerIdentity | None = None  # under which identity the broker has taken something here
        self.numbers: PartitionSequences | None = None  # kept here so that nobody has to search for it by name
        self.leader: Node | None = None
        self.leader_epoch = -1
        self.leader_version = -1

    def __repr__(self) -> str:
        return f"<PartitionQueue {self.name} {len(self.batches)} batches>"
