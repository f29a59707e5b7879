"""AlterClientQuotas: set and remove quotas of users, client ids and addresses (cluster/quotas.py).

The same in versions 0 and 1: one result per entity. An address may be a host name, which must have an address when the
quota is set; it is looked up before the change takes its place in line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.host_names import is_address
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.quotas import IP, alter_client_quotas_plan
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


ALTER_CONFIGS = Need(AclOperation.ALTER_CONFIGS, AclResource.CLUSTER, Refused.ENTRY)
SERVES = Served(AlterClientQuotasRequest, is_paced=True, needs=(ALTER_CONFIGS,))


async def handle(
    broker: Broker, request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    if not ALTER_CONFIGS.is_met(broker, context):
        return AlterClientQuotasResponse(entries=_refusals(request, ALTER_CONFIGS.refusal(context)))
    named = {part.entity_name for entry in request.entries for part in entry.entity if part.entity_type == IP}
    host_names = {name for name in named if name and not is_address(name)}
    known_hosts = await broker.look_up_hosts(host_names, broker.clock) if host_names else frozenset()
    try:
        plan = await broker.link.change(
            lambda image: alter_client_quotas_plan(
                image, request, is_address=lambda text: text in known_hosts or is_address(text)
            )
        )
    except BrokerError as error:
        return AlterClientQuotasResponse(entries=_refusals(request, error))
    return AlterClientQuotasResponse(entries=plan.answers)


def _refusals(request: AlterClientQuotasRequest, error: BrokerError) -> list[ResponseEntryData]:
    message = str(error)
    return [
        ResponseEntryData(error_code=error.code, error_message=message, entity=list(entry.entity))
        for entry in request.entries
    ]
