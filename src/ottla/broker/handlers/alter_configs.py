"""AlterConfigs: replace all settings of a resource (cluster/configs.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.cluster.config_changes import alter
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.cluster.configs import alter_configs_plan
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: AlterConfigsRequest, context: RequestContext) -> Later[Any]:
    return alter(broker, request, alter_configs_plan, AlterConfigsResponse, AlterConfigsResourceResponse)
