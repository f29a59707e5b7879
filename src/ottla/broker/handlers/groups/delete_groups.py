"""DeleteGroups: remove empty groups with their offsets, each asked at its own shard."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.served import Need, Served
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(
    DeleteGroupsRequest,
    is_paced=True,
    needs=(Need(AclOperation.DELETE, AclResource.GROUP, lambda request: request.groups_names),),
)


async def handle(broker: Broker, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    asked = []
    with broker.pacing.turn(context.connection) as pace:
        for group_id in dict.fromkeys(request.groups_names):
            asked.append(_ask(broker, group_id, context))
            await pace.step()
    return DeleteGroupsResponse(results=[result for each in asked for result in (await each).results])


def _ask(broker: Broker, group_id: str, context: RequestContext) -> asyncio.Future[DeleteGroupsResponse]:
    def refused(error: BrokerError) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group_id, error_code=error.code)])

    single = DeleteGroupsRequest(groups_names=[group_id])
    return broker.groups.ask_or(group_id, GroupShard.delete_groups, single, context, refused)
