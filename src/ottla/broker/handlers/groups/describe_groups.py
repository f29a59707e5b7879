"""DescribeGroups: state and members of classic groups, each asked at its own shard. One that is named twice is told
once: an answer must not grow with what a request repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DESCRIBE_GROUP = Need(AclOperation.DESCRIBE, AclResource.GROUP, Refused.ENTRY)
SERVES = Served(DescribeGroupsRequest, slices=Slices("groups", "groups", is_set=True), needs=(DESCRIBE_GROUP,))


async def handle(broker: Broker, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    asked, refused = DESCRIBE_GROUP.split(broker, context, list(dict.fromkeys(request.groups)), str)
    with broker.pacing.turn(context.connection) as pace:
        answers = await broker.groups.ask_each(
            pace,
            asked,
            GroupShard.describe_groups,
            lambda group_id: DescribeGroupsRequest(groups=[group_id]),
            context,
            _refused,
        )
    groups = [group for answer in answers for group in answer.groups]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == NONE:
                group.authorized_operations = broker.access.operations(context, AclResource.GROUP, group.group_id)
    groups += _refused_all(refused, context)
    return DescribeGroupsResponse(groups=groups)


def _refused_all(group_ids: list[str], context: RequestContext) -> list[DescribedGroup]:
    error = DESCRIBE_GROUP.refusal(context)
    return [group for each in group_ids for group in _refused(each, error).groups]


def _refused(group_id: str, error: BrokerError) -> DescribeGroupsResponse:
    group = DescribedGroup(
        error_code=error.code, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
    )
    return DescribeGroupsResponse(groups=[group])
