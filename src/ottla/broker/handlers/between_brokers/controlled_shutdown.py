"""ControlledShutdown, on the controller: a broker wants to stop (cluster/controller/controlled_shutdown.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.link import member_of
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.cluster.controller.events import ShutdownAsked
from ottla.errors import BrokerError
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(ControlledShutdownRequest, needs=(CLUSTER_ACTION,))


async def handle(
    broker: Broker, request: ControlledShutdownRequest, context: RequestContext
) -> ControlledShutdownResponse:
    try:
        answer = await member_of(broker).role.ask(ShutdownAsked(request))
        assert isinstance(answer, ControlledShutdownResponse)
    except BrokerError as error:
        return ControlledShutdownResponse(error_code=error.code, remaining_partitions=[])
    return answer
