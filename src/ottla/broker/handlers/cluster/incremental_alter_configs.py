"""IncrementalAlterConfigs: set, remove, append to or subtract from single settings (cluster/configs.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.config_changes import alter
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.config_needs import ConfigNeeds
from ottla.cluster.configs import incremental_alter_configs_plan
from ottla.protocol.access import AclOperation
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


NEEDS = ConfigNeeds(AclOperation.ALTER_CONFIGS)
SERVES = Served(IncrementalAlterConfigsRequest, is_paced=True, needs=NEEDS.declared)


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    plan = incremental_alter_configs_plan
    answers = await alter(broker, request, context, NEEDS, plan, AlterConfigsResourceResponse)
    return IncrementalAlterConfigsResponse(responses=answers)
