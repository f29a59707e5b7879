"""DescribeGroups: state and members of classic groups, each asked at its own shard. One that is named twice is told
once: an answer must not grow with what a request repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.broker.security.operations import GROUP_OPERATIONS
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(
    DescribeGroupsRequest,
    is_paced=True,
    needs=(Need(AclOperation.DESCRIBE, AclResource.GROUP, lambda request: request.groups),),
)


async def handle(broker: Broker, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    with broker.pacing.turn(context.connection) as pace:
        answers = await broker.groups.ask_each(
            pace,
            dict.fromkeys(request.groups),
            GroupShard.describe_groups,
            lambda group_id: DescribeGroupsRequest(groups=[group_id]),
            context,
            _refused,
        )
    groups = [group for answer in answers for group in answer.groups]
    if request.include_authorized_operations:
        for group in groups:
            group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


def _refused(group_id: str, error: BrokerError) -> DescribeGroupsResponse:
    group = DescribedGroup(
        error_code=error.code, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
    )
    return DescribeGroupsResponse(groups=[group])
