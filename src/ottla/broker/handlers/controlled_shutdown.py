"""ControlledShutdown, on the controller: a broker wants to stop (cluster/controller/controlled_shutdown.py)."""

from __future__ import annotations

from typing import Any

from ottla.broker.cluster.ask_controller import asked
from ottla.broker.cluster.controller_role import HasControllerRole
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.cluster.controller.events import ShutdownAsked
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse


def handle(broker: HasControllerRole, request: ControlledShutdownRequest, context: RequestContext) -> Later[Any]:
    return asked(
        broker,
        ShutdownAsked(request),
        lambda error: ControlledShutdownResponse(error_code=error.code, remaining_partitions=[]),
    )
