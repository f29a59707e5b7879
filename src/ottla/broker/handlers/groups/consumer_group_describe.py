"""ConsumerGroupDescribe: state and members of consumer groups, each asked at its own shard. Version 1 tells which
protocol a member speaks. A group that is named twice is described once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.consumer.describe import describe_error
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.broker.security.operations import GROUP_OPERATIONS
from ottla.errors import NONE, UnsupportedVersion
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(
    ConsumerGroupDescribeRequest,
    is_paced=True,
    needs=(Need(AclOperation.DESCRIBE, AclResource.GROUP, lambda request: request.group_ids),),
)


async def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    if "consumer" not in broker.settings.group_coordinator_rebalance_protocols:
        error = UnsupportedVersion("group.coordinator.rebalance.protocols does not name consumer")
        return ConsumerGroupDescribeResponse(groups=[describe_error(each, error) for each in request.group_ids])
    with broker.pacing.turn(context.connection) as pace:
        answers = await broker.groups.ask_each(
            pace,
            dict.fromkeys(request.group_ids),
            GroupShard.describe_consumer_groups,
            lambda group_id: ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False),
            context,
            lambda group_id, error: ConsumerGroupDescribeResponse(groups=[describe_error(group_id, error)]),
        )
    groups = [group for answer in answers for group in answer.groups]
    for group in groups:
        if request.include_authorized_operations and group.error_code == NONE:
            group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)
