"""SyncGroup: the leader hands out the assignment, the others wait for theirs (coordinators/groups)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
SERVES = Served(SyncGroupRequest, is_paced=True, needs=(READ_GROUP,))


async def handle(broker: Broker, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    READ_GROUP.check(broker, context, request.group_id)
    answer: SyncGroupResponse = await broker.groups.ask(request.group_id, GroupShard.sync_group, request, context)
    return answer
