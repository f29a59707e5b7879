"""JoinGroup: enter a classic group and wait for the others. The group's coordinator decides (coordinators/groups)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(
    JoinGroupRequest, needs=(Need(AclOperation.READ, AclResource.GROUP, lambda request: [request.group_id]),)
)


async def handle(broker: Broker, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    answer: JoinGroupResponse = await broker.groups.ask(request.group_id, GroupShard.join_group, request, context)
    return answer
