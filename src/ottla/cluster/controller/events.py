"""What a controller decides about, besides the events of the store (cluster/store/events.py).

1. An event is a value. It carries what was asked or found, and no callback for an answer: replies are part of the
   decision.
2. Those whose names end in Asked have exactly one reply. The others have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ottla.cluster.changes import Change
from ottla.cluster.image import ClusterImage
from ottla.cluster.store.events import (
    BrokersChanged,
    DeletionsAsked,
    ElectionAsked,
    LogDirFailed,
    PartitionStatesChanged,
    ReassignmentAsked,
    TopicsChanged,
)
from ottla.light_dataclasses import dataclass
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import AlterPartitionRequest
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.values import TopicPartition


@dataclass(frozen=True, slots=True)
class TookOver:
    """This broker was elected, and the image is all that was read."""


@dataclass(frozen=True, slots=True)
class AlterPartitionAsked:
    """A leader proposes in-sync sets."""

    request: AlterPartitionRequest


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """A broker wants to stop, and to lead nothing then."""

    request: ControlledShutdownRequest


@dataclass(frozen=True, slots=True)
class ProducerIdsAsked:
    """A broker needs a block of producer ids."""

    request: AllocateProducerIdsRequest


@dataclass(frozen=True)
class ChangeAsked:
    """An administrator's request: the plan is made from the newest image. Its reply is the plan."""

    make_plan: Callable[[ClusterImage], Any]


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered:
    """A broker reports which of its assigned partitions it cannot open."""

    broker_id: int
    broker_epoch: int
    request: LeaderAndIsrRequest
    response: LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class ReplicasStopped:
    """A broker says which replicas it stopped, and perhaps deleted."""

    broker_id: int
    broker_epoch: int
    request: StopReplicaRequest
    response: StopReplicaResponse


@dataclass(frozen=True, slots=True)
class BrokerFellBehind:
    """Too many orders waited for a broker and were dropped: it must get everything again."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ReassignmentsDue:
    """These partitions may be where they should be: end the moves that are done."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """Another broker changed settings that say who may lead; they are in the image already."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class RebalanceDue:
    """It is time to look whether leaders are where they are preferred (leader.imbalance.check.interval.seconds)."""


Asked: TypeAlias = AlterPartitionAsked | ShutdownAsked | ProducerIdsAsked | ChangeAsked

ControllerEvent: TypeAlias = (
    Asked
    | TookOver
    | LeaderAndIsrAnswered
    | ReplicasStopped
    | BrokerFellBehind
    | ReassignmentsDue
    | SettingsChanged
    | RebalanceDue
    | BrokersChanged
    | TopicsChanged
    | DeletionsAsked
    | PartitionStatesChanged
    | ReassignmentAsked
    | ElectionAsked
    | LogDirFailed
)
