"""AlterConfigs: replace all settings of a resource (cluster/configs.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.config_changes import alter
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.config_needs import ConfigNeeds
from ottla.cluster.configs import alter_configs_plan
from ottla.cluster.model import ResourceType
from ottla.protocol.access import AclOperation
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


# Loggers cannot be altered by this request, whoever asks.
NEEDS = ConfigNeeds(AclOperation.ALTER_CONFIGS, of_cluster=(ResourceType.BROKER, ResourceType.CLIENT_METRICS))
SERVES = Served(AlterConfigsRequest, is_paced=True, needs=NEEDS.declared)


async def handle(broker: Broker, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    plan = alter_configs_plan
    answers = await alter(broker, request, context, NEEDS, plan, AlterConfigsResourceResponse)
    return AlterConfigsResponse(responses=answers)
