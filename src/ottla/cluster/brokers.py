"""Plans about brokers: who is fenced, and blocks of producer ids."""

from __future__ import annotations

from typing import Final

from ottla.cluster.changes import AllocateProducerIds, RegisterBroker
from ottla.cluster.image import ClusterImage
from ottla.errors import BrokerIdNotRegistered, StaleBrokerEpoch, UnknownServerError
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple

PRODUCER_ID_BLOCK: Final = 1000
_LAST_PRODUCER_ID: Final = 2**63 - 1


class ProducerIds(NamedTuple):
    """A block of producer ids: they belong to one broker for ever, also those it never uses."""

    first: int
    size: int


def allocate_producer_ids(
    image: ClusterImage, broker_id: int, broker_epoch: int
) -> tuple[AllocateProducerIds, ProducerIds]:
    """The next block for a broker; it may be used when the change is durable."""
    check_broker_epoch(image, broker_id, broker_epoch)
    first = image.next_producer_id
    if first > _LAST_PRODUCER_ID - PRODUCER_ID_BLOCK:
        raise UnknownServerError("all producer ids are given away")
    return AllocateProducerIds(broker_id, broker_epoch, first + PRODUCER_ID_BLOCK), ProducerIds(
        first, PRODUCER_ID_BLOCK
    )


def fence(image: ClusterImage, broker_id: int, *, fenced: bool) -> RegisterBroker:
    """The change that makes a registered broker unusable, or usable again."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegistered(f"broker {broker_id} is not registered")
    return RegisterBroker(replace(broker, fenced=fenced))


def check_broker_epoch(image: ClusterImage, broker_id: int, broker_epoch: int) -> None:
    """A broker that was replaced by a newer registration of its id may not speak for it any more."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegistered(f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise StaleBrokerEpoch(f"expected broker epoch {broker.epoch}, but found broker epoch {broker_epoch}")
