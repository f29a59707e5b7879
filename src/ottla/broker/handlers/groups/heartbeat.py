"""Heartbeat: a member of a classic group is alive. The group's coordinator decides (coordinators/groups)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
SERVES = Served(HeartbeatRequest, needs=(READ_GROUP,))


async def handle(broker: Broker, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    READ_GROUP.check(broker, context, request.group_id)
    answer: HeartbeatResponse = await broker.groups.ask(request.group_id, GroupShard.heartbeat, request, context)
    return answer
