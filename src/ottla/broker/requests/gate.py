"""What only brokers send each other: the hook that every request passes on its way to its handler.

    Gate.check_of(api)     a function of (request, context) that raises when the request may not be handled, or None

1. A lane (dispatch.py) asks once, when the first request of its kind comes; so what is not checked costs nothing.
2. Kept for brokers (security/peers.py) are the orders of the controller and what brokers ask it, fetches of followers,
   which move the high watermark, and markers and partitions of transactions that coordinators ask for.
3. With an authorizer the last two, and fetches of whom it does not allow to follow, are left to their handlers, which
   answer as Kafka does: an administrator may end a hanging transaction, and who poses as a follower may not read.
4. A broker that is alone serves none of the first, and is asked for the rest by clients only; its handlers see to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.fetch.frames import SimpleAsked
from ottla.broker.fetch.reader import replica_of
from ottla.broker.network.processor import CloseConnection
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work
from ottla.broker.requests.served import BROKER_APIS
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.api import Api
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Check: TypeAlias = Callable[[Message | None, RequestContext], Work[None] | None]
"""May be a coroutine where something has to be asked first. For what only brokers send it is called before the request
is read, without it."""

FETCH: Final = "Fetch"
WRITE_TXN_MARKERS: Final = "WriteTxnMarkers"
ADD_PARTITIONS_TO_TXN: Final = "AddPartitionsToTxn"
ADDED_BY_BROKERS_SINCE: Final = 4


class Gate:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def check_of(self, api: Api) -> Check | None:
        if self._broker.link.is_alone:
            return None
        if api.key in BROKER_APIS:
            return self._check_broker
        if api.name == FETCH:
            return self._check_follower
        if self._broker.access.is_on:
            return None
        if api.name == WRITE_TXN_MARKERS:
            return self._check_broker
        return self._check_coordinator if api.name == ADD_PARTITIONS_TO_TXN else None

    def _check_broker(self, request: Message | None, context: RequestContext) -> Work[None] | None:
        refusal = self._broker.peers.refusal(context)
        if refusal is None:
            return None
        if isinstance(refusal, CloseConnection):
            return self._broker.peers.admit(context)  # after a fresh look
        raise refusal

    def _check_follower(self, request: Message | None, context: RequestContext) -> Work[None] | None:
        assert isinstance(request, FetchRequest | SimpleAsked)
        if replica_of(request, context.api_version)[0] < 0:
            return None
        if self._broker.access.is_on and not CLUSTER_ACTION.is_met(self._broker, context):
            return None
        return self._check_broker(request, context)

    def _check_coordinator(self, request: Message | None, context: RequestContext) -> Work[None] | None:
        """Clients ask for one transaction in older versions."""
        if context.api_version < ADDED_BY_BROKERS_SINCE:
            return None
        return self._check_broker(request, context)
