"""What it needs to see or change settings, by the kind of the resource that has them.

    NEEDS = ConfigNeeds(AclOperation.ALTER_CONFIGS)
    NEEDS.is_met(broker, context, resource_type, name)

The settings of brokers, their loggers and client metrics are the cluster's, those of topics and groups are their own.
What is of no kind that we know needs nothing: it is refused for that.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from ottla.broker.requests.context import RequestContext
from ottla.broker.security.access import CLUSTER
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.model import ResourceType
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

OF_CLUSTER: Final = {
    ResourceType.BROKER: "brokers",
    ResourceType.BROKER_LOGGER: "loggers",
    ResourceType.CLIENT_METRICS: "client metrics",
}


class ConfigNeeds:
    """`of_cluster` are the kinds that need the operation on the cluster."""

    def __init__(self, operation: AclOperation, of_cluster: Collection[ResourceType] = tuple(OF_CLUSTER)) -> None:
        self._of_cluster = of_cluster
        self._topic = Need(operation, AclResource.TOPIC, Refused.ENTRY, when="topics")
        self._group = Need(operation, AclResource.GROUP, Refused.ENTRY, when="groups")
        self._cluster = Need(
            operation, AclResource.CLUSTER, Refused.ENTRY, when=", ".join(OF_CLUSTER[each] for each in of_cluster)
        )
        self.declared = (self._topic, self._group, self._cluster)

    def is_met(self, broker: Broker, context: RequestContext, resource_type: int, name: str) -> bool:
        need = self._of(resource_type)
        return need is None or need.is_met(broker, context, CLUSTER if need is self._cluster else name)

    def refusal(self, context: RequestContext, resource_type: int) -> BrokerError:
        return (self._of(resource_type) or self._cluster).refusal(context)

    def _of(self, resource_type: int) -> Need | None:
        if resource_type == ResourceType.TOPIC:
            return self._topic
        if resource_type == ResourceType.GROUP:
            return self._group
        return self._cluster if resource_type in self._of_cluster else None
