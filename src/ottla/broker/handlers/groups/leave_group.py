"""LeaveGroup: members leave a classic group at once instead of timing out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
SERVES = Served(LeaveGroupRequest, is_paced=True, needs=(READ_GROUP,))


async def handle(broker: Broker, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    READ_GROUP.check(broker, context, request.group_id)
    answer: LeaveGroupResponse = await broker.groups.ask(request.group_id, GroupShard.leave_group, request, context)
    return answer
