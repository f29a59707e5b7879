"""ConsumerGroupDescribe: state and members of consumer groups, each asked at its own shard. Version 1 tells which
protocol a member speaks. A group that is named twice is told once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.consumer.describe import describe_error
from ottla.broker.coordinators.groups.shard import GroupShard
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
    asked = []
    with broker.pacing.turn(context.connection) as pace:
        for group_id in dict.fromkeys(request.group_ids):
            asked.append(_ask(broker, group_id, context))
            await pace.step()
    groups = [group for each in asked for group in (await each).groups]
    for group in groups:
        if request.include_authorized_operations and group.error_code == NONE:
            group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _ask(broker: Broker, group_id: str, context: RequestContext) -> asyncio.Future[ConsumerGroupDescribeResponse]:
    single = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    return broker.groups.ask_or(
        group_id,
        GroupShard.describe_consumer_groups,
        single,
        context,
        lambda error: ConsumerGroupDescribeResponse(groups=[describe_error(group_id, error)]),
    )
