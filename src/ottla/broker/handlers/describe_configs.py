"""DescribeConfigs: settings with their sources, synonyms, types and documentation (cluster/described.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.effects import RequestContext
from ottla.cluster.described import describe_configs
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=describe_configs(broker.image, request, broker.config_rules))
