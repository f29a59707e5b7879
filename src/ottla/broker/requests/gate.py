"""Who may ask for what: the hook that every request passes on its way to its handler.

    Gate.check_of(api)     a function of (request, context) that raises when the request may not be handled, or None

A lane (dispatch.py) asks once, when the first request of its kind comes; so what is not checked costs nothing. Today
the gate keeps for brokers what only brokers send each other (orders of the controller, markers, fetches of followers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from ottla.broker.fetch.reader import replica_of
from ottla.broker.network.processor import CloseConnection
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work
from ottla.broker.requests.served import BROKER_APIS
from ottla.protocol.api import Api
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.schema import Message

Check: TypeAlias = Callable[[Message, RequestContext], Work[None] | None]
"""May be a coroutine where something has to be asked first."""

FETCH: Final = "Fetch"
WRITE_TXN_MARKERS: Final = "WriteTxnMarkers"


class Brokers(Protocol):
    """The part of a ClusterLink that is needed here."""

    is_alone: bool

    async def admits_broker(self, address: str) -> bool: ...


class Gate:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def check_of(self, api: Api) -> Check | None:
        if self._brokers.is_alone:
            return None
        if api.key in BROKER_APIS or api.name == WRITE_TXN_MARKERS:
            return self._check_broker
        return self._check_follower if api.name == FETCH else None

    async def _check_broker(self, request: Message, context: RequestContext) -> None:
        if not await self._brokers.admits_broker(context.client_host):
            # No answer instead of an error: a controller repeats an order only when it got none.
            raise CloseConnection(f"{context.client_host} is no address of a broker of this cluster")

    def _check_follower(self, request: Message, context: RequestContext) -> Work[None] | None:
        """A fetch that names a replica says how far that replica is, and moves the high watermark."""
        assert isinstance(request, FetchRequest)
        is_follower = replica_of(request, context.api_version)[0] >= 0
        return self._check_broker(request, context) if is_follower else None
