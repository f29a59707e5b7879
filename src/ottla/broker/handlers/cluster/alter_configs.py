"""AlterConfigs: replace all settings of a resource (cluster/configs.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.config_changes import alter
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.cluster.configs import alter_configs_plan
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(AlterConfigsRequest, is_paced=True, needs=(Need(AclOperation.ALTER_CONFIGS, AclResource.CLUSTER),))


async def handle(broker: Broker, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    answers = await alter(broker, request.resources, alter_configs_plan, request, AlterConfigsResourceResponse)
    return AlterConfigsResponse(responses=answers)
