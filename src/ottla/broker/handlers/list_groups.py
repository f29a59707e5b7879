"""ListGroups: the groups of every shard that is on this broker, filtered by state and type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.answers import Later, gather
from ottla.errors import CoordinatorLoadInProgress
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: ListGroupsRequest, context: RequestContext) -> Later[Any]:
    error = CoordinatorLoadInProgress.code if broker.groups.runtime.is_loading else 0
    together: Later[Any] = Later()

    def answered(answers: list[ListGroupsResponse]) -> None:
        groups = [group for answer in answers for group in answer.groups]
        together.give(ListGroupsResponse(error_code=error, groups=groups))

    gather(broker.groups.ask_all(GroupShard.list_groups, request, context), answered)
    return together
