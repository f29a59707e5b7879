"""DescribeGroups: state and members of classic groups, each asked at its own shard. One that is named twice is told
once: an answer must not grow with what a request repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.answers import Later
from ottla.broker.requests.long_work import Steps, ask_each
from ottla.broker.security.operations import GROUP_OPERATIONS
from ottla.errors import BrokerError
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: DescribeGroupsRequest, context: RequestContext) -> Later[Any]:
    return broker.long_work.do(_steps(broker, request, context), context.connection)


def _steps(broker: Broker, request: DescribeGroupsRequest, context: RequestContext) -> Steps[Later[Any]]:
    def joined(answers: list[DescribeGroupsResponse]) -> DescribeGroupsResponse:
        groups = [group for answer in answers for group in answer.groups]
        if request.include_authorized_operations:
            for group in groups:
                group.authorized_operations = GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=groups)

    return ask_each((_one(broker, each, context) for each in dict.fromkeys(request.groups)), joined)


def _one(broker: Broker, group_id: str, context: RequestContext) -> Later[Any]:
    try:
        return broker.groups.ask(
            group_id, GroupShard.describe_groups, DescribeGroupsRequest(groups=[group_id]), context
        )
    except BrokerError as error:
        refused = DescribedGroup(
            error_code=error.code, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
        )
        return Later.given(DescribeGroupsResponse(groups=[refused]))
