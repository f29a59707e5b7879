"""DeleteGroups: remove empty groups with their offsets, each asked at its own shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.answers import Later
from ottla.broker.requests.long_work import Steps, ask_each
from ottla.errors import BrokerError
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: DeleteGroupsRequest, context: RequestContext) -> Later[Any]:
    return broker.long_work.do(_steps(broker, request, context), context.connection)


def _steps(broker: Broker, request: DeleteGroupsRequest, context: RequestContext) -> Steps[Later[Any]]:
    def joined(answers: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[result for answer in answers for result in answer.results])

    return ask_each((_one(broker, each, context) for each in dict.fromkeys(request.groups_names)), joined)


def _one(broker: Broker, group_id: str, context: RequestContext) -> Later[Any]:
    try:
        return broker.groups.ask(
            group_id, GroupShard.delete_groups, DeleteGroupsRequest(groups_names=[group_id]), context
        )
    except BrokerError as error:
        refused = DeletableGroupResult(group_id=group_id, error_code=error.code)
        return Later.given(DeleteGroupsResponse(results=[refused]))
