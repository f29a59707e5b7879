"""IncrementalAlterConfigs: set, remove, append to or subtract from single settings (cluster/configs.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.cluster.config_changes import alter
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.cluster.configs import incremental_alter_configs_plan
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext) -> Later[Any]:
    plan, response = incremental_alter_configs_plan, IncrementalAlterConfigsResponse
    return alter(broker, request, plan, response, AlterConfigsResourceResponse)
