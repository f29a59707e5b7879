"""What brokers must be told: the difference of two images, as LeaderAndIsr, UpdateMetadata and StopReplica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.cluster.changes import Change
from ottla.cluster.controller.state import ControllerState, Replica
from ottla.cluster.image import ClusterImage
from ottla.cluster.store.events import Controller
from ottla.protocol.schema import Message


class Order(NamedTuple):
    """A request for the broker with this id and epoch."""

    broker_id: int
    broker_epoch: int
    request: Message


def orders(
    before: ClusterImage,
    after: ClusterImage,
    changes: Sequence[Change] | None,
    *,
    controller: Controller,
    listener: str = "PLAINTEXT",
    offline_before: frozenset[Replica] = frozenset(),
    offline_after: frozenset[Replica] = frozenset(),
    retell: frozenset[int] = frozenset(),
) -> list[Order]:
    """The orders that make brokers that know `before` know `after`, in the order in which each must get them."""
    raise NotImplementedError


def announcement(state: ControllerState) -> list[Order]:
    """What a controller that takes over says first: UpdateMetadata with everything, to every broker that is there."""
    raise NotImplementedError
