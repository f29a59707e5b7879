"""DeleteGroups: remove empty groups with their offsets, each asked at its own shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DELETE_GROUP = Need(AclOperation.DELETE, AclResource.GROUP, Refused.ENTRY)
SERVES = Served(DeleteGroupsRequest, is_paced=True, needs=(DELETE_GROUP,))


async def handle(broker: Broker, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    groups, refused = DELETE_GROUP.split(broker, context, list(dict.fromkeys(request.groups_names)), str)
    with broker.pacing.turn(context.connection) as pace:
        answers = await broker.groups.ask_each(
            pace,
            groups,
            GroupShard.delete_groups,
            lambda group_id: DeleteGroupsRequest(groups_names=[group_id]),
            context,
            _refused,
        )
    answers += [_refused(group_id, DELETE_GROUP.refusal(context)) for group_id in refused]
    return DeleteGroupsResponse(results=[result for answer in answers for result in answer.results])


def _refused(group_id: str, error: BrokerError) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group_id, error_code=error.code)])
