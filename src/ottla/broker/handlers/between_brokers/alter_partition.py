"""AlterPartition, on the controller: a leader proposes in-sync sets (cluster/controller/isr_changes.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.link import member_of
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.cluster.controller.events import AlterPartitionAsked
from ottla.errors import BrokerError
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(AlterPartitionRequest, entries=WIDE_ENTRIES, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: AlterPartitionRequest, context: RequestContext) -> AlterPartitionResponse:
    try:
        answer = await member_of(broker).role.ask(AlterPartitionAsked(request))
        assert isinstance(answer, AlterPartitionResponse)
    except BrokerError as error:
        return AlterPartitionResponse(error_code=error.code, topics=[])
    return answer
