"""ListGroups: the groups of every shard that is on this broker, filtered by state and type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import CoordinatorLoadInProgress
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DESCRIBE_CLUSTER = Need(AclOperation.DESCRIBE, AclResource.CLUSTER)
DESCRIBE_GROUP = Need(AclOperation.DESCRIBE, AclResource.GROUP, Refused.LEFT_OUT, unless=DESCRIBE_CLUSTER)
SERVES = Served(ListGroupsRequest, is_paced=True, needs=(DESCRIBE_GROUP,))


async def handle(broker: Broker, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    error_code = CoordinatorLoadInProgress.code if broker.groups.runtime.is_loading else 0
    asked = broker.groups.ask_all(GroupShard.list_groups, request, context)
    groups = [group for each in asked for group in (await each).groups]
    groups, _ = DESCRIBE_GROUP.split(broker, context, groups, lambda group: group.group_id)
    return ListGroupsResponse(error_code=error_code, groups=groups)
