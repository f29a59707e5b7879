"""ControllerRegistration: a controller says where it is (cluster/quorum_controller/registrations.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.errors import NONE
from ottla.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(ControllerRegistrationRequest, needs=(CLUSTER_ACTION,))


async def handle(
    broker: Broker, request: ControllerRegistrationRequest, context: RequestContext
) -> ControllerRegistrationResponse:
    CLUSTER_ACTION.check(broker, context)
    await controller_link(broker).controller.register_controller(request)
    return ControllerRegistrationResponse(error_code=NONE, error_message=None)
