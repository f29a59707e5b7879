"""A request about several share partitions: each is asked at its own shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.broker.coordinators.coordinator import Method
from ottla.broker.coordinators.share_state.shard import ShareStateShard
from ottla.broker.coordinators.share_state.state import ShareKey
from ottla.broker.requests.context import RequestContext
from ottla.broker.security.needs import Need, Refused
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

R = TypeVar("R", bound=Message)
A = TypeVar("A", bound=Message)


BETWEEN_BROKERS: Final = Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER, Refused.ENTRY)


async def ask_each(
    broker: Broker,
    method: Method[ShareStateShard, R],
    requests: Iterable[tuple[ShareKey, R]],
    context: RequestContext,
    refused: Callable[[ShareKey, BrokerError], A],
) -> list[A]:
    """The answers, in the order of the requests; all are asked before the first is awaited. Who may not is told so of
    every partition: these answers have no error of their own."""
    if not BETWEEN_BROKERS.is_met(broker, context):
        refusal = BETWEEN_BROKERS.refusal(context)
        return [refused(key, refusal) for key, _ in requests]
    coordinator = broker.coordinators.share_state
    asked = [coordinator.ask_or(key.name, method, request, context, partial(refused, key)) for key, request in requests]
    return [await each for each in asked]
