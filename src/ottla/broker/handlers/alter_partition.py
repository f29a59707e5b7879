"""AlterPartition, on the controller: a leader proposes in-sync sets (cluster/controller/isr_changes.py)."""

from __future__ import annotations

from typing import Any

from ottla.broker.cluster.ask_controller import asked
from ottla.broker.cluster.controller_role import HasControllerRole
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.cluster.controller.events import AlterPartitionAsked
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


def handle(broker: HasControllerRole, request: AlterPartitionRequest, context: RequestContext) -> Later[Any]:
    return asked(
        broker, AlterPartitionAsked(request), lambda error: AlterPartitionResponse(error_code=error.code, topics=[])
    )
